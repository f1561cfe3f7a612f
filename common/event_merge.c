#include "common/event_merge.h"

#include <stdlib.h>

/* One ring: its next event is read ahead, so that the oldest of all rings can be chosen. */
struct source {
    struct event_ring ring;
    uint64_t next;   /* number of the first event not taken */
    uint64_t budget; /* how many reads are left until event_merge_begin() */
    bool ready;      /* EVENT is event `next` */
    struct event_record event;
};

struct event_merge {
    const struct segment *segment; /* during a pass */
    uint32_t count;
    uint64_t lost;
    struct source source[];
};

struct event_merge *event_merge_new(uint32_t rings)
{
    struct event_merge *merge = calloc(1, sizeof(*merge) + rings * sizeof(struct source));

    if (merge != NULL)
        merge->count = rings;
    return merge;
}

void event_merge_free(struct event_merge *merge)
{
    free(merge);
}

void event_merge_seek(struct event_merge *merge, uint32_t ring, uint64_t next)
{
    merge->source[ring].next = next;
    merge->source[ring].ready = false;
}

uint64_t event_merge_position(const struct event_merge *merge, uint32_t ring)
{
    return merge->source[ring].next;
}

void event_merge_begin(struct event_merge *merge, const struct segment *segment)
{
    merge->segment = segment;
    for (uint32_t i = 0; i < merge->count; i++) {
        merge->source[i].ring = segment_event_ring(segment, i);
        merge->source[i].budget = merge->source[i].ring.slots;
    }
}

static bool is_reserved(const struct event_merge *merge, uint32_t ring)
{
    return ring < SEGMENT_RING_WORKERS ||
           segment_worker_reserved(merge->segment, ring - SEGMENT_RING_WORKERS);
}

/* Reads the next event of a ring, unless that is done already. */
static void read_ahead(struct event_merge *merge, uint32_t ring, uint64_t wall_ns)
{
    struct source *source = &merge->source[ring];

    while (!source->ready && source->budget > 0 && is_reserved(merge, ring)) {
        uint64_t number = source->next;
        int result = event_ring_read(&source->ring, &number, wall_ns, &source->event);

        if (result == 0)
            return;
        source->budget--;
        source->ready = result > 0;
        if (result > 0)
            return;
        merge->lost += number > source->next ? number - source->next : 0;
        source->next = number;
    }
}

int event_merge_take(struct event_merge *merge, uint64_t wall_ns, struct event_record *event)
{
    struct source *oldest = NULL;
    uint32_t ring;

    for (uint32_t i = 0; i < merge->count; i++) {
        read_ahead(merge, i, wall_ns);
        if (merge->source[i].ready &&
            (oldest == NULL || merge->source[i].event.time_ns < oldest->event.time_ns))
            oldest = &merge->source[i];
    }
    if (oldest == NULL)
        return -1;
    ring = (uint32_t)(oldest - merge->source);
    *event = oldest->event;
    if (ring != SEGMENT_RING_MASTER)
        event->role = ring == SEGMENT_RING_LOGGER ? ROLE_LOGGER : ROLE_WORKER;
    oldest->next++;
    oldest->ready = false;
    return (int)ring;
}

uint64_t event_merge_lost(const struct event_merge *merge)
{
    return merge->lost;
}
