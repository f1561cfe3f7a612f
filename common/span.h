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

static inline struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

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
    const char *start = span.start, *end = start + span.length;

    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    while (start < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct span){start, (size_t)(end - start)};
}

#endif
