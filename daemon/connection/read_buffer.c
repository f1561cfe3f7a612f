#include "daemon/connection/read_buffer.h"

#include <stdlib.h>
#include <string.h>

enum { INPUT_ROOM_LEAST = 4096 };

bool input_is_idle(const struct connection *connection)
{
    const struct input *input = connection->input;
    size_t empty = 0;

    if (input == NULL)
        return true;
    while (input->length - empty >= 2 && memcmp(input->bytes + empty, "\r\n", 2) == 0)
        empty += 2;
    return empty == input->length;
}

bool input_keep(struct connection *connection, const char *data, size_t length)
{
    struct input *input = connection->input;

    if (length == 0) {
        free(input);
        connection->input = NULL;
        return true;
    }
    if (input == NULL) {
        size_t room = length < INPUT_ROOM_LEAST ? INPUT_ROOM_LEAST : length;

        input = malloc(sizeof(*input) + room);
        if (input == NULL)
            return false;
        input->room = room;
        connection->input = input;
    }
    memmove(input->bytes, data, length);
    input->length = length;
    return true;
}

bool input_grow(struct connection *connection, size_t least)
{
    struct input *input = connection->input;
    size_t room = input->room;

    while (room - input->length < least)
        room *= 2;
    if (room == input->room)
        return true;
    input = realloc(input, sizeof(*input) + room);
    if (input == NULL)
        return false;
    input->room = room;
    connection->input = input;
    return true;
}

bool input_append(struct connection *connection, const char *data, size_t length)
{
    if (!input_grow(connection, length))
        return false;
    memcpy(connection->input->bytes + connection->input->length, data, length);
    connection->input->length += length;
    return true;
}
