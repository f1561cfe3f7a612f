/*
 * The caches of a serving thread. The thread cache (L1) is in front of the shared cache (L2): its
 * key is the site, the raw request target and the accepted content codings, its value a counted
 * reference to an entry. Set-associative: a full set replaces its oldest member. Its memory is
 * bounded by cache_thread_share(). The negative cache has paths without a file. Each is used by one
 * thread.
 */
#ifndef DAEMON_THREAD_CACHE_H
#define DAEMON_THREAD_CACHE_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/content/cache.h"
#include "daemon/http/negotiation.h"

#include <stdbool.h>
#include <stdint.h>

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
 * Adds ENTRY, which is in the shared cache, for TARGET of SITE, with its own reference. It is found
 * until UNTIL_NS, unless the cache drops it before. HIT: ENTRY
 * was found there, so count a hit. A newly inserted entry has no hit yet, so that the policy can
 * distinguish single requests from repeated ones. Long targets are not stored, and targets with a
 * query only when they are repeated.
 */
void thread_cache_store(struct thread_cache *cache, uint32_t site, struct span target,
                        coding_preference accepts, struct cache_entry *entry, bool hit,
                        uint64_t now_ns, uint64_t until_ns);

/* Drops all stale entries. */
void thread_cache_sweep(struct thread_cache *cache);

/*
 * Repeated requests for a path without a file (a favicon, a missing error page, a broken link) cost
 * no system call. Like cached files, entries are checked again after [cache] revalidate.
 */
struct negative_cache;

/* Entries are valid for MAX_AGE_NS. Returns NULL with errno on failure. */
struct negative_cache *negative_cache_new(uint64_t max_age_ns);
void negative_cache_free(struct negative_cache *cache);

/* The time until which PATH of SITE is cached as missing; 0: it is not. */
uint64_t negative_cache_until(const struct negative_cache *cache, uint32_t site, struct span path,
                              uint64_t now_ns);

/* Adds PATH of SITE, unless it is too long; may replace another path. */
void negative_cache_add(struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns);

/* Removes PATH of SITE, if it is there. */
void negative_cache_remove(struct negative_cache *cache, uint32_t site, struct span path);

/* Removes all paths. */
void negative_cache_clear(struct negative_cache *cache);

#endif
