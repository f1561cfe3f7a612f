/*
 * Kept input: bytes that were read before their turn came. A connection has none while it is idle.
 */
#ifndef DAEMON_INPUT_H
#define DAEMON_INPUT_H

#include "daemon/connection/connection.h"

struct input {
    size_t length, room;
    char bytes[];
};

/* No request has begun: nothing is kept, or empty lines alone (RFC 9112 section 2.2). */
bool input_is_idle(const struct connection *connection);

/*
 * Keeps these bytes, which may be a part of those that are kept already, and no others; with LENGTH
 * 0, none. False: out of memory.
 */
bool input_keep(struct connection *connection, const char *data, size_t length);

/* Makes room behind the kept bytes, of which there are some, for LEAST more. False: out of memory. */
bool input_grow(struct connection *connection, size_t least);

/* Appends to the kept bytes. False: out of memory. */
bool input_append(struct connection *connection, const char *data, size_t length);

#endif
