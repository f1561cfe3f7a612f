#include "daemon/sending.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/account.h"
#include "daemon/output.h"
#include "daemon/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rest of an answer, with its record. */
struct pending {
    struct resource *body; /* a reference, or NULL */
    uint64_t body_offset, body_left, body_total;
    uint64_t warm_until; /* of a file: up to here it is known to be in the page cache */
    size_t rest_sent, rest_length;
    uint64_t *record; /* behind the rest */
    char rest[];
};

static void set_busy(struct connection *connection, bool busy)
{
    _Atomic uint64_t *metrics = connection->thread->metrics;

    if (busy == connection->counted_busy)
        return;
    connection->counted_busy = busy;
    if (busy)
        metric_add(metrics, METRIC_connections_busy, 1);
    else
        metric_sub(metrics, METRIC_connections_busy, 1);
}

static void finish_records(struct serving_thread *thread, const uint64_t *end)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t *record = thread->output.records;

    for (; record < end; record += account_words(record))
        account_finish(thread, record, now);
}

static void drop_output(struct serving_thread *thread)
{
    struct output *output = &thread->output;

    if (output->body != NULL && output->body_held)
        resource_release(thread->site->cache, output->body);
    output_clear(output);
}

static void count_failure(struct serving_thread *thread)
{
    if (errno == EPIPE || errno == ECONNRESET)
        metric_add(thread->metrics, METRIC_connections_reset, 1);
}

/* The client is gone: its answers count as given, the last one with what it got of it. */
static enum sending_result fail_output(struct serving_thread *thread)
{
    struct output *output = &thread->output;

    count_failure(thread);
    account_correct(output->last_record, 0);
    finish_records(thread, output->records + output->record_words);
    drop_output(thread);
    return SENDING_FAILED;
}

/* What is left of the output after SENT bytes becomes the connection's pending answer. */
static bool make_pending(struct connection *connection, size_t sent)
{
    struct serving_thread *thread = connection->thread;
    struct output *output = &thread->output;
    size_t rest = sent < output->used ? output->used - sent : 0;
    size_t record_words = account_words(output->last_record);
    size_t record_at = (sizeof(struct pending) + rest + 7) / 8 * 8;
    struct pending *pending = malloc(record_at + record_words * 8);

    if (pending == NULL)
        return false;
    *pending = (struct pending){.rest_length = rest,
                                .record = (uint64_t *)(void *)((char *)pending + record_at)};
    memcpy(pending->rest, output->buffer + output->used - rest, rest);
    memcpy(pending->record, output->last_record, record_words * 8);
    if (output->body != NULL) {
        size_t of_body = sent > output->used ? sent - output->used : 0;

        if (!output->body_held)
            cache_hold(&output->body->entry);
        pending->body = output->body;
        pending->body_offset = output->body_offset + of_body;
        pending->body_left = output->body_left - of_body;
        pending->body_total = output->body_left;
        output->body = NULL; /* its reference has moved */
    }
    thread->ring_reserved += record_words;
    finish_records(thread, output->last_record);
    drop_output(thread);
    connection->pending = pending;
    set_busy(connection, true);
    return true;
}

