#include "daemon/http1/response_writer.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    COPY_MAX_BYTES = 4 * 1024, /* larger bodies are referenced, not copied */
    /* After this many bytes of a body the client is known to read: lift the limit of unsent bytes. */
    LIFT_LIMIT_BYTES = 1024 * 1024,
};

/* The unsent rest of a response, with its log record. */
struct pending_response {
    struct body_source body;
    uint64_t body_sent; /* including the framing of parts, for the log */
    struct span text;   /* sent before the body: the copied rest, then the header of a part */
    uint64_t *record;   /* after the rest */
    bool reserved;      /* the record's words are counted in ring_reserved */
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

static void clear_output(struct transaction_context *context)
{
    body_source_release(&context->output.body, context->worker->cache);
    output_clear(&context->output);
}

void response_copy_body(struct transaction_context *context)
{
    struct output_buffer *output = &context->output;
    struct body_source *body = &output->body;

    if (body->memory == NULL || body->parts != NULL || body->left > COPY_MAX_BYTES)
        return;
    output_put(output, body->memory, body->left);
    if (UNLIKELY(body->owned))
        resource_release(context->worker->cache, body->resource);
    *body = (struct body_source){.resource = NULL};
}

/*
 * The client is gone: accounts for its responses as sent, but with 0 body bytes for the last one.
 */
static enum write_result fail_output(struct transaction_context *context)
{
    struct output_buffer *output = &context->output;

    count_reset(context);
    accounting_correct(output->last_record, 0);
    accounting_finish_all(context, output->records, output->record_words);
    clear_output(context);
    return WRITE_FAILED;
}

/* Moves the body, of which OF_BODY bytes are sent, from OUTPUT to PENDING. */
static void move_body(struct output_buffer *output, struct pending_response *pending,
                      size_t of_body)
{
    pending->body = output->body;
    body_source_keep(&pending->body);
    body_source_advance(&pending->body, of_body);
    pending->body_sent = of_body;
    output->body = (struct body_source){.resource = NULL};
}

static void resume_after_read(struct file_window *window, struct connection *connection)
{
    (void)window;
    connection->protocol->resume(connection);
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

    if (pending == NULL && memory_make_room(context))
        pending = malloc(record_at + record_words * 8);
    if (pending == NULL)
        return false;
    *pending = (struct pending_response){
        .text = {pending->rest, rest}, .record = (uint64_t *)(void *)((char *)pending + record_at)};
    memcpy(pending->rest, output->bytes + output->used - rest, rest);
    memcpy(pending->record, output->last_record, record_words * 8);
    move_body(output, pending, sent > output->used ? sent - output->used : 0);
    set_reserved(context, pending, true);
    accounting_finish_all(context, output->records,
                          (uint64_t)(output->last_record - output->records));
    clear_output(context);
    http1->pending = pending;
    http1->window.read = resume_after_read;
    file_window_clear(&http1->window);
    set_busy(http1, true);
    return true;
}

enum write_result response_flush(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    struct transaction_context *context = context_of(http1);
    struct output_buffer *output = &context->output;
    const struct body_source *body = &output->body;
    struct iovec parts[2] = {{output->bytes, output->used}};
    size_t all = output->used;
    bool later = !body_source_is_empty(body) && body->memory == NULL;
    int count = 1;
    ssize_t sent;

    if (output_is_empty(output))
        return WRITE_DONE;
    if (body->left > 0 && !later) {
        parts[count++] = (struct iovec){(void *)(uintptr_t)body->memory, body->left};
        all += body->left;
    }
    segment_activity_state(context->activity, THREAD_STATE_WRITE, context->loop_now_ns);
    /* The FIN follows the last response immediately: send both in one segment. */
    sent =
        connection->transport->write(connection, parts, count, later || connection->client.closing);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_output(context);
    if (sent < 0)
        sent = 0;
    metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if (LIKELY((size_t)sent == all && !later)) {
        accounting_finish_all(context, output->records, output->record_words);
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

static void advance_text(struct pending_response *pending, size_t sent)
{
    pending->text.start += sent;
    pending->text.length -= sent;
    if (pending->body.parts != NULL && pending->body.parts->next > 0)
        pending->body_sent += sent;
}

static void advance_body(struct pending_response *pending, size_t sent)
{
    body_source_advance(&pending->body, sent);
    pending->body_sent += sent;
}

/*
 * Sends the text with the body after it, if that is in memory. The first attempt may have offered
 * both, so they are offered together again.
 */
static ssize_t send_memory(struct connection *connection, struct pending_response *pending)
{
    const struct body_source *body = &pending->body;
    bool in_memory = body->left > 0 && body->memory != NULL;
    const struct iovec pieces[2] = {{(void *)(uintptr_t)pending->text.start, pending->text.length},
                                    {(void *)(uintptr_t)body->memory, in_memory ? body->left : 0}};
    bool more = in_memory ? body_source_has_parts(body) : !body_source_is_empty(body);
    ssize_t sent = connection->transport->write(connection, pieces, in_memory ? 2 : 1, more);
    size_t text;

    if (sent < 0)
        return blocked_or_failed();
    text = (size_t)sent < pending->text.length ? (size_t)sent : pending->text.length;
    advance_text(pending, text);
    advance_body(pending, (size_t)sent - text);
    return sent;
}

static ssize_t send_window(struct http1_connection *http1, struct pending_response *pending)
{
    struct connection *connection = &http1->connection;
    const struct body_source *body = &pending->body;
    off_t offset = (off_t)body->offset;
    uint64_t length =
        file_window_bytes(&http1->window, connection, body->resource, body->offset, body->left);
    ssize_t sent;

    if (length == 0)
        return 0;
    sent = connection->transport->send_file(connection, body->resource->fd, &offset, length);
    if (sent < 0)
        return blocked_or_failed();
    if (sent == 0) { /* the file has shrunk: the rest of the announced length cannot be sent */
        errno = EIO;
        return -1;
    }
    if (pending->body_sent < LIFT_LIMIT_BYTES &&
        pending->body_sent + (uint64_t)sent >= LIFT_LIMIT_BYTES)
        transport_lift_unsent_limit(connection);
    advance_body(pending, (size_t)sent);
    return sent;
}

/* The pending response as a whole */

static ssize_t send_step(struct http1_connection *http1, struct pending_response *pending)
{
    struct body_source *body = &pending->body;

    if (pending->text.length == 0 && body->left == 0)
        pending->text = body_source_next_part(body);
    return pending->text.length > 0 || body->memory != NULL
               ? send_memory(&http1->connection, pending)
               : send_window(http1, pending);
}

static bool is_sent(const struct pending_response *pending)
{
    return pending->text.length == 0 && body_source_is_empty(&pending->body);
}

void response_free(struct http1_connection *http1, struct cache *cache)
{
    struct pending_response *pending = http1->pending;

    if (pending == NULL)
        return;
    body_source_release(&pending->body, cache);
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
    const struct resource *resource = pending->body.resource;
    uint64_t budget = FILE_WINDOW_BYTES; /* so that other connections are served in between */

    segment_activity_work(context->activity, THREAD_STATE_WRITE, context->loop_now_ns,
                          resource != NULL ? resource->entry.path : "",
                          resource != NULL ? resource->entry.path_length : 0);
    while (!is_sent(pending) && budget > 0) {
        ssize_t sent = send_step(http1, pending);

        if (sent < 0) {
            count_reset(context);
            return WRITE_FAILED;
        }
        if (sent == 0)
            break;
        metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
        connection_count_sent(&http1->connection, (uint64_t)sent, is_sent(pending));
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
