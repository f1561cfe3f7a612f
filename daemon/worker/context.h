/*
 * Opens, fills and closes the worker context. Opened with the master's privileges; filled once the process
 * is confined. The worker's main thread.
 */
#ifndef DAEMON_WORKER_CONTEXT_H
#define DAEMON_WORKER_CONTEXT_H

#include "daemon/transaction/context.h"

struct rlimit;

/* How many descriptors of a process with LIMIT its cache may hold for its entries' files. */
uint32_t worker_context_cache_descriptors(const struct rlimit *limit);

/* The implementation of POLICY (enum config_policy). */
const struct cache_policy *worker_context_cache_policy(uint64_t policy);

/*
 * Opens the root and the directories of [files] follow_into. CONFIG is borrowed; CONTEXT is all zero.
 * Returns 0, or -1 with errno. The caller must call worker_context_close() in either case.
 */
int worker_context_open(struct worker_context *context, const struct config *config);

/*
 * Makes the rest and starts the offload threads, which publish in BLOCK. The caller has set segment,
 * worker_slot, main and doorbell. Returns 0, or -1 with errno.
 */
int worker_context_fill(struct worker_context *context, struct segment_worker *block);

/* All serving threads have ended. */
void worker_context_close(struct worker_context *context);

#endif
