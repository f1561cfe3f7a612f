#include "daemon/connection/timeouts.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/loop.h"
#include "daemon/transaction/accounting.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { LINGER_MS = 2000, ACTIVE_MS = 2000, STALLED_MS = 5000, LOG_RETRY_MS = 1, LAST_READS = 64 };

bool connection_has_unread(const struct connection *connection)
{
    char byte;

    return connection->buffered || recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The protocol may change while the event is added. */
static void on_socket_ready(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;

    connection->protocol->ready(fd, what, connection);
}

static void change_event(struct connection *connection, short what)
{
    if (connection->watching != 0)
        event_del(&connection->event);
    connection->watching = 0;
    if (what == 0)
        return;
    event_assign(&connection->event, connection->loop->base, connection->fd,
                 (short)(what | EV_PERSIST), on_socket_ready, connection);
    if (event_add(&connection->event, NULL) == 0) /* else its deadline closes it */
        connection->watching = (uint8_t)what;
}

void connection_watch(struct connection *connection, short what)
{
    if (connection->watching != what)
        change_event(connection, what);
    if (UNLIKELY(connection->buffered) && connection->watching == EV_READ)
        event_active(&connection->event, EV_READ, 0);
}

static void move_to_list(struct connection *connection, enum deadline deadline)
{
    struct event_loop *loop = connection->loop;

    TAILQ_REMOVE(&loop->connections[connection->deadline], connection, link);
    TAILQ_INSERT_TAIL(&loop->connections[deadline], connection, link);
    connection->deadline = (uint8_t)deadline;
    connection->deadline_from_ns = loop->context.loop_now_ns;
    connection->idle = false;
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

/* Activity */

bool connection_is_recent(const struct connection *connection)
{
    return connection->deadline_from_ns + ACTIVE_MS * NS_PER_MS >=
           connection->loop->context.loop_now_ns;
}

bool connection_is_active(const struct connection *connection)
{
    return connection_is_recent(connection) && !connection->idle && connection->client.requests > 0;
}

uint32_t connections_count_active(const struct event_loop *loop)
{
    const struct connection *connection;
    uint32_t active = 0;

    for (enum deadline i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_FOREACH_REVERSE(connection, &loop->connections[i], connection_list, link)
        {
            if (!connection_is_recent(connection))
                break;
            active += connection_is_active(connection);
        }
    return active;
}

/* Bytes that the client has not acknowledged. */
static int bytes_unsent(const struct connection *connection)
{
    int bytes = 0;

    ioctl(connection->fd, SIOCOUTQ, &bytes);
    return bytes;
}

/*
 * True if the client has taken bytes more slowly than min_send_rate for send_timeout; else begins a
 * new measurement after that time. If the client has everything, the delay is ours.
 */
static bool client_is_too_slow(struct connection *connection)
{
    const struct config *config = connection->loop->context.worker->config;
    uint64_t now_ns = connection->loop->context.loop_now_ns;
    uint64_t ms = (now_ns - connection->send_from_ns) / NS_PER_MS;
    uint64_t unsent = (uint64_t)connection->unacknowledged;

    if (connection->send_from_ns != 0 && ms < config->connections_send_timeout)
        return false;
    if (connection->send_from_ns != 0 && unsent > 0 && unsent <= connection->send_bytes &&
        (connection->send_bytes - unsent) * 1000 < config->connections_min_send_rate * ms)
        return true;
    connection->send_from_ns = now_ns;
    connection->send_bytes = unsent;
    return false;
}

void connection_wait_for_client(struct connection *connection)
{
    connection->unacknowledged = bytes_unsent(connection);
    connection_watch(connection, EV_WRITE);
    if (!client_is_too_slow(connection) || connection->deadline != DEADLINE_SEND)
        connection_set_deadline(connection, DEADLINE_SEND);
}

void connection_count_sent(struct connection *connection, uint64_t bytes, bool complete)
{
    connection->send_bytes += bytes;
    if (complete)
        connection->send_from_ns = 0;
}

/* The log ring */

void loop_wait_for_log(struct event_loop *loop)
{
    if (loop->log_full)
        return;
    loop->log_full = true;
    accounting_begin_wait(&loop->context);
    loop_start_timer(loop->log_retry, LOG_RETRY_MS);
}

void connection_wait_for_log(struct connection *connection)
{
    connection->log_blocked = true;
    connection_wait(connection, 0, DEADLINE_NONE);
    loop_wait_for_log(connection->loop);
}

void connections_retry_log(struct event_loop *loop)
{
    struct connection *connection = TAILQ_FIRST(&loop->connections[DEADLINE_NONE]);

    loop->log_full = false;
    accounting_check_wait(&loop->context);
    while (connection != NULL && !loop->log_full) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->log_blocked) {
            connection->log_blocked = false;
            connection->protocol->resume(connection);
        }
        connection = next;
    }
    if (!loop->log_full && loop->context.first_waiting == NULL)
        loop->context.log_wait_from_ns = 0;
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
 * received bytes without an event. If so, and it is fast enough, restarts its deadline and returns
 * true.
 */
static bool client_has_progressed(struct connection *connection)
{
    int before = connection->unacknowledged;

    connection->unacknowledged = bytes_unsent(connection);
    if (connection->unacknowledged >= before)
        return false;
    if (client_is_too_slow(connection)) {
        metric_add(connection->loop->context.metrics, METRIC_connections_too_slow, 1);
        return false;
    }
    connection_set_deadline(connection, DEADLINE_SEND);
    return true;
}

/* Those that have waited longest are first in the list. */
uint32_t connections_count_stalled(struct event_loop *loop)
{
    struct connection *connection = TAILQ_FIRST(&loop->connections[DEADLINE_SEND]);
    uint32_t stalled = 0;

    while (connection != NULL &&
           connection->deadline_from_ns + STALLED_MS * NS_PER_MS <= loop->context.loop_now_ns) {
        struct connection *next = TAILQ_NEXT(connection, link);
        int unsent = bytes_unsent(connection), before = connection->unacknowledged;

        if (unsent >= before) {
            stalled++;
        } else {
            connection->unacknowledged = unsent;
            if (client_is_too_slow(connection))
                connection->unacknowledged = before;
            else
                connection_restart_deadline(connection);
        }
        connection = next;
    }
    return stalled;
}

bool connection_receives_the_rest(struct connection *connection)
{
    const struct config *config = connection->loop->context.worker->config;
    uint64_t now_ns = connection->loop->context.loop_now_ns;
    uint64_t ms = (now_ns - connection->linger_from_ns) / NS_PER_MS;
    int64_t unsent = bytes_unsent(connection), taken = connection->unacknowledged - unsent;

    if (unsent == 0)
        return false;
    /* Less than nothing: it is the first look. */
    if (taken == 0 ||
        (taken > 0 && (uint64_t)taken * 1000 < config->connections_min_send_rate * ms))
        return ms < config->connections_send_timeout;
    connection->unacknowledged = (int)unsent;
    connection->linger_from_ns = now_ns;
    return true;
}

static void expire_connection(struct connection *connection)
{
    enum deadline deadline = (enum deadline)connection->deadline;

    if (deadline == DEADLINE_LINGER && connection_receives_the_rest(connection)) {
        connection_restart_deadline(connection);
        return;
    }
    if (deadline == DEADLINE_SEND && client_has_progressed(connection))
        return;
    if (deadline != DEADLINE_LINGER)
        metric_add(connection->loop->context.metrics, METRIC_connections_timed_out, 1);
    connection->protocol->timed_out(connection);
}

/*
 * If this process was stopped or starved, the rest of a request may have arrived in time: reads
 * what has arrived from the first connection of LIST. Bounded, because the client may be sending.
 */
static void read_late(struct connection_list *list)
{
    struct connection *connection = TAILQ_FIRST(list);

    for (int i = 0; i < LAST_READS; i++) {
        if (TAILQ_FIRST(list) != connection || !connection_awaits_request(connection) ||
            !connection_has_unread(connection))
            return;
        connection->protocol->ready(connection->fd, EV_READ, connection);
    }
}

void timeouts_expire(struct event_loop *loop)
{
    const struct config *config = loop->context.worker->config;
    uint64_t now_ns = loop->context.loop_now_ns;

    for (enum deadline i = 0; i < DEADLINE_NONE; i++) {
        uint64_t patience_ns = timeout_ns(config, i);
        struct connection *connection;

        while ((connection = TAILQ_FIRST(&loop->connections[i])) != NULL &&
               connection->deadline_from_ns + patience_ns <= now_ns) {
            read_late(&loop->connections[i]);
            if (TAILQ_FIRST(&loop->connections[i]) == connection)
                expire_connection(connection);
        }
    }
}
