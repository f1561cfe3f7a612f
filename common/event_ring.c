#include "common/event_ring.h"

#include "common/clock.h"
#include "common/segment.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct event_slot) == 256, "segment layout");
static_assert(offsetof(struct event_ring_slots, slot) == 64, "segment layout");

size_t event_ring_bytes(uint64_t slots)
{
    return sizeof(struct event_ring_slots) + slots * sizeof(struct event_slot);
}

uint64_t event_ring_capacity(size_t bytes)
{
    return bytes < event_ring_bytes(0) ? 0
                                       : (bytes - event_ring_bytes(0)) / sizeof(struct event_slot);
}

/* FNV-1a, a word at a time. */
static uint64_t checksum(uint64_t number, uint64_t time_ns, uint64_t source, const uint64_t *text)
{
    const uint64_t prime = UINT64_C(0x100000001b3);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    sum = (sum ^ number) * prime;
    sum = (sum ^ time_ns) * prime;
    sum = (sum ^ source) * prime;
    for (size_t i = 0; i < EVENT_TEXT_WORDS; i++)
        sum = (sum ^ text[i]) * prime;
    return sum;
}

void event_ring_append(const struct event_ring *ring, const struct event_record *event)
{
    uint64_t number = atomic_fetch_add_explicit(&ring->shared->next, 1, memory_order_relaxed);
    struct event_slot *slot = &ring->shared->slot[number % ring->slots];
    uint64_t text[EVENT_TEXT_WORDS] = {0};
    uint64_t source =
        event->level | (uint64_t)event->role << 8 | (uint64_t)(uint32_t)event->pid << 32;

    memcpy(text, event->text, strnlen(event->text, EVENT_TEXT_BYTES - 1));
    atomic_store_explicit(&slot->sequence, 2 * number + 1, memory_order_relaxed);
    atomic_store_explicit(&slot->time_ns, event->time_ns, memory_order_release);
    atomic_store_explicit(&slot->source, source, memory_order_release);
    atomic_store_explicit(&slot->checksum, checksum(number, event->time_ns, source, text),
                          memory_order_release);
    for (size_t i = 0; i < EVENT_TEXT_WORDS; i++)
        atomic_store_explicit(&slot->text[i], text[i], memory_order_release);
    atomic_store_explicit(&slot->sequence, 2 * number + 2, memory_order_release);
}

uint64_t event_ring_oldest(const struct event_ring *ring)
{
    uint64_t next = atomic_load_explicit(&ring->shared->next, memory_order_acquire);

    return next > ring->slots ? next - ring->slots : 0;
}

/* Returns false if not all words belong to event NUMBER. */
static bool copy_slot(const struct event_slot *slot, uint64_t number, struct event_record *event)
{
    uint64_t text[EVENT_TEXT_WORDS];
    uint64_t source = atomic_load_explicit(&slot->source, memory_order_acquire);
    uint64_t sum = atomic_load_explicit(&slot->checksum, memory_order_acquire);

    event->number = number;
    event->time_ns = atomic_load_explicit(&slot->time_ns, memory_order_acquire);
    event->level = (uint8_t)source;
    event->role = (uint8_t)(source >> 8);
    event->pid = (int32_t)(source >> 32);
    for (size_t i = 0; i < EVENT_TEXT_WORDS; i++)
        text[i] = atomic_load_explicit(&slot->text[i], memory_order_acquire);
    memcpy(event->text, text, sizeof(text));
    event->text[EVENT_TEXT_BYTES - 1] = '\0';
    return sum == checksum(number, event->time_ns, source, text);
}

/*
 * True if the writer of an incomplete event is dead: the newest event is complete and old enough.
 */
static int writer_lost(const struct event_ring *ring, uint64_t now_ns)
{
    uint64_t newest = atomic_load_explicit(&ring->shared->next, memory_order_acquire) - 1;
    const struct event_slot *slot = &ring->shared->slot[newest % ring->slots];

    if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != 2 * newest + 2)
        return 0;
    return now_ns >
           atomic_load_explicit(&slot->time_ns, memory_order_acquire) + EVENT_WRITER_LOST_NS;
}

int event_ring_read(const struct event_ring *ring, uint64_t *number, uint64_t now_ns,
                    struct event_record *event)
{
    const struct event_slot *slot = &ring->shared->slot[*number % ring->slots];
    uint64_t complete = 2 * *number + 2, oldest = event_ring_oldest(ring);
    uint64_t next = atomic_load_explicit(&ring->shared->next, memory_order_acquire);
    bool copied;

    if (*number < oldest || *number > next) { /* beyond next: the ring was cleared */
        *number = oldest;
        return -1;
    }
    if (*number == next)
        return 0;
    if (atomic_load_explicit(&slot->sequence, memory_order_acquire) < complete) {
        if (!writer_lost(ring, now_ns))
            return 0;
        *number += 1;
        return -1;
    }
    copied = copy_slot(slot, *number, event) &&
             atomic_load_explicit(&slot->sequence, memory_order_relaxed) == complete;
    *number += 1;
    return copied ? 1 : -1;
}

