/* A string with a length, not NUL-terminated. It does not own its bytes. */
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

/* The start of an empty span may be NULL, which memcmp() and strncasecmp() do not take. */
static inline bool span_is(struct span span, struct span other)
{
    return span.length == other.length &&
           (span.length == 0 || memcmp(span.start, other.start, span.length) == 0);
}

/* The same, ignoring ASCII case. */
static inline bool span_is_nocase(struct span span, struct span other)
{
    return span.length == other.length &&
           (span.length == 0 || strncasecmp(span.start, other.start, span.length) == 0);
}

/* SPAN without the blanks and tabs at its ends. */
static inline struct span span_trim(struct span span)
{
    while (span.length > 0 && (span.start[0] == ' ' || span.start[0] == '\t'))
        span = (struct span){span.start + 1, span.length - 1};
    while (span.length > 0 &&
           (span.start[span.length - 1] == ' ' || span.start[span.length - 1] == '\t'))
        span.length--;
    return span;
}

#endif
