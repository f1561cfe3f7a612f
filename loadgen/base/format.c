#include "loadgen/base/format.h"

#include <inttypes.h>
#include <stdio.h>

char *format_integer(char *buffer, size_t size, uint64_t number)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number), at = 0;

    for (size_t i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

char *format_number(char *buffer, size_t size, double number)
{
    if (number >= 100)
        return format_integer(buffer, size, (uint64_t)(number + 0.5));
    snprintf(buffer, size, "%.3g", number);
    return buffer;
}
