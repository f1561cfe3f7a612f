#include "daemon/connection/connection.h"

#include "common/client_address.h"
#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/http1/connection.h"
#include "daemon/http1/request_body.h"
#include "daemon/http1/response_writer.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/loading.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Coming and going */

static void join_thread(struct connection *connection, struct serving_thread *thread)
{
    connection->thread = thread;
    connection->deadline = DEADLINE_KEEPALIVE;
    connection->deadline_from_ns = thread->turn_ns;
    TAILQ_INSERT_TAIL(&thread->connections[DEADLINE_KEEPALIVE], connection, link);
    metric_add(thread->metrics, METRIC_connections_open, 1);
    thread->crowd_ns = 0;
    sending_moved(connection, false);
}

static void leave_thread(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;

    waiting_watch(connection, 0);
    sending_moved(connection, true);
    TAILQ_REMOVE(&thread->connections[connection->deadline], connection, link);
    metric_sub(thread->metrics, METRIC_connections_open, 1);
}

static struct connection *connection_new(int fd, const uint8_t *address)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->transport = &transport_plain;
    memcpy(connection->address, address, CLIENT_ADDRESS_BYTES);
    return connection;
}

void connection_accept(struct serving_thread *thread, int fd,
                       const uint8_t address[CLIENT_ADDRESS_BYTES])
{
    enum peers_verdict verdict = admission_of_connection(thread, address, false);
    struct connection *connection = NULL;

    if (verdict != PEERS_TOO_MANY)
        connection = connection_new(fd, address);
    if (connection == NULL) {
        admission_refuse(thread, fd, address, verdict);
        return;
    }
    connection->counted_peer = verdict == PEERS_COUNTED;
    metric_add(thread->metrics, METRIC_connections_accepted, 1);
    join_thread(connection, thread);
    serving_begin(connection);
}

/* Frees a connection that no thread serves. Any thread. */
static void discard(struct connection *connection, const struct site *site)
{
    if (connection->pending != NULL)
        sending_abandon(connection, site->cache, false);
    loading_forget(connection, site->cache);
    if (connection->counted_peer)
        peers_leave(site->peers, client_key(connection->address));
    if (connection->fd >= 0)
        close(connection->fd);
    receiving_end(connection);
    free(connection->input);
    free(connection);
}

void connection_close(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;

    if (connection->pending != NULL)
        sending_abandon(connection, thread->site->cache, true);
    leave_thread(connection);
    metric_add(thread->metrics, METRIC_connections_closed, 1);
    discard(connection, thread->site);
}

/* What its thread's mode demands */

static bool at_rest(const struct connection *connection)
{
    return connection->pending == NULL && !connection->job_out && !connection->closing &&
           !connection->lingering && connection->receiving == NULL;
}

static bool may_travel(const struct connection *connection)
{
    switch (connection->thread->mode) {
    case THREAD_MOVING:
        return !connection->job_out;
    case THREAD_DRAINING:
        return at_rest(connection) &&
               (connection->input == NULL || connection->input->length <= PASSED_BYTES_MAX);
    case THREAD_SERVING:
    case THREAD_STOPPING:
    case THREAD_RETIRING:
        break;
    }
    return false;
}

static void hand_over(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;

    leave_thread(connection);
    metric_add(thread->metrics, METRIC_connections_handed_over, 1);
    connection->log_blocked = false;
    connection->thread = NULL;
    mailbox_post(thread->site->main, &connection->item, ITEM_HANDED_OVER);
}

/* Returns true when the connection is the thread's no longer. */
bool connection_obey_mode(struct connection *connection)
{
    if (may_travel(connection)) {
        hand_over(connection);
        return true;
    }
    if (connection->thread->mode == THREAD_STOPPING && at_rest(connection) &&
        input_is_idle(connection)) {
        connection_close(connection);
        return true;
    }
    return false;
}

void connections_obey_mode(struct serving_thread *thread)
{
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&thread->connections[i]);

        while (connection != NULL) {
            struct connection *next = TAILQ_NEXT(connection, link);

            connection_obey_mode(connection);
            connection = next;
        }
    }
}

/* Adoption */

void connection_adopt(struct serving_thread *thread, struct connection *connection)
{
    join_thread(connection, thread);
    metric_add(thread->metrics, METRIC_connections_adopted, 1);
    if (connection_obey_mode(connection))
        return;
    if (connection->lingering)
        waiting_for(connection, EV_READ, DEADLINE_LINGER);
    else
        serving_resume(connection);
}

void connection_adopt_arrival(struct serving_thread *thread, struct arrival *arrival)
{
    enum peers_verdict verdict =
        admission_of_connection(thread, arrival->address, arrival->admitted);
    struct connection *connection = NULL;

    site_count_received(thread->site);
    if (verdict != PEERS_TOO_MANY)
        connection = connection_new(arrival->fd, arrival->address);
    if (connection != NULL && input_keep(connection, arrival->bytes, arrival->length)) {
        connection->requests = arrival->requests;
        connection->counted_peer = verdict == PEERS_COUNTED;
        connection->came_over = arrival->admitted;
        free(arrival);
        connection_adopt(thread, connection);
        return;
    }
    admission_refuse(thread, arrival->fd, arrival->address, verdict);
    free(connection);
    free(arrival);
}

struct arrival *connection_to_arrival(struct connection *connection, const struct site *site)
{
    size_t length = connection->input != NULL ? connection->input->length : 0;
    struct arrival *arrival = malloc(sizeof(*arrival) + length);

    if (arrival != NULL) {
        arrival->fd = connection->fd;
        arrival->requests = connection->requests;
        arrival->length = (uint32_t)length;
        arrival->admitted = true;
        memcpy(arrival->address, connection->address, sizeof(arrival->address));
        if (length > 0)
            memcpy(arrival->bytes, connection->input->bytes, length);
        connection->fd = -1;
    }
    discard(connection, site);
    return arrival;
}
