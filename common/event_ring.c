#include "common/event_ring.h"

#include <assert.h>
#include <stdbool.h>
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
