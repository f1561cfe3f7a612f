/*
 * Linked to a console that must not find another server of this machine: it finds only the server
 * that the environment variable ONLY_SERVER names, and those whose name continues with "-".
 */
#include "console/data/instances.h"

#include <stdlib.h>
#include <string.h>

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
size_t __real_instances_find(struct instance *list);
size_t __wrap_instances_find(struct instance *list);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static bool is_ours(const char *name)
{
    const char *only = getenv("ONLY_SERVER");
    size_t length = only != NULL ? strlen(only) : 0;

    return length > 0 && strncmp(name, only, length) == 0 &&
           (name[length] == '\0' || name[length] == '-');
}

size_t __wrap_instances_find(struct instance *list)
{
    size_t count = __real_instances_find(list), kept = 0;

    for (size_t i = 0; i < count; i++)
        if (is_ours(list[i].name))
            list[kept++] = list[i];
    return kept;
}
