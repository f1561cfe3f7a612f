/*
 * The Range field, RFC 9110 section 14: "bytes=0-99", "bytes=-5", "bytes=0-0,100-". Pure.
 *
 * Ranges that overlap or touch become one, in the place of the one that came first (section 15.3.7.2).
 * A set of more than RANGE_SPECS_MAX members, or of more than RANGE_PARTS_MAX parts then, is answered
 * with the whole (section 14.2): it costs a client no more than it asked for, and us a bounded sum.
 */
#ifndef DAEMON_RANGE_H
#define DAEMON_RANGE_H

#include "common/span.h"

#include <stdint.h>

enum {
    RANGE_SPECS_MAX = 64, /* in a field */
    RANGE_PARTS_MAX = 16, /* in an answer */
};

struct byte_range {
    uint64_t first, length; /* length is not 0 */
};

struct range_set {
    uint32_t count;
    struct byte_range range[RANGE_PARTS_MAX];
};

enum range_result {
    RANGE_WHOLE,         /* the field is malformed, of another unit, or not worth it: ignore it */
    RANGE_PARTIAL,       /* 206: SET has 1 member or more */
    RANGE_UNSATISFIABLE, /* 416 */
};

/* FIELD for a representation of SIZE bytes (below 2^63). */
enum range_result range_parse(struct span field, uint64_t size, struct range_set *set);

#endif
