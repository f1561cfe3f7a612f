/*
 * What a worker serves from: the root, the cache, the offload threads and what else all of its threads
 * share. Opened with the master's rights, filled once the process is locked in.
 */
#ifndef DAEMON_SITE_H
#define DAEMON_SITE_H

#include "common/segment.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/offload.h"
#include "daemon/config/config.h"
#include "daemon/config/headers.h"
#include "daemon/content/cache.h"
#include "daemon/content/files.h"
#include "daemon/content/resource.h"
#include "daemon/transaction/client_limit.h"

/* What all threads of a worker share. Fixed while they live. */
struct site {
    const struct config *config;
    const struct segment *segment;
    uint32_t worker_slot;
    struct files_root root;      /* as the source points to */
    struct header_rules headers; /* the same */
    struct resource_source source;
    struct cache *cache;        /* NULL: off */
    uint32_t cache_descriptors; /* most that it may hold */
    struct offload *offload;
    struct peers *peers;  /* connections by client address */
    struct mailbox *main; /* the worker's main thread */
    int doorbell;         /* eventfd: wakes the logger */
};

struct rlimit;

/* Of the descriptors that LIMIT allows a process, those that its cache may hold: files of its entries. */
uint32_t site_descriptors_for_cache(const struct rlimit *limit);

/*
 * Opens the root and the folders that its links may lead into; CONFIG is borrowed. SITE is all zero
 * before. Returns 0, or -1 with errno; site_close() is owed in either case.
 */
int site_open(struct site *site, const struct config *config);

/*
 * Makes the rest and starts the offload threads, which publish in BLOCK; the fields that name the
 * worker are filled in before. Returns 0, or -1 with errno.
 */
int site_fill(struct site *site, struct segment_worker *block);

/*
 * A connection that the master had passed is on its way no more: a thread has it, or it was given back
 * or lost. By what it has passed and what came the master tells how many a worker has. Any thread.
 */
void site_count_received(const struct site *site);

/* All serving threads have ended, so nothing refers to cache entries any more. */
void site_close(struct site *site);

#endif
