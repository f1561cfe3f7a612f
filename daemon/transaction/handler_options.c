#include "daemon/transaction/handler.h"
#include "daemon/transaction/reply.h"

/* The same methods go with every path, also with one where there is nothing yet. */
enum exchange_result handler_options(struct exchange *exchange, const struct target *target)
{
    (void)target;
    reply_begin(exchange, 200);
    reply_put_headers(exchange);
    reply_put(exchange, SPAN("Allow: " REPLY_ALLOWED "\r\nContent-Length: 0\r\n\r\n"));
    reply_account(exchange, 200, OUTCOME_HIT, 0);
    return EXCHANGE_ANSWERED;
}