/* Merging */

/* One ring: its next event is read ahead, so that the oldest of all rings can be chosen. */
struct merge_source {
    struct event_ring ring;
    uint64_t next;   /* number of the first event not taken */
    uint64_t budget; /* how many reads are left until event_merge_begin() */
    bool ready;      /* EVENT is event `next` */
    struct event_record event;
    uint64_t empty_ns;       /* wall clock: when the ring had no other event; 0: never */
    int32_t pid, pid_before; /* of the last two workers in the slot, as seen; 0: none */
};

struct event_merge {
    const struct segment *segment; /* during a pass */
    bool strict;
    uint32_t count;
    uint64_t lost;
    struct merge_source source[];
};

struct event_merge *event_merge_new(uint32_t rings, bool strict)
{
    struct event_merge *merge = calloc(1, sizeof(*merge) + rings * sizeof(struct merge_source));

    if (merge == NULL)
        return NULL;
    merge->count = rings;
    merge->strict = strict;
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

static void note_worker(struct merge_source *source, const struct segment_worker_slot *slot)
{
    int32_t pid = atomic_load_explicit(&slot->pid, memory_order_relaxed);

    if (pid == 0 || pid == source->pid)
        return;
    source->pid_before = source->pid;
    source->pid = pid;
}

void event_merge_begin(struct event_merge *merge, const struct segment *segment)
{
    merge->segment = segment;
    for (uint32_t i = 0; i < merge->count; i++) {
        merge->source[i].ring = segment_event_ring(segment, i);
        merge->source[i].budget = merge->source[i].ring.slots;
        if (i >= SEGMENT_RING_WORKERS)
            note_worker(&merge->source[i], segment_worker_slot(segment, i - SEGMENT_RING_WORKERS));
    }
}

/* An event that its thread has not stored yet may be so much older than a look at the ring. */
enum { EVENT_LATE_S = 1 };

/*
 * Its writer may be hostile, so role, time and pid are not only what it claims. The time is neither
 * in the future nor long before the ring had no other event, or the server started. The pid is that
 * of the worker in the slot at this time, if it is known; if not, a strict merge takes that of the
 * worker that is there now.
 */
static void stamp_event(const struct event_merge *merge, struct merge_source *source, uint32_t ring,
                        uint64_t wall_ns)
{
    struct event_record *event = &source->event;
    uint64_t server_ns = merge->segment->header.started_ns;
    uint64_t first_ns = source->empty_ns > server_ns ? source->empty_ns : server_ns;
    uint64_t empty_ns = first_ns < wall_ns ? first_ns : wall_ns;
    const struct segment_worker_slot *slot;
    int32_t pid;

    if (ring == SEGMENT_RING_MASTER)
        return;
    event->role = ring == SEGMENT_RING_LOGGER ? ROLE_LOGGER : ROLE_WORKER;
    if (event->time_ns > wall_ns || event->time_ns + EVENT_LATE_S * NS_PER_S < empty_ns)
        event->time_ns = wall_ns;
    if (ring == SEGMENT_RING_LOGGER)
        return;
    slot = segment_worker_slot(merge->segment, ring - SEGMENT_RING_WORKERS);
    note_worker(source, slot);
    pid = event->time_ns >= atomic_load_explicit(&slot->started_ns, memory_order_relaxed)
              ? source->pid
              : source->pid_before;
    if (pid == 0 && merge->strict)
        pid = source->pid;
    if (pid != 0)
        event->pid = pid;
}

/* Reads the next event of a ring, unless that is done already. */
static void read_next_of_ring(struct event_merge *merge, uint32_t ring, uint64_t wall_ns)
{
    struct merge_source *source = &merge->source[ring];
    bool has_memory = ring < SEGMENT_RING_WORKERS ||
                      segment_worker_reserved(merge->segment, ring - SEGMENT_RING_WORKERS);

    while (!source->ready && source->budget > 0 && has_memory) {
        uint64_t number = source->next;
        int result = event_ring_read(&source->ring, &number, wall_ns, &source->event);

        if (result == 0) {
            source->empty_ns = wall_ns;
            return;
        }
        source->budget--;
        source->ready = result > 0;
        if (result > 0) {
            stamp_event(merge, source, ring, wall_ns);
            return;
        }
        merge->lost += number > source->next ? number - source->next : 0;
        source->next = number;
    }
}

int event_merge_take(struct event_merge *merge, uint64_t wall_ns, struct event_record *event)
{
    struct merge_source *oldest = NULL;
    uint32_t ring;

    for (uint32_t i = 0; i < merge->count; i++) {
        read_next_of_ring(merge, i, wall_ns);
        if (merge->source[i].ready &&
            (oldest == NULL || merge->source[i].event.time_ns < oldest->event.time_ns))
            oldest = &merge->source[i];
    }
    if (oldest == NULL)
        return -1;
    ring = (uint32_t)(oldest - merge->source);
    *event = oldest->event;
    oldest->next++;
    oldest->ready = false;
    return (int)ring;
}

uint64_t event_merge_lost(const struct event_merge *merge)
{
    return merge->lost;
}
