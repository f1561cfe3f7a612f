/* A piece of somebody else's bytes: not ended by NUL, valid as long as its owner says. */
#ifndef COMMON_SPAN_H
#define COMMON_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *start;
    size_t length;
};

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})

static inline bool span_is(struct span span, struct span other)
{
    return span.length == other.length && memcmp(span.start, other.start, span.length) == 0;
}

/* Letter case does not matter; ASCII. */
static inline bool span_is_nocase(struct span span, struct span other)
{
    return span.length == other.length && strncasecmp(span.start, other.start, span.length) == 0;
}

#endif
