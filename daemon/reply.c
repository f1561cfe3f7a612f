#include "daemon/reply.h"

#include "common/macros.h"
#include "daemon/account.h"
#include "daemon/http_date.h"
#include "daemon/thread.h"

#include <string.h>

static bool connection_goes_on(const struct exchange *exchange)
{
    const struct config *config = exchange->thread->site->config;
    const struct connection *connection = exchange->connection;

    return exchange->request->keep_alive && config->connections_keepalive && !connection->closing &&
           exchange->thread->mode != THREAD_STOPPING &&
           (config->connections_keepalive_requests == 0 ||
            connection->requests + 1 < config->connections_keepalive_requests);
}

void reply_begin(const struct exchange *exchange, int status)
{
    struct output *output = &exchange->thread->output;
    enum persistence persistence = PERSIST_CLOSE;

    exchange->connection->closing = !connection_goes_on(exchange);
    if (exchange->connection->closing && exchange->request->keep_alive)
        exchange->connection->linger_wanted = true; /* it may send on, not knowing */
    if (!exchange->connection->closing)
        persistence = exchange->request->minor_version == 0 ? PERSIST_KEEP_ALIVE : PERSIST_DEFAULT;
    output->used += response_prefix(&exchange->thread->prefixes, status, persistence,
                                    output->buffer + output->used);
}

void reply_put(const struct exchange *exchange, struct span text)
{
    output_put(&exchange->thread->output, text.start, text.length);
}

void reply_put_headers(const struct exchange *exchange)
{
    struct output *output = &exchange->thread->output;

    output->used += header_rules_write(&exchange->thread->site->headers, exchange->path,
                                       HEADER_OF_ANSWER, output->buffer + output->used);
}

bool reply_wants_body(const struct exchange *exchange)
{
    return exchange->request->method != METHOD_HEAD;
}

void reply_drop(const struct exchange *exchange, struct resource *resource)
{
    resource_release(exchange->thread->site->cache, resource);
}

void reply_put_body(const struct exchange *exchange, struct resource *resource, bool held)
{
    struct output *output = &exchange->thread->output;

    if (resource->fd < 0 && resource->body_length <= OUTPUT_COPY_MAX) {
        output_put(output, resource->answer + resource->head_length, resource->body_length);
        if (held)
            reply_drop(exchange, resource);
        return;
    }
    output->body = resource;
    output->body_held = held;
    output->body_offset = resource->fd < 0 ? resource->head_length : 0;
    output->body_left = resource->body_length;
}

/* Conditional requests, RFC 9110 sections 13.1.2 and 13.1.3. */

static bool etag_listed(struct span list, struct span etag)
{
    const char *at = list.start, *end = list.start + list.length;

    if (span_is(list, SPAN("*")))
        return true;
    while (at < end) {
        const char *start, *close;

        while (at < end && (*at == ' ' || *at == '\t' || *at == ','))
            at++;
        if (end - at > 2 && at[0] == 'W' && at[1] == '/')
            at += 2; /* If-None-Match compares weakly */
        start = at;
        if (at >= end || *at != '"' ||
            (close = memchr(at + 1, '"', (size_t)(end - at - 1))) == NULL)
            return false;
        at = close + 1;
        if (span_is((struct span){start, (size_t)(at - start)}, etag))
            return true;
    }
    return false;
}

static bool not_modified(const struct exchange *exchange, const struct resource *resource)
{
    const struct request *request = exchange->request;
    int64_t since;

    if ((request->present & REQUEST_IF_NONE_MATCH) != 0)
        return etag_listed(request->if_none_match, resource->etag);
    return (request->present & REQUEST_IF_MODIFIED_SINCE) != 0 &&
           (request->repeated & REQUEST_IF_MODIFIED_SINCE) == 0 &&
           http_date_read(request->if_modified_since, exchange->thread->prefixes.second, &since) ==
               0 &&
           resource->mtime_s <= since;
}

void reply_account(const struct exchange *exchange, int status, enum outcome outcome,
                   uint64_t body_bytes)
{
    account_pack(exchange->connection, exchange->request, status, outcome,
                 reply_wants_body(exchange) ? body_bytes : 0, exchange->began_ns);
}

static void answer_not_modified(const struct exchange *exchange, struct resource *resource,
                                bool held)
{
    reply_begin(exchange, 304);
    reply_put(exchange, resource->validators);
    reply_put(exchange, SPAN("\r\n"));
    reply_account(exchange, 304, exchange->outcome, 0);
    if (held)
        reply_drop(exchange, resource);
}

enum exchange_result reply_resource(const struct exchange *exchange, struct resource *resource,
                                    bool held)
{
    if (UNLIKELY(not_modified(exchange, resource))) {
        answer_not_modified(exchange, resource, held);
        return EXCHANGE_ANSWERED;
    }
    reply_begin(exchange, 200);
    output_put(&exchange->thread->output, resource->answer, resource->head_length);
    reply_account(exchange, 200, exchange->outcome, resource->body_length);
    if (reply_wants_body(exchange))
        reply_put_body(exchange, resource, held);
    else if (held)
        reply_drop(exchange, resource);
    return EXCHANGE_ANSWERED;
}
