/*
 * Linked to a console for random input: it finds only the server that the environment variable
 * ONLY_SERVER names, so that the input cannot reach another server of this machine.
 */
#include "console/data/instances.h"

#include <stdlib.h>
#include <string.h>

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
size_t __real_instances_find(struct instance *list);
size_t __wrap_instances_find(struct instance *list);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

size_t __wrap_instances_find(struct instance *list)
{
    const char *only = getenv("ONLY_SERVER");
    size_t count = __real_instances_find(list);

    for (size_t i = 0; only != NULL && i < count; i++)
        if (strcmp(list[i].name, only) == 0) {
            list[0] = list[i];
            return 1;
        }
    return 0;
}
