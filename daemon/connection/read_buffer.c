#include "daemon/connection/read_buffer.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/transaction/shortage.h"
#include "daemon/transaction/transaction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BUFFER_MIN_BYTES = 4096, LINGER_MAX_S = 30 };

bool read_buffer_is_idle(const struct read_buffer *buffer)
{
    size_t empty = 0;

    if (buffer == NULL)
        return true;
    while (buffer->length - empty >= 2 && memcmp(buffer->bytes + empty, "\r\n", 2) == 0)
        empty += 2;
    return empty == buffer->length;
}

bool read_buffer_keep(struct read_buffer **buffer, const char *data, size_t length)
{
    if (length == 0) {
        free(*buffer);
        *buffer = NULL;
        return true;
    }
    if (*buffer == NULL) {
        size_t size = length < READ_BUFFER_MIN_BYTES ? READ_BUFFER_MIN_BYTES : length;

        *buffer = malloc(sizeof(**buffer) + size);
        if (*buffer == NULL)
            return false;
        (*buffer)->size = size;
    }
    memmove((*buffer)->bytes, data, length);
    (*buffer)->length = length;
    return true;
}

/* Makes space for at least MIN more bytes after the content, which is not empty. */
static bool read_buffer_grow(struct read_buffer **buffer, size_t min)
{
    size_t size = (*buffer)->size;
    struct read_buffer *grown;

    while (size - (*buffer)->length < min)
        size *= 2;
    if (size == (*buffer)->size)
        return true;
    grown = realloc(*buffer, sizeof(*grown) + size);
    if (grown == NULL)
        return false;
    grown->size = size;
    *buffer = grown;
    return true;
}

bool read_buffer_append(struct read_buffer **buffer, const char *data, size_t length)
{
    if (!read_buffer_grow(buffer, length))
        return false;
    memcpy((*buffer)->bytes + (*buffer)->length, data, length);
    (*buffer)->length += length;
    return true;
}

bool connection_keep_unserved(struct connection *connection, const char *data, size_t length)
{
    struct read_buffer **unserved = &connection->unserved;

    return read_buffer_keep(unserved, data, length) ||
           (memory_make_room(&connection->loop->context) &&
            read_buffer_keep(unserved, data, length));
}

/* Reading */

size_t connection_read(struct connection *connection, void *to, size_t length)
{
    _Atomic uint64_t *metrics = connection->loop->context.metrics;
    ssize_t got = connection->transport->read(connection, to, length);

    if (LIKELY(got > 0)) {
        metric_add(metrics, METRIC_bytes_received, (uint64_t)got);
        return (size_t)got;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        connection_watch(connection, EV_READ);
        return 0;
    }
    if (got < 0)
        metric_add(metrics, METRIC_connections_reset, 1);
    connection_abandon(connection);
    return 0;
}

bool connection_read_more(struct connection *connection, size_t room)
{
    struct read_buffer *unserved;
    size_t got;

    if (!read_buffer_grow(&connection->unserved, room)) {
        memory_make_room(&connection->loop->context); /* for other connections */
        connection_abandon(connection);
        return false;
    }
    unserved = connection->unserved;
    got = connection_read(connection, unserved->bytes + unserved->length,
                          unserved->size - unserved->length);
    if (got == 0)
        return false;
    unserved->length += got;
    return true;
}

void connection_read_lingering(struct connection *connection)
{
    const struct event_loop *loop = connection->loop;
    uint64_t lingered_ns = loop->context.loop_now_ns - connection->linger_from_ns;
    ssize_t got =
        connection->transport->read(connection, connection->loop->space->read[0], LOOP_READ_BYTES);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 ||
        (lingered_ns > LINGER_MAX_S * NS_PER_S && !connection_receives_the_rest(connection)))
        connection_close(connection);
    else
        connection_set_deadline(connection, DEADLINE_LINGER);
}

/* An iteration of the event loop */

void loop_begin_iteration(struct event_loop *loop)
{
    struct transaction_context *context = &loop->context;

    if (UNLIKELY(context->loop_now_ns == 0)) {
        context->loop_now_ns = clock_monotonic_ns();
        metric_add(context->metrics, METRIC_wakeups, 1);
        response_prefixes_update(&context->prefixes,
                                 (int64_t)(context_wall_ns(context) / NS_PER_S));
    }
}

void loop_enter(struct event_loop *loop)
{
    loop_begin_iteration(loop);
    loop_serve_ahead(loop);
}

void loop_serve_ahead(struct event_loop *loop)
{
    struct read_ahead ahead = loop->ahead;

    if (ahead.connection == NULL)
        return;
    loop->ahead.connection = NULL;
    lookup_prefetch_entry(&loop->context);
    ahead.connection->protocol->serve(ahead.connection, ahead.data, ahead.length);
}
