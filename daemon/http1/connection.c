#include "daemon/http1/connection.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/loop.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/http1/request_body.h"
#include "daemon/http1/request_parser.h"
#include "daemon/http1/response_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/transaction.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { LINGER_MOST_S = 30 };

/* What happens to a connection next */

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
    connection->began_ns = connection->thread->turn_ns;
    input_keep(connection, NULL, 0);
    waiting_for(connection, EV_READ, DEADLINE_LINGER);
}

/* Nothing more to do with what was read: end, travel, or wait for the client. */
static void settle(struct connection *connection)
{
    if (connection->closing)
        end_after_answer(connection);
    else if (!connection_obey_mode(connection))
        waiting_for(connection, EV_READ,
                    input_is_idle(connection) ? DEADLINE_KEEPALIVE : DEADLINE_HEADER);
}

static void wait_for_log(struct connection *connection)
{
    static const struct timeval soon = {.tv_usec = 1000};
    struct serving_thread *thread = connection->thread;

    connection->log_blocked = true;
    waiting_for(connection, 0, DEADLINE_NONE);
    if (thread->log_full)
        return;
    thread->log_full = true;
    metric_add(thread->metrics, METRIC_log_waits, 1);
    account_wake_logger(thread);
    event_add(thread->log_retry, &soon);
}

void serving_unblock(struct serving_thread *thread)
{
    struct connection *connection = TAILQ_FIRST(&thread->connections[DEADLINE_NONE]);

    thread->log_full = false;
    while (connection != NULL && !thread->log_full) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->log_blocked) {
            connection->log_blocked = false;
            serving_resume(connection);
        }
        connection = next;
    }
}

/* Closes; while a job is out, whose item names the connection, as soon as that is back. */
static void give_up(struct connection *connection)
{
    if (!connection->job_out) {
        connection_close(connection);
        return;
    }
    if (connection->pending != NULL)
        sending_abandon(connection, connection->thread->site->cache, true);
    input_keep(connection, NULL, 0);
    connection->closing = true;
    connection->linger_wanted = false;
    waiting_for(connection, 0, DEADLINE_NONE);
}

int serving_bytes_unsent(const struct connection *connection)
{
    int bytes = 0;

    ioctl(connection->fd, SIOCOUTQ, &bytes);
    return bytes;
}

/* An answer is half sent. */
static void wait_for_client(struct connection *connection, enum sending_result why)
{
    if (why == SENDING_JOB) {
        waiting_for(connection, 0, DEADLINE_NONE);
        return;
    }
    connection->unsent = serving_bytes_unsent(connection);
    waiting_for(connection, EV_WRITE, DEADLINE_SEND);
}

/* Serving */

enum progress {
    PROGRESS_NEXT,       /* one request answered: look at the next */
    PROGRESS_INCOMPLETE, /* the rest is no whole request */
    PROGRESS_BODY,       /* the rest of this request's body has to come */
    PROGRESS_JOB,        /* an offload thread works for this request */
    PROGRESS_LOG,        /* no room in the log ring */
};

static struct request_limits limits_of(const struct connection *connection)
{
    const struct config *config = connection->thread->site->config;

    return (struct request_limits){config->limits_request_line, config->limits_header_bytes,
                                   config->limits_header_count};
}

static enum progress serve_one(struct connection *connection, const char *data, size_t length,
                               size_t *used)
{
    struct serving_thread *thread = connection->thread;
    const struct request_limits limits = limits_of(connection);
    struct request request;
    enum exchange_result result;
    int taken;

    if (UNLIKELY(!account_may_begin(thread)))
        return PROGRESS_LOG;
    taken = request_parse(data, length, &limits, &connection->scanned, &request);
    if (taken == 0)
        return PROGRESS_INCOMPLETE;
    connection->scanned = 0;
    if (UNLIKELY(request.has_body)) {
        taken = receiving_look(connection, &request, data, length, (size_t)taken);
        if (taken == 0)
            return PROGRESS_BODY;
    }
    segment_activity_work(thread->activity, THREAD_STATE_READ, thread->turn_ns, request.line.start,
                          request.line.length);
    result = taken > 0 ? exchange_answer(connection, &request)
                       : exchange_refuse(connection, &request, -taken);
    if (result == EXCHANGE_WAITING)
        return PROGRESS_JOB;
    if (UNLIKELY(connection->receiving != NULL))
        receiving_end(connection);
    *used += taken > 0 ? (size_t)taken : length;
    return PROGRESS_NEXT;
}

/* All answers before this request have left. */
static void wait_for_body(struct connection *connection)
{
    ssize_t sent = receiving_continue(connection);

    if (sent > 0)
        waiting_for(connection, EV_READ, DEADLINE_BODY);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        connection_close(connection);
    else
        waiting_for(connection, EV_WRITE, DEADLINE_SEND);
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
    if (progress == PROGRESS_BODY)
        length = used + receiving_head(connection); /* what came behind has been passed over */
    if (sent == SENDING_DONE)
        sent = sending_flush(connection);
    if (sent == SENDING_FAILED || !input_keep(connection, data + used, length - used)) {
        give_up(connection);
        return;
    }
    if (connection->closing && connection->input != NULL)
        connection->linger_wanted = true; /* it sends on behind its last request */
    if (used > 0 && waiting_is_for_request(connection))
        waiting_place(connection, DEADLINE_KEEPALIVE); /* the next head has its own time */
    if (sent != SENDING_DONE)
        wait_for_client(connection, sent);
    else if (progress == PROGRESS_BODY)
        wait_for_body(connection);
    else if (progress == PROGRESS_JOB)
        waiting_for(connection, 0, DEADLINE_NONE);
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
    if (!sending_may_go_on(connection)) {
        wait_for_log(connection);
        return;
    }
    switch (sending_continue(connection)) {
    case SENDING_DONE:
        answer_sent(connection);
        break;
    case SENDING_BLOCKED:
        wait_for_client(connection, SENDING_BLOCKED);
        connection_obey_mode(connection);
        break;
    case SENDING_JOB:
        wait_for_client(connection, SENDING_JOB);
        break;
    case SENDING_FAILED:
        connection_close(connection);
        break;
    }
}

