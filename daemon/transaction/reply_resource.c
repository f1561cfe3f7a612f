/* The answer for a file: 200, 206, 304, 412 or 416. */
#include "common/macros.h"
#include "daemon/http/conditional.h"
#include "daemon/http/range.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <inttypes.h>
#include <stdio.h>

enum { PARTIAL_FIELDS_MAX = 192 };

/* The fields that a client has which asks with If-Range: they are not told again. */
static bool has_fields(const struct exchange *exchange)
{
    return (exchange->request->present & REQUEST_IF_RANGE) != 0;
}

static enum exchange_result answer_whole(struct exchange *exchange, struct resource *resource,
                                         bool held)
{
    reply_begin(exchange, 200);
    output_put(&exchange->thread->output, resource->answer, resource->head_length);
    reply_account(exchange, 200, exchange->outcome, resource->body_length);
    reply_body(exchange, resource, (struct byte_range){0, resource->body_length}, held);
    return EXCHANGE_ANSWERED;
}

static enum exchange_result answer_not_modified(struct exchange *exchange,
                                                struct resource *resource, bool held)
{
    reply_begin(exchange, 304);
    reply_put(exchange, resource->validators);
    reply_put(exchange, SPAN("\r\n"));
    reply_account(exchange, 304, exchange->outcome, 0);
    if (held)
        reply_drop(exchange, resource);
    return EXCHANGE_ANSWERED;
}

static enum exchange_result answer_error(struct exchange *exchange, struct resource *resource,
                                         bool held, int status)
{
    enum exchange_result result;

    exchange->representation_bytes = resource->body_length;
    exchange->varies = resource->varies;
    if (exchange->path == NULL)
        exchange->path = resource->entry.path;
    result = reply_error(exchange, status);
    if (held)
        reply_drop(exchange, resource);
    return result;
}

static enum exchange_result answer_part(struct exchange *exchange, struct resource *resource,
                                        bool held, struct byte_range part)
{
    struct output *output = &exchange->thread->output;

    reply_begin(exchange, 206);
    output->used += (size_t)snprintf(output->buffer + output->used, PARTIAL_FIELDS_MAX,
                                     "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
                                     "\r\nContent-Length: %" PRIu64 "\r\n",
                                     part.first, part.first + part.length - 1,
                                     resource->body_length, part.length);
    if (has_fields(exchange)) {
        reply_put(exchange, resource->validators);
    } else {
        reply_put(exchange, resource->typing);
        reply_put(exchange, resource->sharing);
    }
    reply_put(exchange, SPAN("\r\n"));
    reply_account(exchange, 206, exchange->outcome, part.length);
    reply_body(exchange, resource, part, held);
    return EXCHANGE_ANSWERED;
}

static enum exchange_result answer_parts(struct exchange *exchange, struct resource *resource,
                                         bool held, struct byteranges *parts)
{
    struct output *output = &exchange->thread->output;

    reply_begin(exchange, 206);
    output->used += (size_t)snprintf(output->buffer + output->used, PARTIAL_FIELDS_MAX,
                                     "Content-Length: %" PRIu64 "\r\n"
                                     "Content-Type: multipart/byteranges; boundary=%s\r\n",
                                     parts->length, parts->boundary);
    reply_put(exchange, has_fields(exchange) ? resource->validators : resource->sharing);
    reply_put(exchange, SPAN("\r\n"));
    reply_account(exchange, 206, exchange->outcome, parts->length);
    output->body = resource;
    output->body_held = held;
    output->parts = parts;
    return EXCHANGE_ANSWERED;
}

/* The request is a GET with a Range that is to be honoured if it can be. */
static enum exchange_result answer_range(struct exchange *exchange, struct resource *resource,
                                         bool held)
{
    struct byteranges *parts;
    struct range_set set;

    switch (range_parse(exchange->request->range, resource->body_length, &set)) {
    case RANGE_UNSATISFIABLE:
        return answer_error(exchange, resource, held, 416);
    case RANGE_PARTIAL:
        if (set.count == 1)
            return answer_part(exchange, resource, held, set.range[0]);
        parts = byteranges_new(&set, resource->typing, resource->body_length);
        if (parts != NULL)
            return answer_parts(exchange, resource, held, parts);
        break;
    case RANGE_WHOLE:
        break;
    }
    return answer_whole(exchange, resource, held);
}

/* Something is asked of it beside that it be sent. The order is that of RFC 9110 section 13.2.2. */
static enum exchange_result answer_asked(struct exchange *exchange, struct resource *resource,
                                         bool held)
{
    const struct validators validators = {resource->etag, resource->dated, resource->modified_s,
                                          resource->modified_text};
    int64_t now = exchange->thread->prefixes.second;
    const struct request *request = exchange->request;

    switch (conditional_verdict(request, &validators, now)) {
    case VERDICT_PRECONDITION_FAILED:
        return answer_error(exchange, resource, held, 412);
    case VERDICT_NOT_MODIFIED:
        return answer_not_modified(exchange, resource, held);
    case VERDICT_PROCEED:
        break;
    }
    if ((request->present & ~request->repeated & REQUEST_RANGE) != 0 &&
        request->method == METHOD_GET && conditional_range_holds(request, &validators, now))
        return answer_range(exchange, resource, held);
    return answer_whole(exchange, resource, held);
}

enum exchange_result reply_resource(struct exchange *exchange, struct resource *resource, bool held)
{
    static const uint8_t asking = REQUEST_IF_MATCH | REQUEST_IF_NONE_MATCH |
                                  REQUEST_IF_MODIFIED_SINCE | REQUEST_IF_UNMODIFIED_SINCE |
                                  REQUEST_RANGE;

    if (LIKELY((exchange->request->present & asking) == 0))
        return answer_whole(exchange, resource, held);
    return answer_asked(exchange, resource, held);
}
