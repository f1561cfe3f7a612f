/*
 * A file prepared to be sent: its head fields and body in one piece of memory, or, when it is too
 * large for that, its open descriptor. This is what the cache holds. Immutable once loaded.
 */
#ifndef DAEMON_RESOURCE_H
#define DAEMON_RESOURCE_H

#include "common/span.h"
#include "daemon/config/headers.h"
#include "daemon/content/cache.h"
#include "daemon/content/directory_check.h"
#include "daemon/content/files.h"
#include "daemon/content/variants.h"
#include "daemon/http/coding.h"
#include "daemon/http/mime.h"

#include <stdint.h>

/* A variant's path in the cache: its file's, this, and the coding's name. No file has such a path. */
#define RESOURCE_VARIANT_MARK "//"

struct resource {
    struct span file_path;         /* of the file; ended by NUL */
    struct variants variants;      /* that it was made from */
    bool may_gzip;                 /* its gzip variant can be made from it */
    _Atomic bool gzip_not_smaller; /* that has been tried, and was no smaller */
    /* The directory's state when all of the variants was looked for in it (0: not known), and when that
     * was last found to be so, monotonic clock. */
    _Atomic uint64_t directory_state, directory_ns;
    /* Pieces of the head, as daemon/content/resource_head.h draws them. */
    struct span typing, sharing, validators;
    struct span etag;   /* with its quotes */
    bool varies;        /* another Accept-Encoding may get other bytes */
    bool dated;         /* its Last-Modified can be compared with */
    int64_t modified_s; /* since 1970 */
    struct span modified_text;
    uint64_t device;          /* of the file that fd is */
    struct cache_entry entry; /* the cache knows only this; what follows is what a hit reads */
    /*
     * answer = head fields, the empty line, and the body where it is in memory:
     * answer[0 .. head_length) is what HEAD gets, answer[0 .. answer_length) what GET gets.
     */
    const char *answer;
    size_t head_length;
    size_t answer_length;
    uint64_t body_length;
    int fd; /* the body's source when it is not in memory, else -1 */
};

/* What loading needs to know; fixed while a worker lives. */
struct resource_source {
    const struct files_root *root;
    const struct mime_table *mime;
    const struct header_rules *headers;
    uint64_t memory_limit; /* of larger files no variant is kept in memory */
    uint64_t copy_limit;   /* larger files are not read but kept open, and sent by the kernel */
    bool precompressed;    /* look for variants beside files */
    bool compress;         /* make gzip variants of what is worth it */
};

/*
 * Loads PATH (canonical, below the root). Returns 0 with *RESOURCE holding one reference of the
 * caller's; EISDIR for a directory; EAGAIN when opening, EBUSY when reading would wait for a disk and
 * OPENING or READING forbids it; or another errno. Any thread.
 */
int resource_load(const struct resource_source *source, const char *path, size_t length,
                  enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                  struct resource **resource);

/*
 * The variant of ORIGINAL in CODING: loaded from beside the file, or made, which counts as reading.
 * Results as above; ESTALE when the variant's file has changed since ORIGINAL was loaded; ENODATA when
 * it is not worth making. Any thread.
 */
int resource_load_variant(const struct resource_source *source, const struct resource *original,
                          enum coding coding, enum files_effort opening, enum files_effort reading,
                          uint64_t now_ns, struct resource **resource);

/* Gives a reference back; CACHE is NULL where there is none. Any thread. */
void resource_release(struct cache *cache, struct resource *resource);

/* The cache's callback: nothing refers to the entry any more. */
void resource_destroy(struct cache_entry *entry);

/*
 * Do the file and its variants still look as they did? Returns 0 for yes, ESTALE for no (or
 * gone), EAGAIN when EFFORT forbids to find out. Out of descriptors or memory it is yes. While names
 * in the directory, which LOOK keeps open, are the same as when the variants was looked for, only those
 * that are there are looked at. Any thread, with its own LOOK.
 */
int resource_check(const struct resource_source *source, struct resource *resource,
                   enum files_effort effort, struct directory_check *look, uint64_t now_ns);

/* VARIANT is of the same variants as ORIGINAL, which was checked: what that learned of the directory holds for
 * both. Any thread. */
void resource_share_check(struct resource *variant, const struct resource *original);

#endif