void serving_resume(struct connection *connection)
{
    if (connection->thread->mode == THREAD_MOVING && connection_obey_mode(connection))
        return;
    if (connection->pending != NULL)
        go_on_sending(connection);
    else
        answer_sent(connection);
}

/* Refusing */

static void refuse_slow_head(struct connection *connection)
{
    const struct request_limits limits = limits_of(connection);
    enum sending_result sent;
    struct request request;
    size_t scanned = 0;

    /* It is incomplete, but its first line may be there, to be logged. */
    request_parse(connection->input->bytes, connection->input->length, &limits, &scanned, &request);
    if (request.line.start == NULL)
        request.line = SPAN("");
    exchange_refuse(connection, &request, 408);
    sent = sending_flush(connection);
    if (sent == SENDING_DONE)
        settle(connection);
    else if (sent == SENDING_FAILED)
        connection_close(connection);
    else
        wait_for_client(connection, sent);
}

void serving_refuse_slow(struct connection *connection)
{
    if (connection->receiving == NULL) {
        refuse_slow_head(connection);
        return;
    }
    receiving_give_up(connection);
    serve(connection, connection->input->bytes, connection->input->length);
}

/* Reading */

/* What a client sends on is thrown away, as long as it sends and not for ever. */
static void linger(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    ssize_t got = connection->transport->read(connection->fd, thread->input[0], THREAD_INPUT_BYTES);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || thread->turn_ns - connection->began_ns > LINGER_MOST_S * NS_PER_S)
        connection_close(connection);
    else
        waiting_place(connection, DEADLINE_LINGER);
}

static void end_of_input(struct connection *connection, ssize_t got)
{
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        waiting_watch(connection, EV_READ);
        return;
    }
    if (got < 0)
        metric_add(connection->thread->metrics, METRIC_connections_reset, 1);
    connection_close(connection);
}

static void read_body(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    ssize_t got = connection->transport->read(connection->fd, thread->input[0], THREAD_INPUT_BYTES);

    if (got <= 0) {
        end_of_input(connection, got);
        return;
    }
    metric_add(thread->metrics, METRIC_bytes_received, (uint64_t)got);
    if (receiving_take(connection, thread->input[0], (size_t)got))
        serve(connection, connection->input->bytes, connection->input->length);
}

/* More of a request of which a part has been kept. */
static void read_rest(struct connection *connection)
{
    struct input *input;
    ssize_t got;

    if (!input_grow(connection, 1)) {
        connection_close(connection);
        return;
    }
    input = connection->input;
    got = connection->transport->read(connection->fd, input->bytes + input->length,
                                      input->room - input->length);
    if (got <= 0) {
        end_of_input(connection, got);
        return;
    }
    metric_add(connection->thread->metrics, METRIC_bytes_received, (uint64_t)got);
    input->length += (size_t)got;
    serve(connection, input->bytes, input->length);
}

/* Reads into TO and holds that, while what was held comes from memory. False: nothing was read. */
static bool read_and_hold(struct connection *connection, char *to)
{
    struct serving_thread *thread = connection->thread;
    ssize_t got;

    lookup_fetch(thread);
    got = connection->transport->read(connection->fd, to, THREAD_INPUT_BYTES);
    if (UNLIKELY(got <= 0)) {
        end_of_input(connection, got);
        return false;
    }
    metric_add(thread->metrics, METRIC_bytes_received, (uint64_t)got);
    thread->held = (struct held_input){connection, to, (size_t)got};
    lookup_expect(thread, to, (size_t)got);
    return true;
}

static void read_ahead(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    struct held_input before = thread->held;
    char *to = thread->input[before.data == thread->input[0]];

    if (read_and_hold(connection, to) && before.connection != NULL)
        serve(before.connection, before.data, before.length);
}

void serving_catch_up(struct serving_thread *thread)
{
    struct held_input held = thread->held;

    if (held.connection == NULL)
        return;
    thread->held.connection = NULL;
    lookup_fetch(thread);
    serve(held.connection, held.data, held.length);
}

void serving_begin(struct connection *connection)
{
    /* What is answered and closed here, the loop never hears of. */
    if (read_and_hold(connection, connection->thread->input[0]))
        serving_catch_up(connection->thread);
}

static bool begins_a_request(const struct connection *connection, short what)
{
    return (what & EV_WRITE) == 0 && !connection->lingering && connection->input == NULL &&
           connection->thread->held.connection != connection;
}

void serving_event(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;

    (void)fd;
    turn_begin(connection->thread);
    if (LIKELY(begins_a_request(connection, what))) {
        read_ahead(connection);
        return;
    }
    serving_catch_up(connection->thread);
    if (what & EV_WRITE)
        serving_resume(connection);
    else if (connection->lingering)
        linger(connection);
    else if (receiving_waits(connection))
        read_body(connection);
    else
        read_rest(connection);
}
