#include "daemon/connection/timeouts.h"

#include "common/clock.h"
#include "daemon/http1/connection.h"

void waiting_watch(struct connection *connection, short what)
{
    if (connection->watching == what)
        return;
    if (connection->watching != 0)
        event_del(&connection->event);
    connection->watching = (uint8_t)what;
    if (what == 0)
        return;
    event_assign(&connection->event, connection->thread->base, connection->fd,
                 (short)(what | EV_PERSIST), serving_event, connection);
    event_add(&connection->event, NULL);
}

static void move(struct connection *connection, enum deadline deadline)
{
    struct serving_thread *thread = connection->thread;

    TAILQ_REMOVE(&thread->connections[connection->deadline], connection, link);
    TAILQ_INSERT_TAIL(&thread->connections[deadline], connection, link);
    connection->deadline = (uint8_t)deadline;
    connection->deadline_from_ns = thread->turn_ns;
}

/*
 * Each list is ordered by deadline_from_ns. A connection that stays in its list moves to the end
 * once a second at the most, so that a busy one costs nothing here; deadlines are that much later.
 */
void waiting_place(struct connection *connection, enum deadline deadline)
{
    struct serving_thread *thread = connection->thread;
    bool stays = connection->deadline == deadline;

    if (stays && (deadline == DEADLINE_HEADER || deadline == DEADLINE_BODY ||
                  thread->turn_ns - connection->deadline_from_ns < NS_PER_S))
        return;
    move(connection, deadline);
}

void waiting_renew(struct connection *connection)
{
    move(connection, (enum deadline)connection->deadline);
}

void waiting_for(struct connection *connection, short what, enum deadline deadline)
{
    waiting_watch(connection, what);
    waiting_place(connection, deadline);
}
