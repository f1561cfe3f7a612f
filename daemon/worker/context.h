/*
 * Opens, fills and closes the worker context. It is opened with the master's privileges, and filled
 * in the sandbox. The worker's main thread.
 */
#ifndef DAEMON_WORKER_CONTEXT_H
#define DAEMON_WORKER_CONTEXT_H

#include "daemon/transaction/context.h"

struct rlimit;

/*
 * The number of descriptors that the cache may hold for its entries' files in a process with LIMIT.
 */
uint32_t worker_context_cache_descriptors(const struct rlimit *limit);

/* The implementation of POLICY (enum config_policy). */
const struct cache_policy *worker_context_cache_policy(uint64_t policy);

/*
 * Opens the root and the directories of [files] follow_into. CONFIG is borrowed; CONTEXT is all
 * zero. Returns 0, or -1 with errno. The caller must call worker_context_close() in either case.
 */
int worker_context_open(struct worker_context *context, const struct config *config);

/*
 * Creates the remaining members and starts the offload threads, which publish in BLOCK. The caller
 * has set segment, worker_slot, host_places, main and doorbell. Returns 0, or -1 with errno.
 */
int worker_context_fill(struct worker_context *context, struct segment_worker *block);

/* Call after all serving threads have ended. */
void worker_context_close(struct worker_context *context);

#endif
