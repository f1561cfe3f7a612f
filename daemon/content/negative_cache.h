/*
 * Paths at which there was no file a moment ago: each thread remembers a few, so that what asks for
 * them again and again (a browser's favicon, an error page that the site does not have, a broken
 * link) costs no system call. As with files in the cache, the file system is asked again after
 * [cache] revalidate. The owning thread.
 */
#ifndef DAEMON_MISSING_H
#define DAEMON_MISSING_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>

struct missing;

/* Each path is believed to be missing for PATIENCE_NS. NULL with errno. */
struct missing *missing_new(uint64_t patience_ns);
void missing_free(struct missing *missing);

/* Was there no file at PATH, not long ago? */
bool missing_has(const struct missing *missing, struct span path, uint64_t now_ns);

/* There is none now. Longer paths are not kept; the place of another may be taken. */
void missing_add(struct missing *missing, struct span path, uint64_t now_ns);

/* Knows nothing any more. */
void missing_forget(struct missing *missing);

#endif
