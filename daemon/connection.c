#include "daemon/connection.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/account.h"
#include "daemon/exchange.h"
#include "daemon/lookup.h"
#include "daemon/messages.h"
#include "daemon/sending.h"
#include "daemon/turn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_ROOM_LEAST = 4096, LINGER_MS = 2000 };

static void serve(struct connection *connection, const char *data, size_t length);
static void on_event(evutil_socket_t fd, short what, void *argument);

/* Waiting */

static void watch(struct connection *connection, short what)
{
    if (connection->watching == what)
        return;
    if (connection->watching != 0)
        event_del(&connection->event);
    connection->watching = (uint8_t)what;
    if (what == 0)
        return;
    event_assign(&connection->event, connection->thread->base, connection->fd,
                 (short)(what | EV_PERSIST), on_event, connection);
    event_add(&connection->event, NULL);
}

/*
 * Each list is ordered by deadline_from_ns. A connection that stays in its list moves to the end
 * once a second at the most, so that a busy one costs nothing here; deadlines are that much later.
 */
static void place(struct connection *connection, enum deadline deadline)
{
    struct serving_thread *thread = connection->thread;
    bool stays = connection->deadline == deadline;

    if (stays &&
        (deadline == DEADLINE_HEADER || thread->turn_ns - connection->deadline_from_ns < NS_PER_S))
        return;
    TAILQ_REMOVE(&thread->connections[connection->deadline], connection, link);
    TAILQ_INSERT_TAIL(&thread->connections[deadline], connection, link);
    connection->deadline = (uint8_t)deadline;
    connection->deadline_from_ns = thread->turn_ns;
}

static void wait_for(struct connection *connection, short what, enum deadline deadline)
{
    watch(connection, what);
    place(connection, deadline);
}

/* Coming and going */

static void join_thread(struct connection *connection, struct serving_thread *thread)
{
    connection->thread = thread;
    connection->deadline = DEADLINE_KEEPALIVE;
    connection->deadline_from_ns = thread->turn_ns;
    TAILQ_INSERT_TAIL(&thread->connections[DEADLINE_KEEPALIVE], connection, link);
    metric_add(thread->metrics, METRIC_connections_open, 1);
    sending_moved(connection, false);
}

static void leave_thread(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;

    watch(connection, 0);
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
    memcpy(connection->address, address, LOG_ADDRESS_BYTES);
    return connection;
}

void connection_accept(struct serving_thread *thread, int fd,
                       const uint8_t address[LOG_ADDRESS_BYTES])
{
    struct connection *connection = connection_new(fd, address);

    if (connection == NULL) {
        close(fd);
        return;
    }
    metric_add(thread->metrics, METRIC_connections_accepted, 1);
    join_thread(connection, thread);
    watch(connection, EV_READ);
}

void connection_close(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;

    if (connection->pending != NULL)
        sending_abandon(connection, thread->site->cache, true);
    leave_thread(connection);
    metric_add(thread->metrics, METRIC_connections_closed, 1);
    connection_discard(connection, thread->site->cache);
}

void connection_discard(struct connection *connection, struct cache *cache)
{
    if (connection->pending != NULL)
        sending_abandon(connection, cache, false);
    lookup_forget(connection, cache);
    if (connection->fd >= 0)
        close(connection->fd);
    free(connection->input);
    free(connection);
}

/* Kept input: bytes that were read before their turn came. */

static bool keep_input(struct connection *connection, const char *data, size_t length)
{
    struct input *input = connection->input;

    if (length == 0) {
        free(input);
        connection->input = NULL;
        return true;
    }
    if (input == NULL) {
        size_t room = length < INPUT_ROOM_LEAST ? INPUT_ROOM_LEAST : length;

        input = malloc(sizeof(*input) + room);
        if (input == NULL)
            return false;
        input->room = room;
        connection->input = input;
    }
    memmove(input->bytes, data, length);
    input->length = length;
    return true;
}

static bool grow_input(struct connection *connection)
{
    struct input *input = connection->input;
    size_t room = input->room * 2;

    if (input->length < input->room)
        return true;
    input = realloc(input, sizeof(*input) + room);
    if (input == NULL)
        return false;
    input->room = room;
    connection->input = input;
    return true;
}

