#include "daemon/connection/shedding.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/connection/timeouts.h"
#include "daemon/transaction/shortage.h"

enum {
    IDLE_MIN_MS = 2000,     /* the list of idle connections is ordered to within a second */
    ASK_AGAIN_MS = 250,     /* after a request that found no idle connection */
    LOOKED_AT_IN_VAIN = 16, /* connections with an unread request, per call */
};

static const enum metric counters[SHORTAGE_COUNT] = {
    [SHORTAGE_CONNECTIONS] = METRIC_connections_shed_max,
    [SHORTAGE_DESCRIPTORS] = METRIC_connections_shed_descriptors,
    [SHORTAGE_MEMORY] = METRIC_connections_shed_memory,
};

uint32_t shed_idle(struct event_loop *loop, enum shortage reason, uint32_t wanted)
{
    struct connection *connection = TAILQ_FIRST(&loop->connections[DEADLINE_KEEPALIVE]);
    uint64_t now_ns = loop->context.loop_now_ns;
    uint32_t closed = 0, in_vain = 0;

    while (connection != NULL && closed < wanted && in_vain < LOOKED_AT_IN_VAIN &&
           now_ns >= connection->deadline_from_ns + IDLE_MIN_MS * NS_PER_MS) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection_has_unread(connection)) {
            in_vain++;
        } else {
            connection_close(connection);
            closed++;
        }
        connection = next;
    }
    metric_add(loop->context.metrics, counters[reason], closed);
    shortage_note(&loop->context.shortages, reason, now_ns, closed);
    return closed;
}

void shed_ask(struct event_loop *loop, enum shortage reason)
{
    if (loop->shed_pending || loop->context.loop_now_ns < loop->shed_after_ns)
        return;
    loop->shed_pending = true;
    loop->shed = (struct shed_request){
        .pass = loop->pass_shed_request, .asker = &loop->mailbox, .reason = reason, .wanted = 1};
    mailbox_post(loop->context.worker->main, &loop->shed.item, loop->shed.pass);
}

void shed_visit(struct mailbox_item *item, void *receiver)
{
    struct shed_request *request = CONTAINER_OF(item, struct shed_request, item);
    struct event_loop *loop = receiver;

    request->closed += shed_idle(loop, request->reason, request->wanted - request->closed);
    mailbox_post(loop->context.worker->main, item, request->pass);
}

void shed_finish(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    (void)item;
    loop->shed_pending = false;
    if (loop->shed.closed == 0) {
        loop->shed_after_ns = loop->context.loop_now_ns + ASK_AGAIN_MS * NS_PER_MS;
        return;
    }
    listen_sockets_resume(loop);
    listen_sockets_retry(loop);
}
