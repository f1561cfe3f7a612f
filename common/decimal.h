/* Numbers as text, for heads and lines that are written for each request. Pure. */
#ifndef COMMON_DECIMAL_H
#define COMMON_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_MAX = 20 }; /* digits of UINT64_MAX */

/* Writes NUMBER in decimal, without a NUL, and returns the end. */
static inline char *decimal_put(char *to, uint64_t number)
{
    char digits[DECIMAL_MAX];
    size_t at = DECIMAL_MAX;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (at < DECIMAL_MAX)
        *to++ = digits[at++];
    return to;
}

#endif