/* What happens to a connection next */

static bool at_rest(const struct connection *connection)
{
    return connection->pending == NULL && !connection->job_out && !connection->closing &&
           !connection->lingering;
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
    mailbox_post(thread->site->main, &connection->letter, LETTER_HANDED_OVER);
}

/* Returns true when the connection is the thread's no longer. */
static bool obey_mode(struct connection *connection)
{
    if (may_travel(connection)) {
        hand_over(connection);
        return true;
    }
    if (connection->thread->mode == THREAD_STOPPING && at_rest(connection) &&
        connection->input == NULL) {
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

            obey_mode(connection);
            connection = next;
        }
    }
}

/*
 * The last answer is out. Closing at once would reset the connection if the client still sends, and
 * the answer might be lost (RFC 9112 section 9.6): then we only shut down our side and read on.
 */
static void end_after_answer(struct connection *connection)
{
    if (!connection->linger_wanted || shutdown(connection->fd, SHUT_WR) != 0) {
        connection_close(connection);
        return;
    }
    connection->lingering = true;
    keep_input(connection, NULL, 0);
    wait_for(connection, EV_READ, DEADLINE_LINGER);
}

/* Nothing more to do with what was read: end, travel, or wait for the client. */
static void settle(struct connection *connection)
{
    if (connection->closing)
        end_after_answer(connection);
    else if (!obey_mode(connection))
        wait_for(connection, EV_READ,
                 connection->input != NULL ? DEADLINE_HEADER : DEADLINE_KEEPALIVE);
}

static void wait_for_log(struct connection *connection)
{
    static const struct timeval soon = {.tv_usec = 1000};
    struct serving_thread *thread = connection->thread;

    connection->log_blocked = true;
    wait_for(connection, 0, DEADLINE_NONE);
    if (thread->log_full)
        return;
    thread->log_full = true;
    metric_add(thread->metrics, METRIC_log_waits, 1);
    account_wake_logger(thread);
    event_add(thread->log_retry, &soon);
}

void connections_unblock(struct serving_thread *thread)
{
    struct connection *connection = TAILQ_FIRST(&thread->connections[DEADLINE_NONE]);

    thread->log_full = false;
    while (connection != NULL && !thread->log_full) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->log_blocked) {
            connection->log_blocked = false;
            connection_resume(connection);
        }
        connection = next;
    }
}

/* Closes; while a job is out, whose letter names the connection, as soon as that is back. */
static void give_up(struct connection *connection)
{
    if (!connection->job_out) {
        connection_close(connection);
        return;
    }
    if (connection->pending != NULL)
        sending_abandon(connection, connection->thread->site->cache, true);
    keep_input(connection, NULL, 0);
    connection->closing = true;
    connection->linger_wanted = false;
    wait_for(connection, 0, DEADLINE_NONE);
}

/* Bytes that the client's side has not acknowledged. */
static int bytes_unsent(const struct connection *connection)
{
    int bytes = 0;

    ioctl(connection->fd, SIOCOUTQ, &bytes);
    return bytes;
}

/* An answer is half sent. */
static void wait_for_sending(struct connection *connection, enum sending_result why)
{
    if (why == SENDING_JOB) {
        wait_for(connection, 0, DEADLINE_NONE);
        return;
    }
    connection->unsent = bytes_unsent(connection);
    wait_for(connection, EV_WRITE, DEADLINE_SEND);
}

/* Serving */

enum progress {
    PROGRESS_NEXT,       /* one request answered: look at the next */
    PROGRESS_INCOMPLETE, /* the rest is no whole request */
    PROGRESS_JOB,        /* an offload thread works for this request */
    PROGRESS_LOG,        /* no room in the log ring */
};

