/*
 * A serving thread's own small table before the shared cache: from the raw bytes of a request
 * target, and the content codings that it accepts, to a counted entry. Set-associative: a full set drops its oldest member. One thread only.
 */
#ifndef DAEMON_CACHE_FRONT_H
#define DAEMON_CACHE_FRONT_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/content/cache.h"
#include "daemon/http/coding.h"

struct cache_front;

/* HITS is the thread's own table in the segment (borrowed). NULL: out of memory. */
struct cache_front *cache_front_new(struct cache *cache, uint32_t entries,
                                    struct segment_hits *hits);
void cache_front_free(struct cache_front *front);

/*
 * The live entry for TARGET and ACCEPTS, or NULL. Borrowed: valid until the next call on this table; hold it to
 * keep it longer. Counts the hit when it is returned.
 */
struct cache_entry *cache_front_find(struct cache_front *front, struct span target,
                                     coding_preference accepts, uint64_t now_ns);

/*
 * Asked for ahead of cache_front_find(), both spare it waiting for memory: the first as soon as TARGET is known, the
 * second some time later, of the target that was named last.
 */
void cache_front_expect(struct cache_front *front, struct span target);
void cache_front_fetch(const struct cache_front *front);

/*
 * Remembers ENTRY (stored in the cache) for both, with a reference of its own. HIT: it was found there,
 * and that counts; what has just been put in was not hit yet, or no policy could tell what is asked for
 * once from what is asked for again.
 */
void cache_front_store(struct cache_front *front, struct span target, coding_preference accepts,
                       struct cache_entry *entry, bool hit, uint64_t now_ns);

/* Drops all stale entries. */
void cache_front_sweep(struct cache_front *front);

#endif
