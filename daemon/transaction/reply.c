#include "daemon/transaction/reply.h"

#include "common/macros.h"
#include "daemon/http/conditional.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/admission.h"
#include "daemon/worker/thread.h"

static bool connection_goes_on(const struct exchange *exchange)
{
    const struct config *config = exchange->thread->site->config;
    struct connection *connection = exchange->connection;

    return exchange->request->keep_alive && config->connections_keepalive && !connection->closing &&
           exchange->thread->mode != THREAD_STOPPING && exchange->thread->mode != THREAD_RETIRING &&
           (config->connections_keepalive_below == 0 || admission_keeps_alive(exchange->thread)) &&
           (config->connections_keepalive_requests == 0 ||
            connection->requests + 1 < config->connections_keepalive_requests) &&
           (LIKELY(!connection->came_over) || !admission_outgrown(connection));
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

/* Pages have no validators: only "*" can hold of them, and of errors nothing (section 13.2.1). */
static enum verdict judge_page(const struct exchange *exchange, int status)
{
    static const struct validators none = {.dated = false};

    return status == 200
               ? conditional_verdict(exchange->request, &none, exchange->thread->prefixes.second)
               : VERDICT_PROCEED;
}

static enum exchange_result refuse_page(struct exchange *exchange, struct resource *page)
{
    reply_drop(exchange, page);
    exchange->may_wait = false; /* a second look would have to make the page again */
    return reply_error(exchange, 412);
}

static enum exchange_result answer_known_page(struct exchange *exchange, enum outcome outcome,
                                              struct resource *page)
{
    reply_begin(exchange, 304);
    reply_put_headers(exchange);
    reply_put(exchange, page->validators);
    reply_put(exchange, SPAN("\r\n"));
    reply_account(exchange, 304, outcome, 0);
    reply_drop(exchange, page);
    return EXCHANGE_ANSWERED;
}

enum exchange_result reply_page(struct exchange *exchange, int status, struct resource *page)
{
    enum verdict verdict = judge_page(exchange, status);
    enum outcome outcome = status >= 400                          ? OUTCOME_ERROR
                           : exchange->outcome == OUTCOME_OFFLOAD ? OUTCOME_OFFLOAD
                                                                  : OUTCOME_MISS;

    exchange->outcome = OUTCOME_ERROR; /* for the cache it was no request */
    if (verdict == VERDICT_PRECONDITION_FAILED)
        return refuse_page(exchange, page);
    if (verdict == VERDICT_NOT_MODIFIED)
        return answer_known_page(exchange, outcome, page);
    reply_begin(exchange, status);
    reply_put_headers(exchange);
    output_put(&exchange->thread->output, page->answer, page->head_length);
    reply_account(exchange, status, outcome, page->body_length);
    reply_body(exchange, page, (struct byte_range){0, page->body_length}, true);
    return EXCHANGE_ANSWERED;
}

bool reply_wants_body(const struct exchange *exchange)
{
    return exchange->request->method != METHOD_HEAD;
}

void reply_drop(const struct exchange *exchange, struct resource *resource)
{
    resource_release(exchange->thread->site->cache, resource);
}

void reply_body(const struct exchange *exchange, struct resource *resource, struct byte_range part,
                bool held)
{
    struct output *output = &exchange->thread->output;
    uint64_t offset = resource->fd < 0 ? resource->head_length + part.first : part.first;

    if (reply_wants_body(exchange) && (resource->fd >= 0 || part.length > OUTPUT_COPY_MAX)) {
        output->body = resource;
        output->body_held = held;
        output->body_offset = offset;
        output->body_left = part.length;
        return;
    }
    if (reply_wants_body(exchange))
        output_put(output, resource->answer + offset, part.length);
    if (held)
        reply_drop(exchange, resource);
}

void reply_account(const struct exchange *exchange, int status, enum outcome outcome,
                   uint64_t body_bytes)
{
    account_pack(exchange->connection, exchange->request, status, outcome,
                 reply_wants_body(exchange) ? body_bytes : 0, exchange->began_ns);
}
