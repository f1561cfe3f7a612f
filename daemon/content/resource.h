/*
 * A file, or a variant of it, ready to be sent: its field lines and body in one piece of memory,
 * or, if it is too large, its open descriptor. This is what the caches hold. Immutable once loaded,
 * except for the atomics.
 *
 * The fields are prepared as field lines of HTTP/1 and as an HPACK block for HTTP/2, and ordered so
 * that each kind of response can use them in one piece:
 *
 *   Content-Length
 *   Content-Type, Content-Encoding                   type_fields
 *   configured for the content; Accept-Ranges,       common_fields
 *     Last-Modified
 *   ETag, Vary, configured for any response          common_fields, validators
 *   the empty line, in HTTP/1 only
 *
 *   200  all
 *   304  validators (RFC 9110 section 15.4.5)
 *   206  with one range: Content-Range, its Content-Length, type_fields, common_fields
 *   206  with several: common_fields; type_fields is in each part (section 15.3.7)
 *   206  after If-Range: validators only, as the client has the rest (section 15.3.7)
 */
#ifndef DAEMON_RESOURCE_H
#define DAEMON_RESOURCE_H

#include "common/span.h"
#include "daemon/config/rules.h"
#include "daemon/content/cache.h"
#include "daemon/content/files.h"
#include "daemon/content/variants.h"
#include "daemon/http/compression.h"
#include "daemon/http/mime.h"
#include "daemon/http/request.h"

#include <stdint.h>

/*
 * The path of a variant in the cache is the file's path, this, and the coding. No file has such a
 * path.
 */
#define RESOURCE_VARIANT_MARK "//"

#define RESOURCE_NOT_SMALLER UINT64_MAX

/* Parts of the head, see above. */
struct head_pieces {
    struct span type_fields, common_fields, validators;
};

struct resource {
    struct span file_path;    /* ends with a NUL */
    struct variants variants; /* as they were when this was loaded */
    bool coded_only;          /* the file does not exist: nothing to send but its variants */
    uint8_t may_make;         /* codings in which a variant can be made from it, as bits */
    /* Size of each variant that was made; 0: none was yet, RESOURCE_NOT_SMALLER: it was not. */
    _Atomic uint64_t made_bytes[CODING_COUNT];
    /*
     * The state of the directory when all variants were looked up (0: unknown), and the monotonic
     * time when it was last confirmed.
     */
    _Atomic uint64_t directory_state, directory_ns;
    struct head_pieces pieces[HTTP_VERSIONS];
    struct span etag;   /* has quotes */
    enum coding coding; /* of the body, also of a file that is requested by a coded name */
    bool varies;        /* the response depends on Accept-Encoding */
    bool dated;         /* Last-Modified is valid for comparisons */
    int64_t modified_s; /* since 1970 */
    struct span modified_text;
    uint64_t device;                 /* the file that fd refers to is on it */
    struct cache_entry entry;        /* a hit reads only the members after it */
    struct span head[HTTP_VERSIONS]; /* all fields, and the empty line */
    const char *body;                /* NULL: it is not in memory */
    uint64_t body_length;
    int fd;               /* has the body if that is not in memory, else -1 */
    uint32_t saved_bytes; /* so many fewer than without its coding */
};

/* How files are loaded; fixed while a worker lives. */
struct resource_source {
    uint32_t site; /* whose paths these are */
    const struct files_root *root;
    const struct mime_table *mime;
    const struct header_rules *headers;
    uint64_t memory_limit; /* bytes; no variant is made of larger files */
    uint64_t copy_limit;   /* bytes; larger files are kept open and sent with sendfile() */
    enum config_precompressed precompressed; /* look for variants beside the files */
    bool coded_names[CODING_COUNT]; /* a file whose name ends with its extension has this coding */
    struct compression_levels levels; /* of variants that are made of compressible files */
};

/*
 * Loads PATH (canonical, below the root). Returns 0 with one reference to *RESOURCE for the caller;
 * EISDIR for a directory; EAGAIN or EBUSY if opening or reading would wait for a disk and OPENING
 * or READING forbids that; or another errno. Any thread.
 */
int resource_load(const struct resource_source *source, const char *path, size_t length,
                  enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                  struct resource **resource);

/*
 * Loads the variant of ORIGINAL in CODING from its file, or compresses it, which needs READING to
 * allow blocking. Results as above; ESTALE if the variant's file has changed since ORIGINAL was
 * loaded; ENODATA if it would not be smaller. The variant is as old as ORIGINAL: it counts as
 * checked when ORIGINAL was. Any thread.
 */
int resource_load_variant(const struct resource_source *source, const struct resource *original,
                          enum coding coding, enum files_effort opening, enum files_effort reading,
                          struct resource **resource);

/* Drops a reference; CACHE may be NULL (cache off). Any thread. */
void resource_release(struct cache *cache, struct resource *resource);

/* The destroy callback of the cache. */
void resource_destroy(struct cache_entry *entry);

/*
 * Checks whether the file and its variants are unchanged. Returns 0 if so, ESTALE if not (or
 * removed), EAGAIN if EFFORT forbids the check. Returns 0 (unchanged) if the check fails for lack
 * of descriptors or memory. If the state of the directory, from CHECK, is the same as when RESOURCE
 * was loaded, only the existing variants are checked. Any thread, with its own CHECK.
 */
int resource_check(const struct resource_source *source, struct resource *resource,
                   enum files_effort effort, struct directory_check *check, uint64_t now_ns);

/* Copies the result of a check of ORIGINAL to its VARIANT. Any thread. */
void resource_share_check(struct resource *variant, const struct resource *original);

/*
 * Makes a page: a resource that was generated for one response. Returns 0 with *PAGE, which has
 * this body and these FIELDS ("Name: value\r\n" each, Content-Type first, without Content-Length);
 * or ENOMEM.
 */
int resource_new_page(struct span path, const char *fields, const char *body, size_t length,
                      struct resource **page);

#endif
