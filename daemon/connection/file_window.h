/*
 * The window of a file that is being sent: bytes that are in the page cache, so that sending them
 * does not wait for a disk. If the next window is not, an offload thread reads it. The owning
 * thread.
 */
#ifndef DAEMON_CONNECTION_FILE_WINDOW_H
#define DAEMON_CONNECTION_FILE_WINDOW_H

#include "daemon/connection/connection.h"

enum { FILE_WINDOW_BYTES = 2 * 1024 * 1024 };

struct file_window {
    uint64_t warm_from, warm_until; /* these bytes of the file are in the page cache */
    /* Called when an offload job is done; until then the window must not be freed. */
    void (*read)(struct file_window *window, struct connection *connection);
};

/* Forgets the file. */
static inline void file_window_clear(struct file_window *window)
{
    window->warm_from = window->warm_until = 0;
}

/*
 * Returns how many of the LENGTH bytes at OFFSET of FILE can be sent now; 0 if an offload job has
 * been submitted for them. If that is impossible they can be sent, because a response that has
 * begun must go on.
 */
uint64_t file_window_bytes(struct file_window *window, struct connection *connection,
                           struct resource *file, uint64_t offset, uint64_t length);

#endif
