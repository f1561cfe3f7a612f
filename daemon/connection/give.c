#include "daemon/connection/give.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"

static bool may_go(const struct connection *connection, uint32_t destination)
{
    const struct read_buffer *unserved = connection->unserved;

    if (destination == DESTINATION_MASTER)
        return connection->tls == NULL && connection_is_between_requests(connection) &&
               (unserved == NULL || unserved->length <= PASSED_BYTES_MAX);
    return connection->client.jobs_out == 0 && !connection->client.closing &&
           !connection->lingering;
}

/* Of each WANTED-th part of the active connections, gives the last to have had a request. */
static void give_active(struct event_loop *loop, const struct give *give, uint32_t wanted)
{
    uint32_t active = connections_count_active(loop), due = 0;

    wanted = wanted < active ? wanted : active;
    if (wanted == 0)
        return;
    for (enum deadline i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_LAST(&loop->connections[i], connection_list);

        while (connection != NULL && connection_is_recent(connection)) {
            struct connection *before = TAILQ_PREV(connection, connection_list, link);

            due += connection_is_active(connection) ? wanted : 0;
            if (due >= active && may_go(connection, give->destination)) {
                due -= active;
                connection_hand_over(connection, give->destination, give->reason);
            }
            connection = before;
        }
    }
}

/* Gives up to GIVE->count, first those that wait for a request. Returns how many are missing. */
static uint32_t give_idle(struct event_loop *loop, const struct give *give)
{
    uint32_t left = give->count;

    for (enum deadline i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&loop->connections[i]);

        while (connection != NULL && left > 0 && !connection_is_active(connection)) {
            struct connection *next = TAILQ_NEXT(connection, link);

            if (may_go(connection, give->destination)) {
                connection_hand_over(connection, give->destination, give->reason);
                left--;
            }
            connection = next;
        }
    }
    return left;
}

void connections_give(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;
    const struct give *give = CONTAINER_OF(item, struct give, item);

    if (loop->mode == THREAD_SERVING)
        give_active(loop, give, give->idle ? give_idle(loop, give) : give->count);
    metric_set(loop->context.metrics, METRIC_connections_active, connections_count_active(loop));
    mailbox_post(loop->context.worker->main, item, give->given);
}
