/*
 * The shared cache (L2) of a worker: prepared responses by path, bounded in bytes and entries. It
 * knows nothing about files or HTTP: an entry is the first member of the cached struct, and a
 * callback destroys it when its last reference is dropped.
 *
 *   thread cache (L1) ──counted reference──▶ entry ◀──one reference── shared table (mutex)
 *   (thread_cache.h, no lock)
 *
 * A hit in a thread cache takes no lock and writes no cache line that another thread writes: each
 * thread counts hits in its own table in shared memory (struct segment_hits), and eviction reads
 * all of them. An entry removed from the shared table is marked stale; thread caches drop it when
 * they find it. Its bytes count until its last reference is dropped.
 *
 * The mutex guards the table, the policy's lists, the free slots, and the worker's cache metrics
 * and cache table in the segment. It is innermost.
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
 * The members that a hit reads are last. A thread cache prefetches them together with the memory
 * after the entry, where the owner puts what it reads on a hit.
 */
struct cache_entry {
    /* Owned by the cache, under its mutex. */
    uint64_t hash;
    uint64_t hits_seen;
    struct policy_node policy;
    struct cache_entry *chain;
    /* Set by the owner before insertion, then read-only. */
    uint32_t site;    /* paths of different sites are different */
    const char *path; /* ends with a NUL; lives as long as the entry */
    size_t path_length;
    size_t bytes; /* all memory that it takes */
    bool holds_descriptor;
    /* Any thread; on a hit only when a check is due. */
    _Atomic uint64_t claimed_ns; /* the checked_ns for which a caller has claimed the next check */
    /* Set by the cache; fixed while the entry is live. */
    bool stored; /* it was in the table and has a slot */
    uint64_t id;
    uint32_t slot;
    /* Any thread. */
    _Atomic uint32_t references;
    _Atomic bool stale;          /* no longer in the table: do not serve it to new requests */
    _Atomic uint64_t checked_ns; /* when its loading or its last check began, monotonic clock */
};

struct cache;

/*
 * Number of slots in the segment for a cache of ENTRIES live entries. It is larger than ENTRIES,
 * because a stale entry keeps its slot until its last reference is dropped.
 */
uint32_t cache_slots(uint32_t entries);

/* The limits besides the number of entries, which follows from the slots in the segment. */
struct cache_limits {
    uint64_t bytes;
    uint32_t descriptors; /* entries that hold a descriptor */
};

/* Publishes in the table and metrics of WORKER_SLOT in SEGMENT (borrowed). NULL: out of memory. */
struct cache *cache_new(const struct cache_limits *limits, const struct cache_policy *policy,
                        void (*destroy)(struct cache_entry *entry), const struct segment *segment,
                        uint32_t worker_slot);

/* Call after all references were released. */
void cache_free(struct cache *cache);

/* Initialises an entry of site 0 with one reference, the caller's. */
void cache_entry_init(struct cache_entry *entry, const char *path, size_t length, size_t bytes,
                      uint64_t now_ns);

/* A counted reference to the live entry for PATH of SITE, or NULL. Any thread. */
struct cache_entry *cache_find(struct cache *cache, uint32_t site, const char *path, size_t length);

/*
 * Inserts ENTRY, evicting others. The caller keeps its reference. ENTRY replaces an entry of the
 * same site and path that another thread inserted. If there is no room, ENTRY is not inserted
 * (entry->stored is false) and is destroyed with its last reference. Any thread.
 */
void cache_insert(struct cache *cache, struct cache_entry *entry);

/*
 * Removes all entries, or those of PATH in all sites: the entry of that path, or, if it ends in '/'
 * or '*', all with that prefix (without the star). An entry whose loading began before the call is
 * not inserted afterwards. Returns the number removed. Any thread.
 */
uint64_t cache_flush(struct cache *cache);
uint64_t cache_purge(struct cache *cache, const char *path);

/* Changes the limit and evicts until it is met. Returns the number evicted. Any thread. */
uint64_t cache_resize(struct cache *cache, uint64_t bytes);

/*
 * Takes no more than BYTES of new entries until the next such call, whatever is evicted meanwhile.
 * Initially there is no such limit. Any thread.
 */
void cache_allow(struct cache *cache, uint64_t bytes);

/* Evicts half of the memory. Returns the number of entries. Any thread. */
uint64_t cache_shed(struct cache *cache);

/*
 * Removes entries that hold a descriptor and had no hit since the last call or eviction check: a
 * deleted file occupies the disk while it is open. Any thread.
 */
void cache_close_unused(struct cache *cache);

void cache_set_policy(struct cache *cache, const struct cache_policy *policy);

/* Removes ENTRY because it is out of date. Any thread. */
void cache_invalidate(struct cache *cache, struct cache_entry *entry);

void cache_acquire(struct cache_entry *entry);
void cache_release(struct cache *cache, struct cache_entry *entry);

/*
 * A check is due when three quarters of MAX_AGE_NS are over. One caller then claims it; the others
 * serve the entry meanwhile, but not longer than MAX_AGE_NS, however late the check is done. NOW_NS
 * may be the time of the loop iteration: it is older than a request on a connection that arrived
 * and was accepted during the iteration, and it may be older than the last check, by another
 * thread. A check is due then, too. Any thread.
 */
static inline bool cache_check_is_due(struct cache_entry *entry, uint64_t now_ns,
                                      uint64_t max_age_ns)
{
    uint64_t checked_ns = atomic_load_explicit(&entry->checked_ns, memory_order_relaxed);

    return now_ns - checked_ns >= max_age_ns - max_age_ns / 4; /* also if NOW_NS is before it */
}

/*
 * For an entry whose check is due; NOW_NS is the current time. Returns true if the caller must
 * check it, because it is the first, or because MAX_AGE_NS are over. Any thread.
 */
bool cache_claim_check(struct cache_entry *entry, uint64_t now_ns, uint64_t max_age_ns);

/* A check that began at BEGAN_NS has found ENTRY valid. Any thread. */
void cache_set_checked(struct cache_entry *entry, uint64_t began_ns);

/*
 * True if stale entries hold much memory or a descriptor, and there are new ones since the last
 * call: sweep the thread caches now. *SEEN is private to the caller, initially 0. Any thread.
 */
bool cache_wants_sweep(const struct cache *cache, uint64_t *seen);

/* Number of removed entries whose memory has been freed so far. Any thread. */
uint64_t cache_freed(const struct cache *cache);

/*
 * True if there are removed entries whose memory is not free yet: thread caches and responses refer
 * to them, or another thread is about to free them. Any thread.
 */
bool cache_frees_soon(const struct cache *cache);

/* Maximum number of live entries. */
uint32_t cache_max_entries(const struct cache *cache);

/* Memory that each reader's thread cache may use, in bytes; all together 1/16 of the limit. */
uint64_t cache_thread_share(const struct cache *cache);

/* Adds a thread slot whose hits count for eviction. The worker's main thread. */
void cache_add_reader(struct cache *cache, uint32_t thread_slot);
void cache_remove_reader(struct cache *cache, uint32_t thread_slot);

#endif
