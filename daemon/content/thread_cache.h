/*
 * The cache of a serving thread (L1) in front of the shared cache (L2). The key is the
 * site, the raw request target and the accepted content codings, the value a counted reference to an entry.
 * Set-associative: a full set replaces its oldest member. Its memory is bounded by
 * cache_thread_share(). Used by one thread.
 */
#ifndef DAEMON_THREAD_CACHE_H
#define DAEMON_THREAD_CACHE_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/content/cache.h"
#include "daemon/http/coding.h"

struct thread_cache;

/*
 * HITS is the thread's table, METRICS are its metrics in the segment (borrowed). NULL: out of
 * memory.
 */
struct thread_cache *thread_cache_new(struct cache *shared, struct segment_hits *hits,
                                      _Atomic uint64_t *metrics);
void thread_cache_free(struct thread_cache *cache);

/*
 * The live entry for TARGET of SITE and ACCEPTS, or NULL. Borrowed: valid until the next call; call
 * cache_acquire() to keep it longer. Counts a hit.
 */
struct cache_entry *thread_cache_find(struct thread_cache *cache, uint32_t site, struct span target,
                                      coding_preference accepts, uint64_t now_ns);

/*
 * Prefetch for thread_cache_find(): first call thread_cache_expect() with the next TARGET as soon
 * as it is known; some time later thread_cache_fetch() for its entry.
 */
void thread_cache_expect(struct thread_cache *cache, uint32_t site, struct span target);
void thread_cache_fetch(const struct thread_cache *cache);

/*
 * Adds ENTRY, which is in the shared cache, for TARGET of SITE, with its own reference. HIT: ENTRY was found there, so
 * count a hit. A newly inserted entry has no hit yet, so that the policy can distinguish single
 * requests from repeated ones. Long targets are not stored, and targets with a query only when they
 * are repeated.
 */
void thread_cache_store(struct thread_cache *cache, uint32_t site, struct span target,
                        coding_preference accepts, struct cache_entry *entry, bool hit,
                        uint64_t now_ns);

/* Drops all stale entries. */
void thread_cache_sweep(struct thread_cache *cache);

#endif
