#include "daemon/http1/response_writer.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http/range.h"
#include "daemon/transaction/accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* After this many bytes of a body the client is known to read: lift the limit of unsent bytes. */
enum { LIFT_LIMIT_BYTES = 1024 * 1024 };

/* The unsent rest of a response, with its log record. */
struct pending_response {
    struct resource *body;    /* a reference, or NULL */
    struct byteranges *parts; /* owned; NULL: the body is one piece */
    uint64_t body_start;      /* offset of the representation in its memory or file */
    uint64_t body_offset, body_left;
    uint64_t body_sent;             /* including the framing of parts, for the log */
    uint64_t warm_from, warm_until; /* these bytes of the file are in the page cache */
    struct span text; /* sent before the body: the copied rest, then the header of a part */
    uint64_t *record; /* after the rest */
    bool reserved;    /* the record's words are counted in ring_reserved */
    char rest[];
};

static struct transaction_context *context_of(const struct http1_connection *http1)
{
    return &http1->connection.loop->context;
}

static void set_busy(struct http1_connection *http1, bool busy)
{
    _Atomic uint64_t *metrics = context_of(http1)->metrics;

    if (busy == http1->counted_busy)
        return;
    http1->counted_busy = busy;
    if (busy)
        metric_add(metrics, METRIC_connections_busy, 1);
    else
        metric_sub(metrics, METRIC_connections_busy, 1);
}

static void set_reserved(struct transaction_context *context, struct pending_response *pending,
                         bool reserved)
{
    uint64_t words = accounting_words(pending->record);

    if (reserved != pending->reserved)
        context->ring_reserved += reserved ? words : -words;
    pending->reserved = reserved;
}

static void count_reset(const struct transaction_context *context)
{
    if (errno == EPIPE || errno == ECONNRESET)
        metric_add(context->metrics, METRIC_connections_reset, 1);
}

/* The output buffer */

static void finish_records(struct transaction_context *context, const uint64_t *end)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t *record = context->output.records;

    for (; record < end; record += accounting_words(record))
        accounting_finish(context, record, now);
}

static void clear_output(struct transaction_context *context)
{
    struct output_buffer *output = &context->output;

    if (output->body != NULL && output->body_owned)
        resource_release(context->worker->cache, output->body);
    free(output->parts);
    output_clear(output);
}

/*
 * The client is gone: accounts for its responses as sent, but with 0 body bytes for the last one.
 */
static enum write_result fail_output(struct transaction_context *context)
{
    struct output_buffer *output = &context->output;

    count_reset(context);
    accounting_correct(output->last_record, 0);
    finish_records(context, output->records + output->record_words);
    clear_output(context);
    return WRITE_FAILED;
}

/* Moves the body, of which OF_BODY bytes are sent, from OUTPUT to PENDING. */
static void move_body(struct output_buffer *output, struct pending_response *pending,
                      size_t of_body)
{
    if (!output->body_owned)
        cache_acquire(&output->body->entry);
    pending->body = output->body;
    pending->body_start = output->body->fd < 0 ? output->body->head_length : 0;
    pending->body_offset = output->body_offset + of_body;
    pending->body_left = output->body_left - of_body;
    pending->body_sent = of_body;
    pending->parts = output->parts;
    output->body = NULL;
    output->parts = NULL;
}

/* Makes the output after the first SENT bytes the pending response. False: out of memory. */
static bool make_pending(struct http1_connection *http1, size_t sent)
{
    struct transaction_context *context = context_of(http1);
    struct output_buffer *output = &context->output;
    size_t rest = sent < output->used ? output->used - sent : 0;
    size_t record_words = accounting_words(output->last_record);
    size_t record_at = (sizeof(struct pending_response) + rest + 7) / 8 * 8;
    struct pending_response *pending = malloc(record_at + record_words * 8);

    if (pending == NULL)
        return false;
    *pending = (struct pending_response){
        .text = {pending->rest, rest}, .record = (uint64_t *)(void *)((char *)pending + record_at)};
    memcpy(pending->rest, output->bytes + output->used - rest, rest);
    memcpy(pending->record, output->last_record, record_words * 8);
    if (output->body != NULL)
        move_body(output, pending, sent > output->used ? sent - output->used : 0);
    set_reserved(context, pending, true);
    finish_records(context, output->last_record);
    clear_output(context);
    http1->pending = pending;
    set_busy(http1, true);
    return true;
}

