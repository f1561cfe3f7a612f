#include "daemon/config/path.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *config_path_join(const char *folder, const char *path)
{
    size_t size = strlen(folder) + strlen(path) + 2;
    bool slash = folder[0] != '\0' && folder[strlen(folder) - 1] == '/';
    char *joined = malloc(size);

    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (joined != NULL)
        snprintf(joined, size, "%s%s%s", folder, slash ? "" : "/", path);
    return joined;
}
