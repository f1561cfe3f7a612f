/*
 * Paths at which there was no file a moment ago: each thread remembers a few, so that what asks for
 * them again and again (a browser's favicon, an error page that the site does not have, a broken
 * link) costs no system call. As with files in the cache, the file system is asked again after
 * [cache] revalidate. The owning thread.
 */
#ifndef DAEMON_NEGATIVE_CACHE_H
#define DAEMON_NEGATIVE_CACHE_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>

struct negative_cache;

/* Each path is believed to be missing for PATIENCE_NS. NULL with errno. */
struct negative_cache *negative_cache_new(uint64_t patience_ns);
void negative_cache_free(struct negative_cache *cache);

/* Was there no file at PATH, not long ago? */
bool negative_cache_has(const struct negative_cache *cache, struct span path, uint64_t now_ns);

/* There is none now. Longer paths are not kept; the place of another may be taken. */
void negative_cache_add(struct negative_cache *cache, struct span path, uint64_t now_ns);

/* Knows nothing any more. */
void negative_cache_clear(struct negative_cache *cache);

#endif
