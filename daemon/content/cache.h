/*
 * The cache of one worker: prepared answers by path, bounded by bytes and by entries. It knows
 * nothing about files or HTTP: an entry is the first member of whatever is cached, and is destroyed
 * by the callback when its last reference goes.
 *
 *   thread's thread cache ──counted reference──▶ entry ◀──one reference── shared table (mutex)
 *   (thread_cache.h, no lock)
 *
 * A hit in a thread cache takes no lock and writes no line that another thread writes: each thread
 * counts hits in its own table in shared memory (struct segment_hits), and the evictor reads them.
 * An entry that leaves the shared table is marked stale; thread caches drop it when they see that.
 * Its bytes count until its last reference is gone.
 *
 * The mutex guards the table, the policy's list, the free slots, and the worker's cache metrics and
 * cache table in the segment. Nothing else is taken inside.
 */
#ifndef DAEMON_CACHE_H
#define DAEMON_CACHE_H

#include "common/cache_policy.h"
#include "common/segment.h"
#include "common/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What a hit reads stands at the end: a thread cache fetches it into the processor's cache together with what
 * follows in memory, where the owner puts what it reads then.
 */
struct cache_entry {
    /* The cache's, under its mutex. */
    uint64_t hash;
    uint64_t hits_seen;
    struct policy_node policy;
    struct cache_entry *chain;
    /* Set by the owner before insertion, then only read. */
    const char *path; /* ended by NUL; lives as long as the entry */
    size_t path_length;
    size_t bytes; /* of memory, all in all */
    bool holds_descriptor;
    /* The cache's; fixed while the entry is live. */
    bool stored; /* was put into the table: it has a slot */
    uint64_t id;
    uint32_t slot;
    /* Everybody's. */
    _Atomic uint32_t references;
    _Atomic bool stale;          /* out of the table: don't serve it to new requests */
    _Atomic uint64_t checked_ns; /* when it was last known to be true, monotonic clock */
};

struct cache;

/*
 * Slots that a cache of at most ENTRIES live entries needs in its table of the segment: one that was
 * taken out keeps its slot until the last thread has dropped it.
 */
uint32_t cache_slots(uint32_t entries);

struct cache_limits {
    uint64_t bytes;
    uint32_t entries;
    uint32_t descriptors; /* entries that hold one */
};

/* TABLE and METRICS are those of WORKER_SLOT in SEGMENT (borrowed). NULL: out of memory. */
struct cache *cache_new(const struct cache_limits *limits, const struct cache_policy *policy,
                        void (*destroy)(struct cache_entry *entry), const struct segment *segment,
                        uint32_t worker_slot);

/* After the last reference of anyone. */
void cache_free(struct cache *cache);

/* A new entry's state: one reference, the caller's. */
void cache_entry_init(struct cache_entry *entry, const char *path, size_t length, size_t bytes,
                      uint64_t now_ns);

/* A counted reference to the live entry for PATH, or NULL. Any thread. */
struct cache_entry *cache_find(struct cache *cache, const char *path, size_t length);

/*
 * Puts ENTRY in, making room. The caller keeps its reference. When another thread was faster with
 * the same path, its entry is replaced (it is as old or older). An entry that finds no room stays
 * out (entry->stored is false) and lives by its references alone. Any thread.
 */
void cache_insert(struct cache *cache, struct cache_entry *entry);

/*
 * Takes all entries out, or those of PATH: the one of that path, or, when it ends in '/' or '*', all
 * that begin with it (without the star). What was loaded before and comes to be inserted later stays
 * out, too. Returns how many have left. Any thread.
 */
uint64_t cache_flush(struct cache *cache);
uint64_t cache_purge(struct cache *cache, const char *path);

/* Changes the limit; what no longer fits is evicted. Returns how many have left. Any thread. */
uint64_t cache_resize(struct cache *cache, uint64_t bytes);

/*
 * Takes out the entries that hold a descriptor and were not hit since this, or the evictor, last asked:
 * a file that was removed keeps its place on the disk while it is open. Any thread.
 */
void cache_close_unused(struct cache *cache);

void cache_set_policy(struct cache *cache, const struct cache_policy *policy);

/* Takes ENTRY out because it is no longer true. Any thread. */
void cache_invalidate(struct cache *cache, struct cache_entry *entry);

void cache_hold(struct cache_entry *entry);
void cache_release(struct cache *cache, struct cache_entry *entry);

/*
 * True for one caller when ENTRY was last checked more than MAX_AGE_NS ago: that caller checks it,
 * the others serve it meanwhile. Any thread.
 */
bool cache_claim_check(struct cache_entry *entry, uint64_t now_ns, uint64_t max_age_ns);

/*
 * True when stale entries hold so much memory, or a descriptor, that thread caches should look for them now, and some
 * have become stale since *SEEN, the caller's own (0 at first), was last set here. Any thread.
 */
bool cache_wants_sweep(const struct cache *cache, uint64_t *seen);

/* The evictor reads the hits of these thread slots. The worker's main thread. */
void cache_add_reader(struct cache *cache, uint32_t thread_slot);
void cache_remove_reader(struct cache *cache, uint32_t thread_slot);

#endif
