/*
 * Broadcast: a command of the master to all threads of all workers, about the caches (see
 * daemon/base/messages.h). A worker first changes its shared cache; then each serving thread sweeps
 * its own caches; after the last one the worker reports completion. Without memory for a thread's
 * mailbox item, the report does not wait for that thread, which sweeps within a second. The
 * worker's main thread.
 */
#ifndef DAEMON_WORKER_BROADCAST_H
#define DAEMON_WORKER_BROADCAST_H

#include "daemon/base/channel.h"
#include "daemon/base/messages.h"
#include "daemon/worker/thread.h"

/* Executes MESSAGE by the COUNT THREADS, and reports completion to COMMANDS. */
void broadcast_begin(const struct worker_context *worker, struct serving_thread **threads,
                     uint32_t count, const struct message_command *message,
                     struct channel *commands);

#endif
