#include "daemon/connection/read_buffer.h"

#include <stdlib.h>
#include <string.h>

enum { READ_BUFFER_MIN_BYTES = 4096 };

bool read_buffer_is_idle(const struct read_buffer *buffer)
{
    size_t empty = 0;

    if (buffer == NULL)
        return true;
    while (buffer->length - empty >= 2 && memcmp(buffer->bytes + empty, "\r\n", 2) == 0)
        empty += 2;
    return empty == buffer->length;
}

bool read_buffer_keep(struct read_buffer **buffer, const char *data, size_t length)
{
    if (length == 0) {
        free(*buffer);
        *buffer = NULL;
        return true;
    }
    if (*buffer == NULL) {
        size_t size = length < READ_BUFFER_MIN_BYTES ? READ_BUFFER_MIN_BYTES : length;

        *buffer = malloc(sizeof(**buffer) + size);
        if (*buffer == NULL)
            return false;
        (*buffer)->size = size;
    }
    memmove((*buffer)->bytes, data, length);
    (*buffer)->length = length;
    return true;
}

bool read_buffer_grow(struct read_buffer **buffer, size_t min)
{
    size_t size = (*buffer)->size;
    struct read_buffer *grown;

    while (size - (*buffer)->length < min)
        size *= 2;
    if (size == (*buffer)->size)
        return true;
    grown = realloc(*buffer, sizeof(*grown) + size);
    if (grown == NULL)
        return false;
    grown->size = size;
    *buffer = grown;
    return true;
}

bool read_buffer_append(struct read_buffer **buffer, const char *data, size_t length)
{
    if (!read_buffer_grow(buffer, length))
        return false;
    memcpy((*buffer)->bytes + (*buffer)->length, data, length);
    (*buffer)->length += length;
    return true;
}
