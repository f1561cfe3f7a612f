#include "console/data/source.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_NS     NS_PER_S       /* while attached */
#define LOOK_FOR_EVERY_NS (NS_PER_S / 4) /* while there is none */

struct source {
    char name[INSTANCE_NAME_MAX + 16]; /* an invalid name is kept as well, to be refused in words */
    enum source_state state;
    uint64_t next_look_ns;
    struct segment_reader reader;
    bool shown; /* the reader was given; it is not ours */
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

/* Maps the segment of that name if its daemon runs. A dead one's leftover is not worth looking at.
 */
static bool attach_running(struct source *source, struct segment_reader *reader, uint64_t now_ns,
                           char *why, size_t size)
{
    enum segment_health health;

    if (segment_attach(reader, source->name, why, size) != SEGMENT_ATTACHED)
        return false;
    health = segment_health(reader, now_ns);
    if (health == SEGMENT_ALIVE || health == SEGMENT_SILENT)
        return true;
    snprintf(why, size, "the last webserverd named '%s' (pid %d) has ended, and none runs now",
             source->name, (int)reader->map.header->master_pid);
    segment_detach(reader);
    return false;
}

static bool look_for_daemon(struct source *source, uint64_t now_ns)
{
    struct segment_reader reader;
    char why[sizeof(source->why)];

    source->next_look_ns = now_ns + LOOK_FOR_EVERY_NS;
    if (!attach_running(source, &reader, now_ns, why, sizeof(why))) {
        if (source->state == SOURCE_ABSENT)
            memcpy(source->why, why, sizeof(source->why));
        return false;
    }
    segment_detach(&source->reader);
    source->reader = reader;
    source->next_look_ns = now_ns + LOOK_EVERY_NS;
    set_state(source, SOURCE_LIVE);
    return true;
}

static void say_ended(struct source *source, enum segment_health health)
{
    snprintf(source->why, sizeof(source->why), "webserverd '%s' %s", source->name,
             health == SEGMENT_STOPPED    ? "has stopped"
             : health == SEGMENT_REPLACED ? "was replaced by another one"
                                          : "has died");
}

static void look_at_daemon(struct source *source, uint64_t now_ns)
{
    enum segment_health health = segment_health(&source->reader, now_ns);

    source->next_look_ns = now_ns + LOOK_EVERY_NS;
    switch (health) {
    case SEGMENT_ALIVE:
        set_state(source, SOURCE_LIVE);
        break;
    case SEGMENT_SILENT:
        snprintf(source->why, sizeof(source->why),
                 "the master (pid %d) gives no sign of life: stopped, or very busy",
                 (int)source->reader.map.header->master_pid);
        set_state(source, SOURCE_SILENT);
        break;
    case SEGMENT_STOPPED:
    case SEGMENT_DEAD:
    case SEGMENT_REPLACED:
        say_ended(source, health);
        set_state(source, SOURCE_ENDED);
        break;
    }
}

bool source_update(struct source *source, uint64_t now_ns)
{
    if (now_ns < source->next_look_ns)
        return false;
    if (source->state == SOURCE_LIVE || source->state == SOURCE_SILENT)
        look_at_daemon(source, now_ns);
    if (source->state == SOURCE_ABSENT || source->state == SOURCE_ENDED)
        return look_for_daemon(source, now_ns);
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
