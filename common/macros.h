/* General macros. */
#ifndef COMMON_MACROS_H
#define COMMON_MACROS_H

#include <stddef.h>

#define ARRAY_LENGTH(array)   (sizeof(array) / sizeof((array)[0]))
#define LIKELY(condition)     __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition)   __builtin_expect(!!(condition), 0)
#define PRINTF_LIKE(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define CACHE_LINE            64

/*
 * For a large variable of each request that is written before it is read: exempts it from
 * -ftrivial-auto-var-init=zero, which would take as long as the work on it.
 */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define UNINITIALIZED __attribute__((uninitialized))
#endif
#endif
#ifndef UNINITIALIZED
#define UNINITIALIZED
#endif

/* Pointer to the struct TYPE whose MEMBER is at POINTER. */
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
