#include "daemon/http1/response_writer.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/connection/unsent.h"
#include "daemon/transaction/accounting.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { COPY_MAX_BYTES = 4 * 1024 }; /* larger bodies are referenced, not copied */

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
static enum write_result fail_output(struct http1_connection *http1)
{
    struct transaction_context *context = http1_context(http1);
    struct output_buffer *output = &context->output;

    connection_count_reset(&http1->connection);
    accounting_correct(output->last_record, 0);
    accounting_finish_all(context, output->records, output->record_words);
    clear_output(context);
    return WRITE_FAILED;
}

static void resume_after_read(struct file_window *window, struct connection *connection)
{
    (void)window;
    connection->protocol->resume(connection);
}

/* Keeps the output after the first SENT bytes, with the body. False: out of memory. */
static bool keep_output(struct http1_connection *http1, size_t sent)
{
    struct transaction_context *context = http1_context(http1);
    struct connection *connection = &http1->connection;
    struct output_buffer *output = &context->output;
    const struct iovec bytes = {output->bytes, output->used};
    struct unsent_output *unsent;

    if (!unsent_keep(connection, &bytes, 1, sent < output->used ? sent : output->used,
                     output->last_record, accounting_words(output->last_record)))
        return false;
    unsent = connection->unsent;
    unsent->body = output->body;
    body_source_keep(&unsent->body);
    unsent->body_sent = sent > output->used ? sent - output->used : 0;
    body_source_advance(&unsent->body, unsent->body_sent);
    output->body = (struct body_source){.resource = NULL};
    accounting_finish_all(context, output->records,
                          (uint64_t)(output->last_record - output->records));
    clear_output(context);
    http1->window.read = resume_after_read;
    file_window_clear(&http1->window);
    connection_set_busy(connection, true);
    return true;
}

enum write_result response_flush(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    struct transaction_context *context = http1_context(http1);
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
    sent = connection->transport->write(connection, parts, count,
                                        later                        ? WRITE_NEXT_MORE
                                        : connection->client.closing ? WRITE_NEXT_END
                                                                     : WRITE_NEXT_NONE);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_output(http1);
    if (sent < 0)
        sent = 0;
    metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
    if (LIKELY((size_t)sent == all && !later)) {
        accounting_finish_all(context, output->records, output->record_words);
        clear_output(context);
        return WRITE_DONE;
    }
    if (!keep_output(http1, (size_t)sent))
        return fail_output(http1);
    return response_continue(http1);
}

/*
 * The steps of a unsent response return the bytes sent; 0 if blocked or waiting for a job; -1 on
 * failure.
 */

static ssize_t nothing_or_failure(void)
{
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void advance_text(struct unsent_output *unsent, size_t sent)
{
    unsent->text.start += sent;
    unsent->text.length -= sent;
    if (unsent->body.parts != NULL && unsent->body.parts->next > 0)
        unsent->body_sent += sent;
}

static void advance_body(struct unsent_output *unsent, size_t sent)
{
    body_source_advance(&unsent->body, sent);
    unsent->body_sent += sent;
}

/*
 * Sends the text with the body after it, if that is in memory. The first attempt may have offered
 * both, so they are offered together again.
 */
static ssize_t send_unsent_memory(struct connection *connection, struct unsent_output *unsent)
{
    const struct body_source *body = &unsent->body;
    bool in_memory = body->left > 0 && body->memory != NULL;
    const struct iovec pieces[2] = {{(void *)(uintptr_t)unsent->text.start, unsent->text.length},
                                    {(void *)(uintptr_t)body->memory, in_memory ? body->left : 0}};
    bool more = in_memory ? body_source_has_parts(body) : !body_source_is_empty(body);
    ssize_t sent = connection->transport->write(connection, pieces, in_memory ? 2 : 1,
                                                more ? WRITE_NEXT_MORE : WRITE_NEXT_NONE);
    size_t text;

    if (sent < 0)
        return nothing_or_failure();
    text = (size_t)sent < unsent->text.length ? (size_t)sent : unsent->text.length;
    advance_text(unsent, text);
    advance_body(unsent, (size_t)sent - text);
    return sent;
}

static ssize_t send_unsent_file(struct http1_connection *http1, struct unsent_output *unsent)
{
    struct connection *connection = &http1->connection;
    const struct body_source *body = &unsent->body;
    off_t offset = (off_t)body->offset;
    uint64_t length;
    ssize_t sent;

    assert(body->resource != NULL); /* because the body is not in memory */
    length =
        file_window_bytes(&http1->window, connection, body->resource, body->offset, body->left);
    if (length == 0)
        return 0;
    sent = connection->transport->send_file(connection, body->resource->fd, &offset, length);
    if (sent < 0)
        return nothing_or_failure();
    if (sent == 0) { /* the file has shrunk: the rest of the announced length cannot be sent */
        errno = EIO;
        return -1;
    }
    transport_count_body(connection, unsent->body_sent, (uint64_t)sent);
    advance_body(unsent, (size_t)sent);
    return sent;
}

/* The unsent response as a whole */

static ssize_t send_unsent_piece(struct http1_connection *http1, struct unsent_output *unsent)
{
    struct body_source *body = &unsent->body;

    if (unsent->text.length == 0 && body->left == 0)
        unsent->text = body_source_next_part(body);
    return unsent->text.length > 0 || body->memory != NULL
               ? send_unsent_memory(&http1->connection, unsent)
               : send_unsent_file(http1, unsent);
}

static bool unsent_is_sent(const struct unsent_output *unsent)
{
    return unsent->text.length == 0 && body_source_is_empty(&unsent->body);
}

enum write_result response_continue(struct http1_connection *http1)
{
    struct transaction_context *context = http1_context(http1);
    struct unsent_output *unsent = http1->connection.unsent;
    const struct resource *resource = unsent->body.resource;
    uint64_t budget = FILE_WINDOW_BYTES; /* so that other connections are served in between */

    segment_activity_work(context->activity, THREAD_STATE_WRITE, context->loop_now_ns,
                          resource != NULL ? resource->entry.path : "",
                          resource != NULL ? resource->entry.path_length : 0);
    while (!unsent_is_sent(unsent) && budget > 0) {
        ssize_t sent = send_unsent_piece(http1, unsent);

        if (sent < 0) {
            connection_count_reset(&http1->connection);
            return WRITE_FAILED;
        }
        if (sent == 0)
            break;
        metric_add(context->metrics, METRIC_bytes_sent, (uint64_t)sent);
        connection_count_sent(&http1->connection, (uint64_t)sent, unsent_is_sent(unsent));
        budget -= (uint64_t)sent < budget ? (uint64_t)sent : budget;
    }
    if (unsent_is_sent(unsent)) {
        connection_set_busy(&http1->connection, false);
        unsent_finish(&http1->connection);
        return WRITE_DONE;
    }
    return http1->connection.client.jobs_out > 0 ? WRITE_OFFLOAD : WRITE_BLOCKED;
}

void response_abort(struct connection *connection)
{
    struct unsent_output *unsent = connection->unsent;

    if (unsent == NULL)
        return;
    accounting_correct(unsent->records, unsent->body_sent);
    connection_set_busy(connection, false);
    unsent_abort(connection);
}
