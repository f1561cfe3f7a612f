/*
 * Transport: how bytes move between a connection and its client. All functions are non-blocking and
 * return what the system calls of the same name return.
 */
#ifndef DAEMON_CONNECTION_TRANSPORT_H
#define DAEMON_CONNECTION_TRANSPORT_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport {
    ssize_t (*read)(int fd, void *buffer, size_t length);
    /* MORE: more bytes follow at once, so the kernel may delay a short packet. */
    ssize_t (*write)(int fd, const struct iovec *parts, int count, bool more);
    ssize_t (*send_file)(int fd, int file, off_t *offset, size_t length);
    /* Lifts the limit of unsent bytes that the socket inherited (TCP_NOTSENT_LOWAT). */
    void (*lift_unsent_limit)(int fd);
};

/* A plain TCP or UNIX socket. */
extern const struct transport transport_plain;

#endif
