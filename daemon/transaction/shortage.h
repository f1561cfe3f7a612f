/*
 * Shortages of a worker: of log space, connections, descriptors or memory. Each is logged once when
 * it begins in any thread, and once when it has been over in all threads for a while.
 */
#ifndef DAEMON_TRANSACTION_SHORTAGE_H
#define DAEMON_TRANSACTION_SHORTAGE_H

#include "daemon/base/mailbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum shortage {
    SHORTAGE_LOG,         /* lost: access log records */
    SHORTAGE_CONNECTIONS, /* connections.max; lost, as in the following ones: idle connections */
    SHORTAGE_DESCRIPTORS,
    SHORTAGE_MEMORY,
    SHORTAGE_COUNT
};

/* Shared by all threads of a worker; initially zero. */
struct worker_shortages {
    struct {
        _Atomic uint32_t threads; /* that have the shortage */
        _Atomic uint64_t lost;    /* since it began */
    } of[SHORTAGE_COUNT];
    _Atomic uint32_t memory;   /* enum memory_level: what the control group has left */
    struct mailbox_item sweep; /* to the main thread: all threads drop what the cache has evicted */
    mailbox_deliver_fn *deliver_sweep; /* on the main thread */
    _Atomic bool sweep_posted;         /* and not taken yet */
};

/* Those of one thread, which calls the functions. */
struct shortages {
    struct worker_shortages *worker; /* borrowed */
    uint32_t worker_slot;
    uint64_t noted_ns[SHORTAGE_COUNT]; /* when it was last noted, monotonic clock; 0: none */
};

/* The thread has SHORTAGE, which cost LOST of what enum shortage names. */
void shortage_note(struct shortages *shortages, enum shortage shortage, uint64_t now_ns,
                   uint64_t lost);

/* Ends the thread's shortages that were last noted a while ago. Once a second. */
void shortages_expire(struct shortages *shortages, uint64_t now_ns);

/* Ends all its shortages: the thread exits. */
void shortages_end(struct shortages *shortages);

#endif
