#include "daemon/transaction/transaction.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/negotiation.h"
#include "daemon/transaction/rate_limit.h"
#include "daemon/transaction/reply.h"
#include "daemon/transaction/route.h"
#include "daemon/worker/thread.h"

static bool asks_for_content(const struct request *request)
{
    return request->method == METHOD_GET || request->method == METHOD_HEAD;
}

static enum exchange_result answer(struct exchange *exchange)
{
    struct resource *resource = NULL;

    if (UNLIKELY(rate_limit_is_on(exchange->thread->site->segment)) &&
        !admission_of_request(exchange)) {
        exchange->may_wait = false; /* a second look would not know of the refusal */
        return reply_error(exchange, 429);
    }
    if (LIKELY(asks_for_content(exchange->request)))
        resource = lookup_front(exchange);
    if (LIKELY(resource != NULL)) {
        exchange->outcome = OUTCOME_HIT;
        return reply_resource(exchange, resource, false);
    }
    return exchange->connection->job_out ? EXCHANGE_WAITING : route_answer(exchange);
}

/* A request that never came to ask for a file is neither. */
static void count_outcome(const struct exchange *exchange)
{
    _Atomic uint64_t *metrics = exchange->thread->metrics;

    if (exchange->outcome == OUTCOME_HIT)
        metric_add(metrics, METRIC_cache_hits, 1);
    else if (exchange->outcome != OUTCOME_ERROR)
        metric_add(metrics, METRIC_cache_misses, 1);
}

/* Either the request waits, and began now, or it is answered and what was brought for it goes. */
static enum exchange_result conclude(struct exchange *exchange, enum exchange_result result)
{
    struct connection *connection = exchange->connection;

    if (result == EXCHANGE_WAITING) {
        connection->began_ns = exchange->began_ns;
        connection->closing = false; /* it is looked at again, and closes only when answered */
        return result;
    }
    connection->began_ns = 0;
    if (UNLIKELY(connection->loaded != NULL))
        loading_forget(connection, exchange->thread->site->cache);
    return result;
}

static struct exchange begin(struct connection *connection, const struct request *request)
{
    struct serving_thread *thread = connection->thread;

    return (struct exchange){
        .connection = connection,
        .thread = thread,
        .request = request,
        .began_ns = connection->began_ns != 0 ? connection->began_ns : thread->turn_ns,
        .retry_after_s = 1,
        .outcome = OUTCOME_ERROR,
        .accepts = negotiation_accepts(thread, request),
        .may_wait = true,
    };
}

enum exchange_result exchange_answer(struct connection *connection, const struct request *request)
{
    struct exchange exchange = begin(connection, request);
    enum exchange_result result;

    result = answer(&exchange);
    if (result == EXCHANGE_ANSWERED)
        count_outcome(&exchange);
    return conclude(&exchange, result);
}

enum exchange_result exchange_refuse(struct connection *connection, const struct request *request,
                                     int status)
{
    struct exchange exchange = begin(connection, request);

    connection->closing = true;
    connection->linger_wanted = true;
    exchange.may_wait = status != 408; /* nothing more is coming that could be looked at again */
    return conclude(&exchange, reply_error(&exchange, status));
}
