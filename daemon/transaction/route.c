#include "daemon/transaction/route.h"

#include "daemon/http/target.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <string.h>

/* The asterisk form, or an absolute form that ends with its authority: RFC 9112 section 3.2.4. */
static bool is_whole_server(struct span target)
{
    if (target.start[0] == '/')
        return false;
    for (size_t i = strlen("http://"); i < target.length; i++)
        if (strchr("/?#", target.start[i]) != NULL)
            return false;
    return true;
}

/* The handler for METHOD; NULL: none has it. */
static handler *find_handler(enum http_method method)
{
    switch (method) {
    case METHOD_GET:
    case METHOD_HEAD:
        return handler_files;
    case METHOD_OPTIONS:
        return handler_options;
    default:
        return NULL;
    }
}

bool route_has_method(enum http_method method)
{
    return find_handler(method) != NULL;
}

enum exchange_result route_answer(struct exchange *exchange)
{
    const struct request *request = exchange->request;
    handler *handle = find_handler(request->method);
    enum exchange_result result;
    struct target target;
    int status;

    if (handle == NULL)
        return reply_error(exchange, request->method == METHOD_UNKNOWN ? 501 : 405);
    if (request->method == METHOD_OPTIONS && is_whole_server(request->target))
        return handler_options(exchange, NULL);
    status = target_canonical(request->target, &target);
    if (status != 0)
        return reply_error(exchange, status);
    exchange->path = target.path;
    if (handle == handler_files &&
        handler_arithmetic_owns(exchange->thread->site->config, target.path))
        handle = handler_arithmetic;
    result = handle(exchange, &target);
    exchange->path = NULL;
    return result;
}
