#include "loadgen/engine/http2_stream.h"

#include "common/clock.h"

struct http2_stream *http2_stream_of(struct http2_connection *connection, uint32_t slot)
{
    return &connection->streams[slot - connection->first_slot];
}

uint32_t http2_slot_of(const struct http2_stream *stream)
{
    return stream->connection->first_slot + (uint32_t)(stream - stream->connection->streams);
}

struct transcript *http2_transcript_of(const struct http2_stream *stream)
{
    struct transcript *transcript = stream->connection->shared->config.transcript;

    return http2_slot_of(stream) == 0 && transcript != NULL && !transcript->ended ? transcript
                                                                                  : NULL;
}

void http2_mark_dirty(struct http2_connection *connection)
{
    struct http2_shared *shared = connection->shared;

    if (connection->dirty)
        return;
    connection->dirty = true;
    connection->next_dirty = shared->dirty;
    shared->dirty = connection;
}

void http2_end_stream(struct http2_stream *stream, enum error_kind error)
{
    struct http2_connection *connection = stream->connection;
    struct http2_shared *shared = connection->shared;

    if (stream->state == STREAM_SENT)
        connection->in_flight--;
    else
        connection->waiting--;
    stream->state = STREAM_ENDED;
    stream->error = error;
    stream->ended_ns = clock_monotonic_ns();
    stream->next_ended = NULL;
    *shared->ended_tail = stream;
    shared->ended_tail = &stream->next_ended;
}
