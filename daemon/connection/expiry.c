#include "daemon/connection/expiry.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/http1/connection.h"
#include "daemon/transaction/accounting.h"

enum { LINGER_MS = 2000 };

static uint64_t patience_ns(const struct config *config, enum deadline deadline)
{
    switch (deadline) {
    case DEADLINE_KEEPALIVE:
        return config->connections_keepalive_timeout * NS_PER_MS;
    case DEADLINE_HEADER:
        return config->connections_header_timeout * NS_PER_MS;
    case DEADLINE_BODY:
        return config->connections_body_timeout * NS_PER_MS;
    case DEADLINE_SEND:
        return config->connections_send_timeout * NS_PER_MS;
    case DEADLINE_LINGER:
        return LINGER_MS * NS_PER_MS;
    case DEADLINE_NONE:
    case DEADLINE_COUNT:
        break;
    }
    return UINT64_MAX;
}

/*
 * The socket becomes writable only when much of its buffer is free: a slow client may have taken a
 * part of it meanwhile. Then it has its time again.
 */
static bool takes_slowly(struct connection *connection)
{
    int before = connection->unsent;

    connection->unsent = serving_bytes_unsent(connection);
    if (connection->unsent >= before)
        return false;
    waiting_place(connection, DEADLINE_SEND);
    return true;
}

static void expire(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    enum deadline deadline = (enum deadline)connection->deadline;

    if (deadline == DEADLINE_SEND && takes_slowly(connection))
        return;
    if (deadline != DEADLINE_LINGER)
        metric_add(thread->metrics, METRIC_connections_timed_out, 1);
    if (waiting_is_for_request(connection) && account_may_begin(thread))
        serving_refuse_slow(connection);
    else
        connection_close(connection);
}

/* waiting_place() renews these once a second at the most. */
static uint64_t slack_ns(int deadline)
{
    return deadline == DEADLINE_HEADER || deadline == DEADLINE_BODY ? 0 : NS_PER_S;
}

void expiry_sweep(struct serving_thread *thread)
{
    for (int i = 0; i < DEADLINE_NONE; i++) {
        uint64_t patience = patience_ns(thread->site->config, (enum deadline)i);
        struct connection *connection;

        while ((connection = TAILQ_FIRST(&thread->connections[i])) != NULL &&
               connection->deadline_from_ns + patience + slack_ns(i) <= thread->turn_ns)
            expire(connection);
    }
}