enum sending_result sending_flush(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    struct output *output = &thread->output;
    struct iovec parts[2] = {{output->buffer, output->used}};
    size_t all = output->used;
    bool file = output->body != NULL && output->body->fd >= 0;
    int count = 1;
    ssize_t sent;

    if (output_is_empty(output))
        return SENDING_DONE;
    if (output->body != NULL && !file) {
        parts[count++] = (struct iovec){
            (void *)(uintptr_t)(output->body->answer + output->body_offset), output->body_left};
        all += output->body_left;
    }
    segment_activity_state(thread->activity, THREAD_STATE_WRITE, thread->turn_ns);
    sent = connection->transport->write(connection->fd, parts, count, file);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_output(thread);
    if (sent < 0)
        sent = 0;
    metric_add(thread->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if (LIKELY((size_t)sent == all && !file)) {
        finish_records(thread, output->records + output->record_words);
        drop_output(thread);
        return SENDING_DONE;
    }
    if (!make_pending(connection, (size_t)sent))
        return fail_output(thread);
    return sending_continue(connection);
}

/* Steps of a pending answer: more than 0 was moved, 0 would block or waits for a job, -1 failed. */

static ssize_t blocked_or_failed(void)
{
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static ssize_t send_rest(struct connection *connection, struct pending *pending)
{
    struct iovec part = {pending->rest + pending->rest_sent,
                         pending->rest_length - pending->rest_sent};
    ssize_t sent = connection->transport->write(connection->fd, &part, 1, pending->body_left > 0);

    if (sent < 0)
        return blocked_or_failed();
    pending->rest_sent += (size_t)sent;
    return sent;
}

static ssize_t send_memory(struct connection *connection, struct pending *pending)
{
    struct iovec part = {(void *)(uintptr_t)(pending->body->answer + pending->body_offset),
                         pending->body_left};
    ssize_t sent = connection->transport->write(connection->fd, &part, 1, false);

    if (sent < 0)
        return blocked_or_failed();
    pending->body_offset += (uint64_t)sent;
    pending->body_left -= (uint64_t)sent;
    return sent;
}

static void run_warm(struct offload_job *job)
{
    struct warm_job *warm = CONTAINER_OF(job, struct warm_job, job);
    char buffer[64 * 1024];
    uint64_t done = 0;
    ssize_t got = 1;

    for (; done < warm->length && got > 0; done += (uint64_t)got)
        got = files_read(warm->fd, buffer, sizeof(buffer), warm->offset + done, FILES_MAY_BLOCK);
}

/* Lets an offload thread fetch the window. False: do it here, for an answer begun can't be refused.
 */
static bool submit_warm(struct connection *connection, const struct pending *pending,
                        uint64_t length)
{
    struct serving_thread *thread = connection->thread;
    struct warm_job *warm = calloc(1, sizeof(*warm));

    if (warm == NULL)
        return false;
    warm->job = (struct offload_job){.run = run_warm,
                                     .work = pending->body->entry.path,
                                     .owner = &thread->mailbox,
                                     .kind = LETTER_WARMED};
    warm->connection = connection;
    warm->fd = pending->body->fd;
    warm->offset = pending->body_offset;
    warm->length = length;
    if (!offload_submit(thread->site->offload, &warm->job, thread->turn_ns)) {
        free(warm);
        return false;
    }
    connection->job_out = true;
    thread->jobs_out++;
    metric_add(thread->metrics, METRIC_offloaded, 1);
    return true;
}

/* True when the window can be sent without waiting for a disk. */
static bool window_is_warm(struct connection *connection, struct pending *pending, uint64_t length)
{
    uint64_t last = pending->body_offset + length - 1;
    char byte;

    if (last < pending->warm_until)
        return true;
    if (files_read(pending->body->fd, &byte, 1, last, FILES_CACHED_ONLY) < 0 && errno == EAGAIN &&
        submit_warm(connection, pending, length))
        return false;
    pending->warm_until = last + 1;
    return true;
}

static ssize_t send_window(struct connection *connection, struct pending *pending)
{
    uint64_t length = pending->body_left < SENDING_WINDOW ? pending->body_left : SENDING_WINDOW;
    off_t offset = (off_t)pending->body_offset;
    ssize_t sent;

    if (!window_is_warm(connection, pending, length))
        return 0;
    sent = connection->transport->send_file(connection->fd, pending->body->fd, &offset, length);
    if (sent < 0)
        return blocked_or_failed();
    if (sent == 0) { /* the file has shrunk: the promised length can't be kept */
        errno = EIO;
        return -1;
    }
    pending->body_offset += (uint64_t)sent;
    pending->body_left -= (uint64_t)sent;
    return sent;
}

static ssize_t send_step(struct connection *connection, struct pending *pending)
{
    if (pending->rest_sent < pending->rest_length || pending->body == NULL)
        return send_rest(connection, pending);
    return pending->body->fd < 0 ? send_memory(connection, pending)
                                 : send_window(connection, pending);
}

static bool is_sent(const struct pending *pending)
{
    return pending->rest_sent == pending->rest_length && pending->body_left == 0;
}

static void finish_pending(struct connection *connection, struct cache *cache, bool log)
{
    struct pending *pending = connection->pending;
    struct serving_thread *thread = connection->thread;

    if (log) {
        thread->ring_reserved -= account_words(pending->record);
        set_busy(connection, false);
        account_finish(thread, pending->record, clock_monotonic_ns());
    }
    if (pending->body != NULL)
        resource_release(cache, pending->body);
    free(pending);
    connection->pending = NULL;
}

enum sending_result sending_continue(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    struct pending *pending = connection->pending;
    uint64_t budget = SENDING_WINDOW; /* for this turn, so that other connections get theirs */

    segment_activity_work(thread->activity, THREAD_STATE_WRITE, thread->turn_ns,
                          pending->body != NULL ? pending->body->entry.path : "",
                          pending->body != NULL ? pending->body->entry.path_length : 0);
    while (!is_sent(pending) && budget > 0) {
        ssize_t sent = send_step(connection, pending);

        if (sent < 0) {
            count_failure(thread);
            return SENDING_FAILED;
        }
        if (sent == 0)
            break;
        metric_add(thread->metrics, METRIC_bytes_sent, (uint64_t)sent);
        budget -= (uint64_t)sent < budget ? (uint64_t)sent : budget;
    }
    if (is_sent(pending)) {
        finish_pending(connection, thread->site->cache, true);
        return SENDING_DONE;
    }
    return connection->job_out ? SENDING_JOB : SENDING_BLOCKED;
}

struct connection *sending_warmed(struct warm_job *job)
{
    struct connection *connection = job->connection;

    connection->thread->jobs_out--;
    connection->job_out = false;
    connection->pending->warm_until = job->offset + job->length;
    free(job);
    return connection;
}

void sending_abandon(struct connection *connection, struct cache *cache, bool log)
{
    struct pending *pending = connection->pending;

    if (pending->rest_sent < pending->rest_length)
        account_correct(pending->record, 0);
    else
        account_correct(pending->record, pending->body_total - pending->body_left);
    if (log)
        metric_add(connection->thread->metrics, METRIC_responses_cut_short, 1);
    finish_pending(connection, cache, log);
}

void sending_moved(struct connection *connection, bool leaving)
{
    struct serving_thread *thread = connection->thread;
    uint64_t words = connection->pending != NULL ? account_words(connection->pending->record) : 0;

    thread->ring_reserved += leaving ? -words : words;
    set_busy(connection, !leaving && connection->pending != NULL);
}