static enum progress serve_one(struct connection *connection, const char *data, size_t length,
                               size_t *used)
{
    struct serving_thread *thread = connection->thread;
    const struct config *config = thread->site->config;
    const struct request_limits limits = {config->limits_request_line, config->limits_header_bytes,
                                          config->limits_header_count};
    struct request request;
    enum exchange_result result;
    int taken;

    if (UNLIKELY(!account_may_begin(thread)))
        return PROGRESS_LOG;
    taken = request_parse(data, length, &limits, &connection->scanned, &request);
    if (taken == 0)
        return PROGRESS_INCOMPLETE;
    segment_activity_work(thread->activity, THREAD_STATE_READ, thread->turn_ns, request.line.start,
                          request.line.length);
    result = taken > 0 ? exchange_answer(connection, &request)
                       : exchange_refuse(connection, &request, -taken);
    connection->scanned = 0;
    if (result == EXCHANGE_WAITING)
        return PROGRESS_JOB;
    *used += taken > 0 ? (size_t)taken : length;
    return PROGRESS_NEXT;
}

/* Empty lines between requests are no head that comes in (RFC 9112 section 2.2). */
static size_t empty_lines(const char *data, size_t length)
{
    size_t used = 0;

    while (length - used >= 2 && data[used] == '\r' && data[used + 1] == '\n')
        used += 2;
    return used;
}

/* All requests in DATA, in order; then what is left of it is kept. */
static void serve(struct connection *connection, const char *data, size_t length)
{
    struct output *output = &connection->thread->output;
    enum sending_result sent = SENDING_DONE;
    enum progress progress = PROGRESS_NEXT;
    size_t used = 0;

    while (used < length && progress == PROGRESS_NEXT && !connection->closing &&
           sent == SENDING_DONE) {
        progress = serve_one(connection, data + used, length - used, &used);
        if (!output_has_room(output))
            sent = sending_flush(connection);
    }
    if (progress == PROGRESS_INCOMPLETE)
        used += empty_lines(data + used, length - used);
    if (sent == SENDING_DONE)
        sent = sending_flush(connection);
    if (sent == SENDING_FAILED || !keep_input(connection, data + used, length - used)) {
        give_up(connection);
        return;
    }
    if (connection->closing && connection->input != NULL)
        connection->linger_wanted = true; /* it sends on behind its last request */
    if (used > 0 && connection->deadline == DEADLINE_HEADER)
        place(connection, DEADLINE_KEEPALIVE); /* the next head has its own time */
    if (sent != SENDING_DONE)
        wait_for_sending(connection, sent);
    else if (progress == PROGRESS_JOB)
        wait_for(connection, 0, DEADLINE_NONE);
    else if (progress == PROGRESS_LOG)
        wait_for_log(connection);
    else
        settle(connection);
}

static void answer_sent(struct connection *connection)
{
    if (!connection->closing && connection->input != NULL)
        serve(connection, connection->input->bytes, connection->input->length);
    else
        settle(connection);
}

static void go_on_sending(struct connection *connection)
{
    switch (sending_continue(connection)) {
    case SENDING_DONE:
        answer_sent(connection);
        break;
    case SENDING_BLOCKED:
        wait_for_sending(connection, SENDING_BLOCKED);
        obey_mode(connection);
        break;
    case SENDING_JOB:
        wait_for_sending(connection, SENDING_JOB);
        break;
    case SENDING_FAILED:
        connection_close(connection);
        break;
    }
}

void connection_resume(struct connection *connection)
{
    if (connection->thread->mode == THREAD_MOVING && obey_mode(connection))
        return;
    if (connection->pending != NULL)
        go_on_sending(connection);
    else
        answer_sent(connection);
}

/* Reading */

static void linger(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    ssize_t got = connection->transport->read(connection->fd, thread->input, sizeof(thread->input));

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        connection_close(connection);
}

static void end_of_input(struct connection *connection, ssize_t got)
{
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0)
        metric_add(connection->thread->metrics, METRIC_connections_reset, 1);
    connection_close(connection);
}

