/*
 * A serving thread's own small table before the shared cache: from the raw bytes of a request
 * target, and the content codings that it accepts, to a counted entry. Set-associative: a full set drops its oldest member. One thread only.
 */
#ifndef DAEMON_THREAD_CACHE_H
#define DAEMON_THREAD_CACHE_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/content/cache.h"
#include "daemon/http/coding.h"

struct thread_cache;

/* HITS is the thread's own table in the segment (borrowed). NULL: out of memory. */
struct thread_cache *thread_cache_new(struct cache *shared, uint32_t entries,
                                      struct segment_hits *hits);
void thread_cache_free(struct thread_cache *cache);

/*
 * The live entry for TARGET and ACCEPTS, or NULL. Borrowed: valid until the next call on this table; hold it to
 * keep it longer. Counts the hit when it is returned.
 */
struct cache_entry *thread_cache_find(struct thread_cache *cache, struct span target,
                                      coding_preference accepts, uint64_t now_ns);

/*
 * Asked for ahead of thread_cache_find(), both spare it waiting for memory: the first as soon as TARGET is known, the
 * second some time later, of the target that was named last.
 */
void thread_cache_expect(struct thread_cache *cache, struct span target);
void thread_cache_fetch(const struct thread_cache *cache);

/*
 * Remembers ENTRY (stored in the cache) for both, with a reference of its own. HIT: it was found there,
 * and that counts; what has just been put in was not hit yet, or no policy could tell what is asked for
 * once from what is asked for again.
 */
void thread_cache_store(struct thread_cache *cache, struct span target, coding_preference accepts,
                        struct cache_entry *entry, bool hit, uint64_t now_ns);

/* Drops all stale entries. */
void thread_cache_sweep(struct thread_cache *cache);

#endif
