#include "console/data/target.h"

#include "common/segment_reader.h"

#include <stdio.h>
#include <string.h>

/* The path in the segment's directory; false when there is no segment, or none that can be read. */
static bool ask_segment(const char *name, char *path, size_t path_size)
{
    struct segment_reader reader;
    char why[256];
    int length;

    if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    length = snprintf(path, path_size, "%.*s", INSTANCE_PATH_MAX, reader.map.header->socket_path);
    segment_detach(&reader);
    return length > 0 && (size_t)length < path_size;
}

int target_socket(const char *name, const char *given, char *path, size_t path_size, char *why,
                  size_t size)
{
    if (given != NULL) {
        if ((size_t)snprintf(path, path_size, "%s", given) < path_size)
            return 0;
        snprintf(why, size, "the socket path '%s' is longer than %zu bytes", given, path_size - 1);
        return -1;
    }
    if (!instance_name_valid(name)) {
        snprintf(why, size,
                 "'%s' is no instance name: letters, digits, '.', '_' and '-', at most %d of them",
                 name, INSTANCE_NAME_MAX);
        return -1;
    }
    if (ask_segment(name, path, path_size) || instance_socket_path(name, path, path_size) == 0)
        return 0;
    snprintf(why, size, "the path of the control socket of '%s' would be longer than %zu bytes",
             name, path_size - 1);
    return -1;
}