static void read_and_serve(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    char *to = thread->input;
    size_t before = 0, room = sizeof(thread->input);
    ssize_t got;

    if (connection->input != NULL) {
        if (!grow_input(connection)) {
            connection_close(connection);
            return;
        }
        before = connection->input->length;
        to = connection->input->bytes;
        room = connection->input->room - before;
    }
    got = connection->transport->read(connection->fd, to + before, room);
    if (UNLIKELY(got <= 0)) {
        end_of_input(connection, got);
        return;
    }
    metric_add(thread->metrics, METRIC_bytes_received, (uint64_t)got);
    if (connection->input != NULL)
        connection->input->length += (size_t)got;
    serve(connection, to, before + (size_t)got);
}

static void on_event(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;

    (void)fd;
    turn_begin(connection->thread);
    if (what & EV_WRITE)
        go_on_sending(connection);
    else if (connection->lingering)
        linger(connection);
    else
        read_and_serve(connection);
}

/* Adoption */

void connection_adopt(struct serving_thread *thread, struct connection *connection)
{
    join_thread(connection, thread);
    metric_add(thread->metrics, METRIC_connections_adopted, 1);
    if (obey_mode(connection))
        return;
    if (connection->lingering)
        wait_for(connection, EV_READ, DEADLINE_LINGER);
    else
        connection_resume(connection);
}

void connection_adopt_arrival(struct serving_thread *thread, struct arrival *arrival)
{
    struct connection *connection = connection_new(arrival->fd, arrival->address);

    if (connection != NULL && keep_input(connection, arrival->bytes, arrival->length)) {
        connection->requests = arrival->requests;
        free(arrival);
        connection_adopt(thread, connection);
        return;
    }
    close(arrival->fd);
    free(connection);
    free(arrival);
}

struct arrival *connection_to_arrival(struct connection *connection, struct cache *cache)
{
    size_t length = connection->input != NULL ? connection->input->length : 0;
    struct arrival *arrival = malloc(sizeof(*arrival) + length);

    if (arrival != NULL) {
        arrival->fd = connection->fd;
        arrival->requests = connection->requests;
        arrival->length = (uint32_t)length;
        memcpy(arrival->address, connection->address, sizeof(arrival->address));
        if (length > 0)
            memcpy(arrival->bytes, connection->input->bytes, length);
        connection->fd = -1;
    }
    connection_discard(connection, cache);
    return arrival;
}

/* Deadlines */

static uint64_t patience_ns(const struct config *config, enum deadline deadline)
{
    switch (deadline) {
    case DEADLINE_KEEPALIVE:
        return config->connections_keepalive_timeout * NS_PER_MS;
    case DEADLINE_HEADER:
        return config->connections_header_timeout * NS_PER_MS;
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

/* Too slow with a request head: 408 (RFC 9110 section 15.5.9), and the end. */
static void refuse_slow_head(struct connection *connection)
{
    struct request nothing = {.line = {"", 0}, .minor_version = 1};
    enum sending_result sent;

    exchange_refuse(connection, &nothing, 408);
    sent = sending_flush(connection);
    if (sent == SENDING_DONE)
        settle(connection);
    else if (sent == SENDING_FAILED)
        connection_close(connection);
    else
        wait_for_sending(connection, sent);
}

/*
 * The socket becomes writable only when much of its buffer is free: a slow client may have taken a
 * part of it meanwhile. Then it has its time again.
 */
static bool takes_slowly(struct connection *connection)
{
    int before = connection->unsent;

    connection->unsent = bytes_unsent(connection);
    if (connection->unsent >= before)
        return false;
    place(connection, DEADLINE_SEND);
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
    if (deadline == DEADLINE_HEADER && account_may_begin(thread))
        refuse_slow_head(connection);
    else
        connection_close(connection);
}

/* place() renews these once a second at the most. */
static uint64_t slack_ns(int deadline)
{
    return deadline == DEADLINE_KEEPALIVE || deadline == DEADLINE_SEND ? NS_PER_S : 0;
}

void connections_expire(struct serving_thread *thread)
{
    for (int i = 0; i < DEADLINE_NONE; i++) {
        uint64_t patience = patience_ns(thread->site->config, (enum deadline)i);
        struct connection *connection;

        while ((connection = TAILQ_FIRST(&thread->connections[i])) != NULL &&
               connection->deadline_from_ns + patience + slack_ns(i) <= thread->turn_ns)
            expire(connection);
    }
}
