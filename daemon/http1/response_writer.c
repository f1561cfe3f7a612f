#include "daemon/http1/response_writer.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http/range.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/output_buffer.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROVEN_BYTES = 1024 * 1024 }; /* of a body: who took so many of it takes more */

/* The rest of an answer, with its record. */
struct pending {
    struct resource *body;    /* a reference, or NULL */
    struct byteranges *parts; /* owned; NULL: the body is one piece */
    uint64_t body_start;      /* where the representation begins in its memory or file */
    uint64_t body_offset, body_left;
    uint64_t body_sent;             /* of the body as it is framed, for the log */
    uint64_t warm_from, warm_until; /* of a file: these bytes are known to be in the page cache */
    struct span text;               /* what goes before the body: the rest, then parts' texts */
    uint64_t *record;               /* behind the rest */
    bool promised;                  /* its words are counted in the thread's ring_reserved */
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
    free(output->parts);
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

static void set_promised(struct serving_thread *thread, struct pending *pending, bool promised)
{
    uint64_t words = account_words(pending->record);

    if (promised != pending->promised)
        thread->ring_reserved += promised ? words : -words;
    pending->promised = promised;
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
    *pending = (struct pending){.text = {pending->rest, rest},
                                .record = (uint64_t *)(void *)((char *)pending + record_at)};
    memcpy(pending->rest, output->buffer + output->used - rest, rest);
    memcpy(pending->record, output->last_record, record_words * 8);
    if (output->body != NULL) {
        size_t of_body = sent > output->used ? sent - output->used : 0;

        if (!output->body_held)
            cache_hold(&output->body->entry);
        pending->body = output->body;
        pending->body_start = output->body->fd < 0 ? output->body->head_length : 0;
        pending->body_offset = output->body_offset + of_body;
        pending->body_left = output->body_left - of_body;
        pending->body_sent = of_body;
        pending->parts = output->parts;
        output->body = NULL; /* its reference has moved, and the parts */
        output->parts = NULL;
    }
    set_promised(thread, pending, true);
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
    bool later = output->body != NULL && (output->body->fd >= 0 || output->parts != NULL);
    int count = 1;
    ssize_t sent;

    if (output_is_empty(output))
        return SENDING_DONE;
    if (output->body != NULL && !later) {
        parts[count++] = (struct iovec){
            (void *)(uintptr_t)(output->body->answer + output->body_offset), output->body_left};
        all += output->body_left;
    }
    segment_activity_state(thread->activity, THREAD_STATE_WRITE, thread->turn_ns);
    /* Behind a last answer the end of the connection follows at once, in the same segment. */
    sent = connection->transport->write(connection->fd, parts, count, later || connection->closing);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_output(thread);
    if (sent < 0)
        sent = 0;
    metric_add(thread->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if (LIKELY((size_t)sent == all && !later)) {
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

/* More text follows behind the body's piece that is sent now. */
static bool parts_follow(const struct pending *pending)
{
    return pending->parts != NULL && pending->parts->next < pending->parts->count;
}

static ssize_t send_text(struct connection *connection, struct pending *pending)
{
    struct iovec piece = {(void *)(uintptr_t)pending->text.start, pending->text.length};
    bool more = pending->body_left > 0 || parts_follow(pending);
    ssize_t sent = connection->transport->write(connection->fd, &piece, 1, more);

    if (sent < 0)
        return blocked_or_failed();
    pending->text.start += sent;
    pending->text.length -= (size_t)sent;
    if (pending->parts != NULL && pending->parts->next > 0)
        pending->body_sent += (uint64_t)sent;
    return sent;
}

static void body_moved_on(struct pending *pending, ssize_t sent)
{
    pending->body_offset += (uint64_t)sent;
    pending->body_left -= (uint64_t)sent;
    pending->body_sent += (uint64_t)sent;
}

static ssize_t send_memory(struct connection *connection, struct pending *pending)
{
    struct iovec piece = {(void *)(uintptr_t)(pending->body->answer + pending->body_offset),
                          pending->body_left};
    ssize_t sent = connection->transport->write(connection->fd, &piece, 1, parts_follow(pending));

    if (sent < 0)
        return blocked_or_failed();
    body_moved_on(pending, sent);
    return sent;
}

static void run_warm(struct offload_job *job)
{
    struct warm_job *warm = CONTAINER_OF(job, struct warm_job, job);
    char buffer[64 * 1024];
    uint64_t done = 0;
    ssize_t got = 1;

    for (; done < warm->length && got > 0; done += (uint64_t)got)
        got = files_read(warm->file->fd, warm->file->device, buffer, sizeof(buffer),
                         warm->offset + done, FILES_MAY_BLOCK);
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
                                     .work = pending->body->file_path,
                                     .state = THREAD_STATE_FILE,
                                     .owner = &thread->mailbox,
                                     .kind = ITEM_WARMED};
    warm->connection = connection;
    warm->file = pending->body;
    warm->offset = pending->body_offset;
    warm->length = length;
    if (!offload_submit(thread->site->offload, &warm->job, thread->turn_ns)) {
        free(warm);
        return false;
    }
    cache_hold(&warm->file->entry);
    connection->job_out = true;
    thread->jobs_out++;
    metric_add(thread->metrics, METRIC_offloaded, 1);
    return true;
}

static void set_warm(struct pending *pending, uint64_t from, uint64_t length)
{
    pending->warm_from = from;
    pending->warm_until = from + length;
}

/* True when the window that begins here can be sent without waiting for a disk. */
static bool window_is_warm(struct connection *connection, struct pending *pending)
{
    uint64_t length = pending->body_left < SENDING_WINDOW ? pending->body_left : SENDING_WINDOW;
    char byte;

    if (pending->body_offset >= pending->warm_from && pending->body_offset < pending->warm_until)
        return true;
    if (files_read(pending->body->fd, pending->body->device, &byte, 1,
                   pending->body_offset + length - 1, FILES_CACHED_ONLY) < 0 &&
        errno == EAGAIN && submit_warm(connection, pending, length))
        return false;
    set_warm(pending, pending->body_offset, length);
    return true;
}

static ssize_t send_window(struct connection *connection, struct pending *pending)
{
    off_t offset = (off_t)pending->body_offset;
    uint64_t length;
    ssize_t sent;

    if (!window_is_warm(connection, pending))
        return 0;
    length = pending->warm_until - pending->body_offset;
    if (length > pending->body_left)
        length = pending->body_left;
    sent = connection->transport->send_file(connection->fd, pending->body->fd, &offset, length);
    if (sent < 0)
        return blocked_or_failed();
    if (sent == 0) { /* the file has shrunk: the promised length can't be kept */
        errno = EIO;
        return -1;
    }
    if (pending->body_sent < PROVEN_BYTES && pending->body_sent + (uint64_t)sent >= PROVEN_BYTES)
        connection->transport->let_queue(connection->fd);
    body_moved_on(pending, sent);
    return sent;
}

/* What was begun is sent: the next part of several, if there is one. */
static void next_part(struct pending *pending)
{
    const struct byteranges_part *part = &pending->parts->part[pending->parts->next++];

    pending->text = part->text;
    pending->body_offset = pending->body_start + part->bytes.first;
    pending->body_left = part->bytes.length;
}

static ssize_t send_step(struct connection *connection, struct pending *pending)
{
    if (pending->text.length == 0 && pending->body_left == 0 && parts_follow(pending))
        next_part(pending);
    if (pending->text.length > 0 || pending->body == NULL)
        return send_text(connection, pending);
    return pending->body->fd < 0 ? send_memory(connection, pending)
                                 : send_window(connection, pending);
}

static bool is_sent(const struct pending *pending)
{
    return pending->text.length == 0 && pending->body_left == 0 && !parts_follow(pending);
}

static void finish_pending(struct connection *connection, struct cache *cache, bool log)
{
    struct pending *pending = connection->pending;
    struct serving_thread *thread = connection->thread;

    if (log) {
        set_promised(thread, pending, false);
        set_busy(connection, false);
        account_finish(thread, pending->record, clock_monotonic_ns());
    }
    if (pending->body != NULL)
        resource_release(cache, pending->body);
    free(pending->parts);
    free(pending);
    connection->pending = NULL;
}

bool sending_may_go_on(struct connection *connection)
{
    struct serving_thread *thread = connection->thread;
    struct pending *pending = connection->pending;

    if (!pending->promised && account_has_room(thread, account_words(pending->record)))
        set_promised(thread, pending, true);
    return pending->promised;
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
    if (connection->pending != NULL)
        set_warm(connection->pending, job->offset, job->length);
    resource_release(connection->thread->site->cache, job->file);
    free(job);
    return connection;
}

void sending_abandon(struct connection *connection, struct cache *cache, bool log)
{
    struct pending *pending = connection->pending;

    account_correct(pending->record, pending->body_sent);
    if (log)
        metric_add(connection->thread->metrics, METRIC_responses_cut_short, 1);
    finish_pending(connection, cache, log);
}

void sending_moved(struct connection *connection, bool leaving)
{
    if (leaving && connection->pending != NULL)
        set_promised(connection->thread, connection->pending, false);
    set_busy(connection, !leaving && connection->pending != NULL);
}
