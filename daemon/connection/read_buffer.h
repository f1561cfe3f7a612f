/*
 * Reading from a connection, and the buffer of bytes that were read before they could be served;
 * its pointer is NULL if there are none. The owning thread.
 */
#ifndef DAEMON_CONNECTION_READ_BUFFER_H
#define DAEMON_CONNECTION_READ_BUFFER_H

#include "daemon/connection/connection.h"

/* True if no request has begun: the buffer contains only empty lines (RFC 9112 section 2.2). */
bool read_buffer_is_idle(const struct read_buffer *buffer);

/*
 * Replaces the content by DATA, which may be part of the buffer. LENGTH 0 frees the buffer. Returns
 * false if out of memory.
 */
bool read_buffer_keep(struct read_buffer **buffer, const char *data, size_t length);

/* Appends to the content. The buffer must not be empty. Returns false if out of memory. */
bool read_buffer_append(struct read_buffer **buffer, const char *data, size_t length);

/*
 * Reads at most LENGTH bytes from the client into TO. Returns their number, or 0 if there are none:
 * then it waits for more, or abandons the connection at its end.
 */
size_t connection_read(struct connection *connection, void *to, size_t length);

/*
 * Reads more bytes behind the unserved ones, in at least ROOM bytes. Returns false if there are
 * none, or no memory for them: as connection_read().
 */
bool connection_read_more(struct connection *connection, size_t room);

/*
 * Replaces the connection's unserved bytes by the LENGTH bytes at DATA. Without memory for them,
 * shrinks the cache and tries again. Returns false if that does not help.
 */
bool connection_keep_unserved(struct connection *connection, const char *data, size_t length);

/* Discards what the client sends after its last request, for a limited time. */
void connection_read_lingering(struct connection *connection);

#endif
