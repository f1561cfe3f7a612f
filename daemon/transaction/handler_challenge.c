/*
 * The response to http-01, by which the ACME authority sees that this server has the name (RFC 8555 section
 * 8.3). Only the token that the master published is answered; all other paths are served as ever.
 */
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/memory.h"
#include "daemon/transaction/reply.h"

#include <stdio.h>
#include <string.h>

static const char well_known[] = "/.well-known/acme-challenge/";

static bool is_for(const struct request *request, const char *token)
{
    size_t prefix = strlen(well_known), length = strlen(token);

    return (request->method == METHOD_GET || request->method == METHOD_HEAD) &&
           request->target.length == prefix + length &&
           memcmp(request->target.start, well_known, prefix) == 0 &&
           memcmp(request->target.start + prefix, token, length) == 0;
}

bool handler_challenge(struct transaction *transaction, enum transaction_result *result)
{
    const struct request *request = transaction->request;
    struct challenge_copy challenge;
    char text[sizeof(challenge.token) + sizeof(challenge.thumbprint)];
    struct resource *page;
    int length;

    if (!segment_read_challenge(transaction->context->worker->segment, &challenge) ||
        challenge.kind != CHALLENGE_HTTP_01 || !is_for(request, challenge.token))
        return false;
    length = snprintf(text, sizeof(text), "%s.%s", challenge.token, challenge.thumbprint);
    if (page_new(request->target,
                 "Content-Type: application/octet-stream\r\nCache-Control: no-store\r\n", text,
                 (size_t)length, &page) == 0) {
        *result = reply_page(transaction, 200, page);
        return true;
    }
    memory_make_room(transaction->context); /* for the authority's next request */
    *result = reply_error(transaction, 503);
    return true;
}
