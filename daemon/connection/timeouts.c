#include "daemon/connection/timeouts.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/transaction/accounting.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

enum { LINGER_MS = 2000 };

void connection_watch(struct connection *connection, short what)
{
    if (connection->watching == what)
        return;
    if (connection->watching != 0)
        event_del(&connection->event);
    connection->watching = (uint8_t)what;
    if (what == 0)
        return;
    event_assign(&connection->event, connection->loop->base, connection->fd,
                 (short)(what | EV_PERSIST), connection->protocol->ready, connection);
    event_add(&connection->event, NULL);
}

static void move_to_list(struct connection *connection, enum deadline deadline)
{
    struct event_loop *loop = connection->loop;

    TAILQ_REMOVE(&loop->connections[connection->deadline], connection, link);
    TAILQ_INSERT_TAIL(&loop->connections[deadline], connection, link);
    connection->deadline = (uint8_t)deadline;
    connection->deadline_from_ns = loop->context.loop_now_ns;
}

/*
 * Each list is ordered by deadline_from_ns. A connection that stays in its list moves to the end at
 * most once a second, so that a busy one costs little; its deadline may be a second late.
 */
void connection_set_deadline(struct connection *connection, enum deadline deadline)
{
    uint64_t waited_ns = connection->loop->context.loop_now_ns - connection->deadline_from_ns;
    bool stays = connection->deadline == deadline;

    if (stays && (connection_awaits_request(connection) || waited_ns < NS_PER_S))
        return;
    move_to_list(connection, deadline);
}

void connection_restart_deadline(struct connection *connection)
{
    move_to_list(connection, (enum deadline)connection->deadline);
}

void connection_wait(struct connection *connection, short what, enum deadline deadline)
{
    connection_watch(connection, what);
    connection_set_deadline(connection, deadline);
}

/* Bytes that the client has not acknowledged. */
static int bytes_unsent(const struct connection *connection)
{
    int bytes = 0;

    ioctl(connection->fd, SIOCOUTQ, &bytes);
    return bytes;
}

void connection_wait_for_client(struct connection *connection)
{
    connection->unsent = bytes_unsent(connection);
    connection_wait(connection, EV_WRITE, DEADLINE_SEND);
}

/* The log ring */

void connection_wait_for_log(struct connection *connection)
{
    static const struct timeval soon = {.tv_usec = 1000};
    struct event_loop *loop = connection->loop;

    connection->log_blocked = true;
    connection_wait(connection, 0, DEADLINE_NONE);
    if (loop->log_full)
        return;
    loop->log_full = true;
    metric_add(loop->context.metrics, METRIC_log_waits, 1);
    accounting_wake_logger(&loop->context);
    event_add(loop->log_retry, &soon);
}

void connections_retry_log(struct event_loop *loop)
{
    struct connection *connection = TAILQ_FIRST(&loop->connections[DEADLINE_NONE]);

    loop->log_full = false;
    while (connection != NULL && !loop->log_full) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->log_blocked) {
            connection->log_blocked = false;
            connection->protocol->resume(connection);
        }
        connection = next;
    }
}

/* Expiry */

/*
 * connection_set_deadline() restarts some deadlines at most once a second: these are one second
 * longer.
 */
static uint64_t timeout_ns(const struct config *config, enum deadline deadline)
{
    switch (deadline) {
    case DEADLINE_KEEPALIVE:
        return config->connections_keepalive_timeout * NS_PER_MS + NS_PER_S;
    case DEADLINE_HEADER:
        return config->connections_header_timeout * NS_PER_MS;
    case DEADLINE_BODY:
        return config->connections_body_timeout * NS_PER_MS;
    case DEADLINE_SEND:
        return config->connections_send_timeout * NS_PER_MS + NS_PER_S;
    case DEADLINE_LINGER:
        return LINGER_MS * NS_PER_MS + NS_PER_S;
    case DEADLINE_NONE:
    case DEADLINE_COUNT:
        break;
    }
    return UINT64_MAX;
}

/*
 * The socket becomes writable only when much of its buffer is free, so a slow client may have
 * received bytes without an event. If so, restarts its deadline and returns true.
 */
static bool client_has_progressed(struct connection *connection)
{
    int before = connection->unsent;

    connection->unsent = bytes_unsent(connection);
    if (connection->unsent >= before)
        return false;
    connection_set_deadline(connection, DEADLINE_SEND);
    return true;
}

static void expire(struct connection *connection)
{
    enum deadline deadline = (enum deadline)connection->deadline;

    if (deadline == DEADLINE_SEND && client_has_progressed(connection))
        return;
    if (deadline != DEADLINE_LINGER)
        metric_add(connection->loop->context.metrics, METRIC_connections_timed_out, 1);
    connection->protocol->timed_out(connection);
}

void timeouts_expire(struct event_loop *loop)
{
    const struct config *config = loop->context.worker->config;
    uint64_t now_ns = loop->context.loop_now_ns;

    for (enum deadline i = 0; i < DEADLINE_NONE; i++) {
        uint64_t patience_ns = timeout_ns(config, i);
        struct connection *connection;

        while ((connection = TAILQ_FIRST(&loop->connections[i])) != NULL &&
               connection->deadline_from_ns + patience_ns <= now_ns)
            expire(connection);
    }
}
