/*
 * The prepared head fields of a file's answers, in the order that lets each kind of answer take what
 * it needs in one piece:
 *
 *   Content-Length
 *   Content-Type, Content-Encoding                   typing
 *   configured for the content; Accept-Ranges,       sharing
 *     Last-Modified
 *   ETag, Vary, configured for any answer            sharing, validators
 *   the empty line
 *
 *   200  all of it
 *   304  validators (RFC 9110 section 15.4.5)
 *   206  of one part: Content-Range, the part's length, typing, sharing
 *   206  of many: sharing; typing stands in each part (section 15.3.7)
 *   206  after If-Range: validators alone, as the client has the rest (section 15.3.7)
 */
#ifndef DAEMON_RESOURCE_HEAD_H
#define DAEMON_RESOURCE_HEAD_H

#include "common/span.h"
#include "daemon/config/headers.h"
#include "daemon/content/variants.h"
#include "daemon/http/coding.h"

#include <stdbool.h>
#include <stdint.h>

enum { RESOURCE_HEAD_MAX = 768 + HEADER_RULES_MAX };

/* A place in the head's text. */
struct head_piece {
    uint32_t start, length;
};

struct resource_head {
    char text[RESOURCE_HEAD_MAX];
    uint32_t length;
    struct head_piece typing, sharing, validators, etag, modified;
    bool dated; /* Last-Modified is the file's time; one to come is told as now (RFC 9110 section
                   8.8.2.1), and nothing is compared with it */
};

/* What a head is made from. */
struct head_facts {
    const char *path; /* canonical: which configured fields it gets */
    const char *type; /* Content-Type */
    const struct header_rules *rules;
    const struct file_identity *file; /* that the bytes come from, or are made from */
    enum coding coding;
    bool varies;        /* another Accept-Encoding may get other bytes */
    int64_t modified_s; /* since 1970 */
    int64_t wall_s;     /* now */
    uint64_t length;    /* of the body, in bytes */
};

void resource_head_write(struct resource_head *head, const struct head_facts *facts);

#endif
