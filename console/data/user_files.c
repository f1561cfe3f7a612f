#include "console/data/user_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool user_files_path(const char *variable, const char *fallback, const char *name, char *path,
                     size_t size)
{
    const char *base = getenv(variable), *home = getenv("HOME");

    path[0] = '\0';
    if (base != NULL && base[0] == '/')
        snprintf(path, size, "%s/webserverd/%s", base, name);
    else if (home != NULL && home[0] == '/')
        snprintf(path, size, "%s/%s/webserverd/%s", home, fallback, name);
    return path[0] != '\0';
}

int user_files_make_parents(const char *path)
{
    char directory[PATH_MAX];

    for (const char *end = strchr(path + 1, '/'); end != NULL; end = strchr(end + 1, '/')) {
        snprintf(directory, sizeof(directory), "%.*s", (int)(end - path), path);
        if (mkdir(directory, 0700) != 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}
