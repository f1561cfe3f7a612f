#include "daemon/connection/connection.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/transaction/transaction.h"

void loop_begin_iteration(struct event_loop *loop)
{
    struct transaction_context *context = &loop->context;

    if (UNLIKELY(context->loop_now_ns == 0)) {
        context->loop_now_ns = clock_monotonic_ns();
        metric_add(context->metrics, METRIC_wakeups, 1);
        response_prefixes_update(&context->prefixes,
                                 (int64_t)(context_wall_ns(context) / NS_PER_S));
    }
}

void loop_enter(struct event_loop *loop)
{
    loop_begin_iteration(loop);
    loop_serve_ahead(loop);
}

void loop_serve_ahead(struct event_loop *loop)
{
    struct read_ahead ahead = loop->ahead;

    if (ahead.connection == NULL)
        return;
    loop->ahead.connection = NULL;
    lookup_prefetch_entry(&loop->context);
    ahead.connection->protocol->serve(ahead.connection, ahead.data, ahead.length);
}
