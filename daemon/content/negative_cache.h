/*
 * A thread's cache of paths without a file, so that repeated requests for one (a favicon, a missing
 * error page, a broken link) cost no system call. Like cached files, entries are checked again
 * after [cache] revalidate. Used by one thread.
 */
#ifndef DAEMON_NEGATIVE_CACHE_H
#define DAEMON_NEGATIVE_CACHE_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>

struct negative_cache;

/* Entries are valid for MAX_AGE_NS. Returns NULL with errno on failure. */
struct negative_cache *negative_cache_new(uint64_t max_age_ns);
void negative_cache_free(struct negative_cache *cache);

/* True if PATH of SITE is cached as missing. */
bool negative_cache_has(const struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns);

/* Adds PATH of SITE, unless it is too long; may replace another path. */
void negative_cache_add(struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns);

/* Removes PATH of SITE, if it is there. */
void negative_cache_remove(struct negative_cache *cache, uint32_t site, struct span path);

/* Removes all paths. */
void negative_cache_clear(struct negative_cache *cache);

#endif
