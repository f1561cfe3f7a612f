#include "console/data/instances.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/units.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_MEMORY  "/dev/shm"
#define SEGMENT_PREFIX "webserverd."

static bool describe(const char *name, struct instance *instance)
{
    struct segment_reader reader;
    enum segment_health health;
    char why[256];

    if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_ATTACHED)
        return false;
    health = segment_health(&reader, clock_monotonic_ns());
    snprintf(instance->name, sizeof(instance->name), "%s", name);
    snprintf(instance->listening, sizeof(instance->listening), "%.255s",
             reader.map.header->listening);
    instance->pid = reader.map.header->master_pid;
    instance->started_ns = reader.map.header->started_ns;
    segment_detach(&reader);
    return health == SEGMENT_ALIVE || health == SEGMENT_SILENT;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct instance *)a)->name, ((const struct instance *)b)->name);
}

size_t instances_find(struct instance *list)
{
    DIR *folder = opendir(SHARED_MEMORY);
    struct dirent *entry;
    size_t count = 0;

    while (folder != NULL && count < INSTANCES_MAX && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, SEGMENT_PREFIX, strlen(SEGMENT_PREFIX)) == 0 &&
            describe(entry->d_name + strlen(SEGMENT_PREFIX), &list[count]))
            count++;
    if (folder != NULL)
        closedir(folder);
    qsort(list, count, sizeof(*list), by_name);
    return count;
}

void instances_print(FILE *out)
{
    static struct instance list[INSTANCES_MAX];
    size_t count = instances_find(list);
    uint64_t now_ns = clock_wall_ns();
    char age[UNITS_TEXT];

    if (count == 0)
        fprintf(out, "no webserverd runs\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%-24s pid %-8" PRId32 " up %-10s on %s\n", list[i].name, list[i].pid,
                units_format_age(age, sizeof(age),
                                 now_ns > list[i].started_ns ? now_ns - list[i].started_ns : 0),
                list[i].listening);
}
