#include "console/data/instances.h"

#include "common/clock.h"
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
    DIR *directory = opendir(SHARED_MEMORY);
    struct dirent *entry;
    size_t count = 0;

    while (directory != NULL && count < INSTANCES_MAX && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, SEGMENT_PREFIX, strlen(SEGMENT_PREFIX)) == 0 &&
            describe(entry->d_name + strlen(SEGMENT_PREFIX), &list[count]))
            count++;
    if (directory != NULL)
        closedir(directory);
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
        fprintf(out, "no webserverd is running\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%-24s pid %-8" PRId32 " up %-10s on %s\n", list[i].name, list[i].pid,
                units_format_age(age, sizeof(age),
                                 now_ns > list[i].started_ns ? now_ns - list[i].started_ns : 0),
                list[i].listening);
}

/* Control socket */

/* Reads the path from the segment; false if there is no readable segment. */
static bool socket_of_segment(const char *name, char *path, size_t path_size)
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

int instance_control_socket(const char *name, const char *given, char *path, size_t path_size,
                            char *why, size_t size)
{
    if (given != NULL) {
        if ((size_t)snprintf(path, path_size, "%s", given) < path_size)
            return 0;
        snprintf(why, size, "socket path '%s' is too long (at most %zu bytes)", given,
                 path_size - 1);
        return -1;
    }
    if (!instance_name_valid(name)) {
        snprintf(why, size,
                 "invalid instance name '%s' (letters, digits, '.', '_' and '-', at most %d)", name,
                 INSTANCE_NAME_MAX);
        return -1;
    }
    if (socket_of_segment(name, path, path_size) ||
        instance_socket_path(name, path, path_size) == 0)
        return 0;
    snprintf(why, size, "the control socket path of '%s' would be too long (at most %zu bytes)",
             name, path_size - 1);
    return -1;
}

/* Attachment */

#define CHECK_EVERY_NS  NS_PER_S       /* while attached */
#define ATTACH_EVERY_NS (NS_PER_S / 4) /* while not attached */

struct source {
    char name[INSTANCE_NAME_MAX + 16]; /* room for an invalid name, for the message */
    enum source_state state;
    uint64_t next_check_ns;
    struct segment_reader reader;
    bool shown; /* set by source_show(): the reader is borrowed, do not detach */
    char why[256];
};

struct source *source_open(const char *name)
{
    struct source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return NULL;
    snprintf(source->name, sizeof(source->name), "%s", name);
    return source;
}

void source_close(struct source *source)
{
    if (source == NULL)
        return;
    if (!source->shown)
        segment_detach(&source->reader);
    free(source);
}

static void set_state(struct source *source, enum source_state state)
{
    source->state = state;
    if (state == SOURCE_LIVE)
        source->why[0] = '\0';
}

/* Attaches if the daemon runs; a segment left by a dead daemon is ignored. */
static bool attach_running(struct source *source, struct segment_reader *reader, uint64_t now_ns,
                           char *why, size_t size)
{
    enum segment_health health;

    if (segment_attach(reader, source->name, why, size) != SEGMENT_ATTACHED)
        return false;
    health = segment_health(reader, now_ns);
    if (health == SEGMENT_ALIVE || health == SEGMENT_SILENT)
        return true;
    snprintf(why, size, "no webserverd '%s' is running; the last one (pid %d) has ended",
             source->name, (int)reader->map.header->master_pid);
    segment_detach(reader);
    return false;
}

static bool try_attach(struct source *source, uint64_t now_ns)
{
    struct segment_reader reader;
    char why[sizeof(source->why)];

    source->next_check_ns = now_ns + ATTACH_EVERY_NS;
    if (!attach_running(source, &reader, now_ns, why, sizeof(why))) {
        if (source->state == SOURCE_ABSENT)
            memcpy(source->why, why, sizeof(source->why));
        return false;
    }
    segment_detach(&source->reader);
    source->reader = reader;
    source->next_check_ns = now_ns + CHECK_EVERY_NS;
    set_state(source, SOURCE_LIVE);
    return true;
}

static void check_daemon(struct source *source, uint64_t now_ns)
{
    enum segment_health health = segment_health(&source->reader, now_ns);

    source->next_check_ns = now_ns + CHECK_EVERY_NS;
    switch (health) {
    case SEGMENT_ALIVE:
        set_state(source, SOURCE_LIVE);
        break;
    case SEGMENT_SILENT:
        snprintf(source->why, sizeof(source->why),
                 "the master (pid %d) does not respond: stopped or overloaded",
                 (int)source->reader.map.header->master_pid);
        set_state(source, SOURCE_SILENT);
        break;
    case SEGMENT_STOPPED:
    case SEGMENT_DEAD:
    case SEGMENT_REPLACED:
        snprintf(source->why, sizeof(source->why), "webserverd '%s' %s", source->name,
                 health == SEGMENT_STOPPED    ? "has stopped"
                 : health == SEGMENT_REPLACED ? "was replaced by another daemon"
                                              : "has died");
        set_state(source, SOURCE_ENDED);
        break;
    }
}

bool source_update(struct source *source, uint64_t now_ns)
{
    if (now_ns < source->next_check_ns)
        return false;
    if (source->state == SOURCE_LIVE || source->state == SOURCE_SILENT)
        check_daemon(source, now_ns);
    if (source->state == SOURCE_ABSENT || source->state == SOURCE_ENDED)
        return try_attach(source, now_ns);
    return false;
}

void source_show(struct source *source, const struct segment_reader *reader,
                 enum source_state state, const char *why)
{
    source->shown = true;
    if (reader != NULL)
        source->reader = *reader;
    set_state(source, state);
    snprintf(source->why, sizeof(source->why), "%s", why);
}

enum source_state source_state(const struct source *source)
{
    return source->state;
}

const char *source_why(const struct source *source)
{
    return source->why;
}

const char *source_name(const struct source *source)
{
    return source->name;
}

const struct segment_reader *source_reader(const struct source *source)
{
    return source->state == SOURCE_ABSENT ? NULL : &source->reader;
}