enum write_result response_flush(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    struct transaction_context *context = context_of(http1);
    struct output_buffer *output = &context->output;
    const struct resource *body = output->body;
    struct iovec parts[2] = {{output->bytes, output->used}};
    size_t all = output->used;
    bool later = body != NULL && (body->fd >= 0 || output->parts != NULL);
    int count = 1;
    ssize_t sent;

    if (output_is_empty(output))
        return WRITE_DONE;
    if (body != NULL && !later) {
        parts[count++] = (struct iovec){(void *)(uintptr_t)(body->response + output->body_offset),
                                        output->body_left};
        all += output->body_left;
    }
    segment_activity_state(context->activity, THREAD_STATE_WRITE, context->loop_now_ns);
    /* The FIN follows the last response immediately: send both in one segment. */
    sent = connection->transport->write(connection->fd, parts, count,
                                        later || connection->client.closing);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_output(context);
    if (sent < 0)
        sent = 0;
    metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if (LIKELY((size_t)sent == all && !later)) {
        finish_records(context, output->records + output->record_words);
        clear_output(context);
        return WRITE_DONE;
    }
    if (!make_pending(http1, (size_t)sent))
        return fail_output(context);
    return response_continue(http1);
}

/*
 * The steps of a pending response return the bytes sent; 0 if blocked or waiting for a job; -1 on
 * failure.
 */

