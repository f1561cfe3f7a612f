/*
 * Frees memory while the limit of the control group is near (daemon/master/memory_watch.h): half of
 * the cache at a time, and once that is empty, idle connections. The cache takes no more new entries
 * than the master allows; at MEMORY_EXHAUSTED listen sockets pause as well (listen_socket.c).
 *
 * The worker's main thread.
 */
#ifndef DAEMON_WORKER_RELIEF_H
#define DAEMON_WORKER_RELIEF_H

#include "daemon/base/messages.h"
#include "daemon/worker/shedding.h"

enum { RELIEF_MS = 200 };

/* Makes the message known to all threads of the worker. */
void relief_set(const struct worker_context *context, const struct message_memory *memory);

/* Whether memory is short: then call relief_step() every RELIEF_MS. */
bool relief_needed(const struct worker_context *context);

/* False if new connections wait because no thread has memory for another one. */
bool relief_admits(const struct worker_context *context, struct serving_thread *const *threads,
                   uint32_t count);

void relief_step(const struct worker_context *context, struct worker_shedding *shedding,
                 struct serving_thread **threads, uint32_t count);

#endif
