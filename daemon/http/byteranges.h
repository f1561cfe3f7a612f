/*
 * The body of a 206 with several parts: multipart/byteranges, RFC 9110 section 14.6. It holds the
 * texts between the parts and which bytes of the representation each part is; the bytes themselves
 * stay where they are.
 *
 *   --B CRLF typing, Content-Range, empty line | bytes | CRLF --B CRLF ... | bytes | CRLF --B-- CRLF
 */
#ifndef DAEMON_BYTERANGES_H
#define DAEMON_BYTERANGES_H

#include "common/span.h"
#include "daemon/http/range.h"

/* As many hexadecimal digits of chance: no content contains them but by a chance of 2^-128. */
enum { BYTERANGES_BOUNDARY = 32 };

/* A text, and the bytes that follow it; length 0 for the last, the closing delimiter. */
struct byteranges_part {
    struct span text;
    struct byte_range bytes;
};

struct byteranges {
    uint64_t length; /* of the whole body */
    uint32_t count;  /* parts, the closing delimiter included */
    uint32_t next;   /* the part that is sent next: the sender's */
    struct byteranges_part part[RANGE_PARTS_MAX + 1];
    char boundary[BYTERANGES_BOUNDARY + 1];
    char texts[];
};

/* For SET of a representation of SIZE bytes; TYPING are the field lines that each part repeats. NULL:
 * out of memory, or of chance. The caller frees it with free(). */
struct byteranges *byteranges_new(const struct range_set *set, struct span typing, uint64_t size);

#endif