static ssize_t blocked_or_failed(void)
{
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* True if more text follows the piece of the body being sent. */
static bool parts_follow(const struct pending_response *pending)
{
    return pending->parts != NULL && pending->parts->next < pending->parts->count;
}

static ssize_t send_text(struct connection *connection, struct pending_response *pending)
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

static void advance_body(struct pending_response *pending, ssize_t sent)
{
    pending->body_offset += (uint64_t)sent;
    pending->body_left -= (uint64_t)sent;
    pending->body_sent += (uint64_t)sent;
}

static ssize_t send_memory(struct connection *connection, struct pending_response *pending)
{
    struct iovec piece = {(void *)(uintptr_t)(pending->body->response + pending->body_offset),
                          pending->body_left};
    ssize_t sent = connection->transport->write(connection->fd, &piece, 1, parts_follow(pending));

    if (sent < 0)
        return blocked_or_failed();
    advance_body(pending, sent);
    return sent;
}

/* Windows of a file */

/* Reads a window into the page cache. */
struct warm_job {
    struct offload_job job;
    struct http1_connection *http1;
    struct resource *file; /* a reference */
    uint64_t offset, length;
};

static void set_warm(struct pending_response *pending, uint64_t from, uint64_t length)
{
    pending->warm_from = from;
    pending->warm_until = from + length;
}

/* On an offload thread. */
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

/* Back on the owning thread. */
static void finish_warm(struct offload_job *job)
{
    struct warm_job *warm = CONTAINER_OF(job, struct warm_job, job);
    struct http1_connection *http1 = warm->http1;
    struct connection *connection = &http1->connection;
    struct transaction_context *context = context_of(http1);

    context->jobs_out--;
    connection->client.jobs_out--;
    if (http1->pending != NULL)
        set_warm(http1->pending, warm->offset, warm->length);
    resource_release(context->worker->cache, warm->file);
    free(warm);
    connection->protocol->resume(connection);
}

/*
 * Returns false if the job cannot be queued: the caller then reads here, because the response has
 * begun.
 */
static bool submit_warm(struct http1_connection *http1, uint64_t length)
{
    const struct pending_response *pending = http1->pending;
    struct transaction_context *context = context_of(http1);
    struct warm_job *warm = calloc(1, sizeof(*warm));

    if (warm == NULL)
        return false;
    warm->job = (struct offload_job){.run = run_warm,
                                     .finish = finish_warm,
                                     .work = pending->body->file_path,
                                     .state = THREAD_STATE_FILE,
                                     .owner = context->mailbox};
    warm->http1 = http1;
    warm->file = pending->body;
    warm->offset = pending->body_offset;
    warm->length = length;
    if (!offload_submit(context->worker->offload, &warm->job, context->loop_now_ns)) {
        free(warm);
        return false;
    }
    cache_acquire(&warm->file->entry);
    http1->connection.client.jobs_out++;
    context->jobs_out++;
    metric_add(context->metrics, METRIC_offloaded, 1);
    return true;
}

/* True if the window that starts here can be sent without waiting for a disk. */
static bool window_is_warm(struct http1_connection *http1, struct pending_response *pending)
{
    uint64_t offset = pending->body_offset;
    uint64_t length =
        pending->body_left < RESPONSE_WINDOW_BYTES ? pending->body_left : RESPONSE_WINDOW_BYTES;
    char byte;

    if (offset >= pending->warm_from && offset < pending->warm_until)
        return true;
    if (files_read(pending->body->fd, pending->body->device, &byte, 1, offset + length - 1,
                   FILES_CACHED_ONLY) < 0 &&
        errno == EAGAIN && submit_warm(http1, length))
        return false;
    set_warm(pending, offset, length);
    return true;
}

static ssize_t send_window(struct http1_connection *http1, struct pending_response *pending)
{
    const struct connection *connection = &http1->connection;
    off_t offset = (off_t)pending->body_offset;
    uint64_t length;
    ssize_t sent;

    if (!window_is_warm(http1, pending))
        return 0;
    length = pending->warm_until - pending->body_offset;
    if (length > pending->body_left)
        length = pending->body_left;
    sent = connection->transport->send_file(connection->fd, pending->body->fd, &offset, length);
    if (sent < 0)
        return blocked_or_failed();
    if (sent == 0) { /* the file has shrunk: the rest of the announced length cannot be sent */
        errno = EIO;
        return -1;
    }
    if (pending->body_sent < LIFT_LIMIT_BYTES &&
        pending->body_sent + (uint64_t)sent >= LIFT_LIMIT_BYTES)
        connection->transport->lift_unsent_limit(connection->fd);
    advance_body(pending, sent);
    return sent;
}

/* The pending response as a whole */

static ssize_t send_step(struct http1_connection *http1, struct pending_response *pending)
{
    if (pending->text.length == 0 && pending->body_left == 0 && parts_follow(pending)) {
        const struct byteranges_part *part = &pending->parts->part[pending->parts->next++];

        pending->text = part->text;
        pending->body_offset = pending->body_start + part->bytes.first;
        pending->body_left = part->bytes.length;
    }
    if (pending->text.length > 0 || pending->body == NULL)
        return send_text(&http1->connection, pending);
    return pending->body->fd < 0 ? send_memory(&http1->connection, pending)
                                 : send_window(http1, pending);
}

static bool is_sent(const struct pending_response *pending)
{
    return pending->text.length == 0 && pending->body_left == 0 && !parts_follow(pending);
}

void response_free(struct http1_connection *http1, struct cache *cache)
{
    struct pending_response *pending = http1->pending;

    if (pending == NULL)
        return;
    if (pending->body != NULL)
        resource_release(cache, pending->body);
    free(pending->parts);
    free(pending);
    http1->pending = NULL;
}

static void finish_pending(struct http1_connection *http1)
{
    struct transaction_context *context = context_of(http1);

    set_reserved(context, http1->pending, false);
    set_busy(http1, false);
    accounting_finish(context, http1->pending->record, clock_monotonic_ns());
    response_free(http1, context->worker->cache);
}

bool response_reserve_log(struct http1_connection *http1)
{
    struct transaction_context *context = context_of(http1);
    struct pending_response *pending = http1->pending;

    if (!pending->reserved && accounting_has_room(context, accounting_words(pending->record)))
        set_reserved(context, pending, true);
    return pending->reserved;
}

enum write_result response_continue(struct http1_connection *http1)
{
    struct transaction_context *context = context_of(http1);
    struct pending_response *pending = http1->pending;
    uint64_t budget = RESPONSE_WINDOW_BYTES; /* so that other connections are served in between */

    segment_activity_work(context->activity, THREAD_STATE_WRITE, context->loop_now_ns,
                          pending->body != NULL ? pending->body->entry.path : "",
                          pending->body != NULL ? pending->body->entry.path_length : 0);
    while (!is_sent(pending) && budget > 0) {
        ssize_t sent = send_step(http1, pending);

        if (sent < 0) {
            count_reset(context);
            return WRITE_FAILED;
        }
        if (sent == 0)
            break;
        metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
        budget -= (uint64_t)sent < budget ? (uint64_t)sent : budget;
    }
    if (is_sent(pending)) {
        finish_pending(http1);
        return WRITE_DONE;
    }
    return http1->connection.client.jobs_out > 0 ? WRITE_OFFLOAD : WRITE_BLOCKED;
}

void response_abort(struct http1_connection *http1)
{
    if (http1->pending == NULL)
        return;
    accounting_correct(http1->pending->record, http1->pending->body_sent);
    metric_add(context_of(http1)->metrics, METRIC_responses_cut_short, 1);
    finish_pending(http1);
}

void response_moved(struct http1_connection *http1, bool leaving)
{
    if (leaving && http1->pending != NULL)
        set_reserved(context_of(http1), http1->pending, false);
    set_busy(http1, !leaving && http1->pending != NULL);
}
