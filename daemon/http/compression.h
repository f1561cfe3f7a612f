/*
 * Compression by a content coding: gzip (RFC 1952), zstd (RFC 8878), br (RFC 7932). Pure; any thread.
 */
#ifndef DAEMON_COMPRESSION_H
#define DAEMON_COMPRESSION_H

#include "daemon/http/negotiation.h"

/* For less, the framing of a coding outweighs its savings. */
enum { COMPRESSION_MIN_BYTES = 512 };

/* By coding: level of compression, as in the configuration; 0: none. */
struct compression_levels {
    uint8_t level[CODING_COUNT];
};

static inline bool compression_is_on(const struct compression_levels *levels)
{
    return levels->level[CODING_GZIP] > 0 || levels->level[CODING_ZSTD] > 0 ||
           levels->level[CODING_BR] > 0;
}

/*
 * Compresses BYTES with CODING, not identity, at LEVEL, not 0; deterministic. Returns 0 with
 * *COMPRESSED, which the caller frees, and its length; ENODATA if the result would not be smaller;
 * or ENOMEM.
 */
int compression_run(enum coding coding, int level, struct span bytes, char **compressed,
                    size_t *compressed_length);

/*
 * The coding for a response that is made for one request and not kept: among the best that the
 * client accepts, the one that takes the least time. CODING_IDENTITY: none.
 */
enum coding compression_for_page(const struct compression_levels *levels,
                                 coding_preference accepts);

/*
 * True for media types that compress well: text, and formats such as JSON. TYPE may have
 * parameters.
 */
bool compression_suits_type(const char *type);

#endif
