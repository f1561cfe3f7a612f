/*
 * How bytes move between a connection and its client. The plain socket is one; an encrypted one
 * fits beside it without a change in parser, cache or answers. All functions are non-blocking and
 * return what the system calls of the same name would.
 */
#ifndef DAEMON_TRANSPORT_H
#define DAEMON_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport {
    ssize_t (*read)(int fd, void *buffer, size_t length);
    /* MORE: something follows at once, so a short packet may wait for it. */
    ssize_t (*write)(int fd, const struct iovec *parts, int count, bool more);
    ssize_t (*send_file)(int fd, int file, off_t *offset, size_t length);
    /* Lets as much of an answer wait in the socket as the kernel likes, not TRANSPORT_UNSENT_MOST. */
    void (*let_queue)(int fd);
};

/*
 * Bytes that may wait in a socket to be sent at first: clients that read slowly, or not at all, would
 * else hold a megabyte of the kernel's memory each (see tcp(7), TCP_NOTSENT_LOWAT).
 */
enum { TRANSPORT_UNSENT_MOST = 256 * 1024 };

extern const struct transport transport_plain;

#endif
