#include "daemon/http2/stream.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/shortage.h"
#include "daemon/transaction/transaction.h"

#include <stdlib.h>

/* The past */

void stream_note_opened(struct http2_connection *http2, uint32_t id)
{
    uint32_t distance = (id - http2->last_stream) / 2;

    http2->opened = distance < 64 ? http2->opened << distance : 0;
    http2->reset_by_us = distance < 64 ? http2->reset_by_us << distance : 0;
    http2->opened |= 1;
    http2->last_stream = id;
}

void stream_note_reset(struct http2_connection *http2, uint32_t id)
{
    uint32_t distance = (http2->last_stream - id) / 2;

    if (distance < 64)
        http2->reset_by_us |= UINT64_C(1) << distance;
}

enum stream_past stream_past(const struct http2_connection *http2, uint32_t id)
{
    uint32_t distance = (http2->last_stream - id) / 2;
    uint64_t bit = distance < 64 ? UINT64_C(1) << distance : 0;

    if (id % 2 == 0) /* the server opens none */
        return STREAM_IDLE;
    if (id > http2->last_stream) /* after the last GOAWAY, a stream that is not served */
        return http2->goaway == GOAWAY_FINAL ? STREAM_RESET : STREAM_IDLE;
    if ((http2->reset_by_us & bit) != 0)
        return STREAM_RESET;
    return bit != 0 && (http2->opened & bit) == 0 ? STREAM_SKIPPED : STREAM_CLOSED;
}

/* Open streams */

static struct http2_stream *take_spare(struct http2_connection *http2)
{
    struct http2_stream *stream = http2->spare;

    http2->spare = NULL;
    if (stream == NULL)
        stream = malloc(sizeof(*stream));
    if (stream == NULL && memory_make_room(http2_context(http2)))
        stream = malloc(sizeof(*stream));
    return stream;
}

struct http2_stream *stream_open(struct http2_connection *http2, uint32_t id)
{
    struct http2_stream *stream = take_spare(http2);

    if (stream == NULL)
        return NULL;
    memset(stream, 0, sizeof(*stream));
    stream->http2 = http2;
    stream->id = id;
    stream->send_window = (int32_t)http2->settings.initial_window;
    stream->receive_window = WINDOW_INITIAL;
    stream->priority.urgency = URGENCY_DEFAULT;
    TAILQ_INSERT_TAIL(&http2->streams, stream, link);
    http2->stream_count++;
    metric_add(http2_context(http2)->metrics, METRIC_http2_streams, 1);
    return stream;
}

struct http2_stream *stream_find(const struct http2_connection *http2, uint32_t id)
{
    struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (stream->id == id && !stream->dead)
        return stream;
    return NULL;
}

/* Ready streams */

static struct http2_streams *list_of(const struct http2_stream *stream)
{
    return &stream->http2->ready[stream->priority.urgency];
}

void stream_make_ready(struct http2_stream *stream)
{
    if (stream->is_ready)
        return;
    stream->is_ready = true;
    stream->http2->ready_count++;
    TAILQ_INSERT_TAIL(list_of(stream), stream, ready_link);
}

void stream_make_unready(struct http2_stream *stream)
{
    if (!stream->is_ready)
        return;
    stream->is_ready = false;
    stream->http2->ready_count--;
    TAILQ_REMOVE(list_of(stream), stream, ready_link);
}

void stream_update_ready(struct http2_stream *stream)
{
    if (stream->sending && !stream->reading && stream->send_window > 0)
        stream_make_ready(stream);
    else
        stream_make_unready(stream);
}

void stream_set_priority(struct http2_stream *stream, struct http2_priority priority)
{
    bool ready = stream->is_ready;

    stream_make_unready(stream);
    stream->priority = priority;
    if (ready)
        stream_make_ready(stream);
}

struct http2_stream *stream_first_ready(const struct http2_connection *http2)
{
    for (int i = 0; i < URGENCY_COUNT; i++)
        if (!TAILQ_EMPTY(&http2->ready[i]))
            return TAILQ_FIRST(&http2->ready[i]);
    return NULL;
}

void stream_pass_turn(struct http2_stream *stream)
{
    TAILQ_REMOVE(list_of(stream), stream, ready_link);
    TAILQ_INSERT_TAIL(list_of(stream), stream, ready_link);
}

/* The end */

void stream_set_reserved(struct http2_stream *stream, bool reserved)
{
    struct transaction_context *context = http2_context(stream->http2);
    uint64_t words = accounting_words(stream->record);

    if (reserved != stream->reserved)
        context->ring_reserved += reserved ? words : -words;
    stream->reserved = reserved;
}

static void abort_response(struct http2_stream *stream)
{
    struct transaction_context *context = http2_context(stream->http2);

    stream_make_unready(stream);
    stream_set_reserved(stream, false);
    accounting_correct(stream->record, stream->body_sent);
    metric_add(context->metrics, METRIC_responses_cut_short, 1);
    accounting_finish(context, stream->record, clock_monotonic_ns());
    stream->sending = false;
}

void stream_close(struct http2_stream *stream)
{
    if (stream->sending)
        abort_response(stream);
    if (!stream->reading) {
        stream_free(stream, http2_context(stream->http2)->worker->cache);
        return;
    }
    stream->dead = true;
    stream->http2->dead_count++;
}

void stream_free(struct http2_stream *stream, struct cache *cache)
{
    struct http2_connection *http2 = stream->http2;

    stream_make_unready(stream);
    TAILQ_REMOVE(&http2->streams, stream, link);
    http2->stream_count--;
    if (http2->connection.loop != NULL) /* else it was subtracted when the connection left */
        metric_sub(http2_context(http2)->metrics, METRIC_http2_streams, 1);
    http2->dead_count -= stream->dead;
    loading_discard(&stream->state, cache);
    body_source_release(&stream->body, cache);
    free(stream->record);
    free(stream->head);
    if (http2->spare == NULL)
        http2->spare = stream;
    else
        free(stream);
}

void stream_free_spare(struct http2_connection *http2)
{
    free(http2->spare);
    http2->spare = NULL;
}
