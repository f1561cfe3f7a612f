/*
 * The Range field, "bytes=0-99", "bytes=-5", "bytes=0-0,100-", and the body of a response with
 * several ranges: RFC 9110 section 14. Any thread.
 *
 * Ranges that overlap or touch are merged, in the place of the first (section 15.3.7.2). For a set
 * with more than RANGE_SPECS_MAX members, or more than RANGE_PARTS_MAX ranges after merging, the
 * whole representation is sent (section 14.2): that bounds our work and sends no more than was
 * requested.
 */
#ifndef DAEMON_RANGE_H
#define DAEMON_RANGE_H

#include "common/span.h"

#include <stdint.h>

enum {
    RANGE_SPECS_MAX = 64, /* a field may have */
    RANGE_PARTS_MAX = 16, /* a response may have */
};

struct byte_range {
    uint64_t first, length; /* length is not 0 */
};

struct range_set {
    uint32_t count;
    struct byte_range range[RANGE_PARTS_MAX];
};

enum range_result {
    RANGE_WHOLE,         /* ignore the field: malformed, another unit, or too many ranges */
    RANGE_PARTIAL,       /* 206: SET has at least one member */
    RANGE_UNSATISFIABLE, /* 416 */
};

/* Parses FIELD for a representation of SIZE bytes (below 2^63). Pure. */
enum range_result range_parse(struct span field, uint64_t size, struct range_set *set);

/*
 * The body of a 206 with several parts: multipart/byteranges, section 14.6. It holds the texts
 * between the parts and the range of each part, not the bytes of the representation.
 *
 *   CRLF --B CRLF TYPE_FIELDS, Content-Range, empty line | bytes |
 *   CRLF --B CRLF ... | bytes | CRLF --B-- CRLF
 *
 * The first CRLF ends an empty preamble (RFC 2046 section 5.1.1). Clients such as zsync expect it
 * before every delimiter.
 */
enum {
    BYTERANGES_BOUNDARY = 32
}; /* random hexadecimal digits: no content has them, but for 2^-128 */

/* A text and the bytes that follow it; the last is the closing delimiter, with length 0. */
struct byteranges_part {
    struct span text;
    struct byte_range bytes;
};

struct byteranges {
    uint64_t length; /* length of the whole body */
    uint32_t count;  /* parts, including the closing delimiter */
    uint32_t next;   /* the part to send next; for the sender */
    struct byteranges_part part[RANGE_PARTS_MAX + 1];
    char boundary[BYTERANGES_BOUNDARY + 1];
    char texts[];
};

/*
 * The body for SET of a representation of SIZE bytes; each part repeats the field lines
 * TYPE_FIELDS. Free it with free(). NULL: out of memory or random numbers.
 */
struct byteranges *byteranges_new(const struct range_set *set, struct span type_fields,
                                  uint64_t size);

#endif
