/*
 * The listen sockets of a worker and their assignment to its threads: the i-th row belongs to
 * thread i modulo the number of threads. The worker's main thread.
 */
#ifndef DAEMON_WORKER_LISTENERS_H
#define DAEMON_WORKER_LISTENERS_H

#include "daemon/base/messages.h"
#include "daemon/worker/thread.h"

struct worker_listeners {
    struct worker_listener *item; /* by row, then by id */
    uint32_t count, capacity;
};

/* Takes ownership of FD. Returns false and closes it if out of memory. */
bool worker_listeners_add(struct worker_listeners *listeners,
                          const struct message_listen_socket *message, int fd);

/* Closes one listen socket and revokes it from its thread. */
void worker_listeners_drop(struct worker_listeners *listeners, uint32_t id,
                           struct serving_thread **threads, uint32_t count);

/* Closes all. The threads are exiting and close theirs themselves. */
void worker_listeners_drop_all(struct worker_listeners *listeners);

/*
 * Assigns the listen sockets to the COUNT THREADS. Retries those that failed for lack of
 * descriptors.
 */
void worker_listeners_assign(struct worker_listeners *listeners, struct serving_thread **threads,
                             uint32_t count);

#endif
