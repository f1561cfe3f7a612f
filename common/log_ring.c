#include "common/log_ring.h"

#include <assert.h>

static_assert(offsetof(struct log_ring, cursor) == CACHE_LINE,
              "writer and consumer use different cache lines");
static_assert(offsetof(struct log_ring, word) == 2 * CACHE_LINE, "segment layout");

size_t log_ring_bytes(uint64_t capacity)
{
    return sizeof(struct log_ring) + capacity * sizeof(uint64_t);
}

void log_ring_init(struct log_ring *ring, uint64_t capacity)
{
    assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    ring->capacity = capacity;
}

void log_ring_append(struct log_ring *ring, const uint64_t *record, uint64_t count)
{
    uint64_t mask = ring->capacity - 1;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    assert(count > 0 && count <= ring->capacity);
    atomic_store_explicit(&ring->claimed, head + count, memory_order_relaxed);
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&ring->word[(head + i) & mask], record[i], memory_order_release);
    atomic_store_explicit(&ring->head, head + count, memory_order_release);
}

enum log_ring_result log_ring_read(const struct log_ring *ring, uint64_t *position,
                                   uint64_t *record, uint64_t room)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t mask = ring->capacity - 1, count;

    if (*position == head)
        return LOG_RING_EMPTY;
    if (head - *position > ring->capacity)
        goto overrun;
    record[0] = atomic_load_explicit(&ring->word[*position & mask], memory_order_acquire);
    count = record[0] & UINT32_MAX;
    if (count == 0 || count > room || count > head - *position)
        goto overrun;
    for (uint64_t i = 1; i < count; i++)
        record[i] = atomic_load_explicit(&ring->word[(*position + i) & mask], memory_order_acquire);
    if (atomic_load_explicit(&ring->claimed, memory_order_relaxed) - *position > ring->capacity)
        goto overrun;
    *position += count;
    return LOG_RING_RECORD;

overrun:
    *position = head;
    return LOG_RING_OVERRUN;
}
