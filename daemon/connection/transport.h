/*
 * Transport: how bytes move between a connection and its client. All functions are non-blocking and
 * return what the system calls of the same name return. The owning thread.
 */
#ifndef DAEMON_CONNECTION_TRANSPORT_H
#define DAEMON_CONNECTION_TRANSPORT_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct connection;

struct transport {
    ssize_t (*read)(struct connection *connection, void *buffer, size_t length);
    /*
     * MORE: more bytes follow at once, so the kernel may delay a short packet. After EAGAIN the next
     * write must offer the same bytes again, or these and more.
     */
    ssize_t (*write)(struct connection *connection, const struct iovec *parts, int count,
                     bool more);
    /* After EAGAIN the next call must offer the same bytes again. */
    ssize_t (*send_file)(struct connection *connection, int file, off_t *offset, size_t length);
};

/* Lifts the limit of unsent bytes that the socket inherited (TCP_NOTSENT_LOWAT). */
void transport_lift_unsent_limit(const struct connection *connection);

/* A plain TCP or UNIX socket. */
extern const struct transport transport_plain;

#endif
