#include "daemon/route.h"

#include "daemon/handler.h"
#include "daemon/reply.h"
#include "daemon/target.h"

enum exchange_result route_answer(struct exchange *exchange)
{
    enum http_method method = exchange->request->method;
    enum exchange_result result;
    struct target target;
    int status;

    if (method != METHOD_GET && method != METHOD_HEAD)
        return reply_error(exchange, method == METHOD_UNKNOWN ? 501 : 405);
    status = target_canonical(exchange->request->target, &target);
    if (status != 0)
        return reply_error(exchange, status);
    exchange->path = target.path;
    result = handler_files(exchange, &target);
    exchange->path = NULL;
    return result;
}
