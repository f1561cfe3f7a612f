/*
 * Bytes that were read from a connection before they could be served. The pointer is NULL if there
 * are none. Functions that return bool return false if out of memory.
 */
#ifndef DAEMON_CONNECTION_READ_BUFFER_H
#define DAEMON_CONNECTION_READ_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct read_buffer {
    size_t length, size;
    char bytes[];
};

/* True if no request has begun: the buffer contains only empty lines (RFC 9112 section 2.2). */
bool read_buffer_is_idle(const struct read_buffer *buffer);

/* Replaces the content by DATA, which may be part of the buffer. LENGTH 0 frees the buffer. */
bool read_buffer_keep(struct read_buffer **buffer, const char *data, size_t length);

/* Makes space for at least MIN more bytes after the content. The buffer must not be empty. */
bool read_buffer_grow(struct read_buffer **buffer, size_t min);

/* Appends to the content. The buffer must not be empty. */
bool read_buffer_append(struct read_buffer **buffer, const char *data, size_t length);

#endif
