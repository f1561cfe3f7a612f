/*
 * The prepared field lines of a file's answers, ordered so that each kind of answer takes what it needs
 * in one piece:
 *
 *   Content-Length
 *   Content-Type, Content-Encoding                   type_fields
 *   configured for the content; Accept-Ranges,       common_fields
 *     Last-Modified
 *   ETag, Vary, configured for any answer            common_fields, validators
 *   the empty line
 *
 *   200  all
 *   304  validators (RFC 9110 section 15.4.5)
 *   206  with one range: Content-Range, its Content-Length, type_fields, common_fields
 *   206  with several: common_fields; type_fields is in each part (section 15.3.7)
 *   206  after If-Range: validators only, as the client has the rest (section 15.3.7)
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

/* A part of the text. */
struct head_piece {
    uint32_t start, length;
};

struct resource_head {
    char text[RESOURCE_HEAD_MAX];
    uint32_t length;
    struct head_piece type_fields, common_fields, validators, etag, modified;
    bool
        dated; /* Last-Modified is the file's mtime. An mtime in the future is sent as now (RFC 9110
                   section 8.8.2.1) and not compared with */
};

struct head_facts {
    const char *path; /* canonical; selects the configured fields */
    const char *type; /* Content-Type */
    const struct header_rules *rules;
    const struct file_identity *file; /* the source of the content */
    enum coding coding;
    bool varies;        /* the answer depends on Accept-Encoding */
    int64_t modified_s; /* since 1970 */
    int64_t wall_s;     /* now */
    uint64_t length;    /* of the body, in bytes */
};

void resource_head_write(struct resource_head *head, const struct head_facts *facts);

#endif
