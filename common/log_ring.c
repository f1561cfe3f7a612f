#include "common/log_ring.h"

#include <assert.h>

static_assert(offsetof(struct log_ring_words, word) == CACHE_LINE, "raise SEGMENT_MAJOR");
static_assert(sizeof(struct log_ring_cursor) == CACHE_LINE, "raise SEGMENT_MAJOR");

size_t log_ring_bytes(uint64_t capacity)
{
    return sizeof(struct log_ring_words) + capacity * sizeof(uint64_t);
}

uint64_t log_ring_capacity(size_t bytes)
{
    uint64_t words = bytes < log_ring_bytes(0) ? 0 : (bytes - log_ring_bytes(0)) / sizeof(uint64_t);

    return words > 0 ? UINT64_C(1) << (63 - __builtin_clzll(words)) : 0;
}

void log_ring_append(const struct log_ring *ring, const uint64_t *record, uint64_t count)
{
    uint64_t mask = ring->capacity - 1;
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_relaxed);

    assert(count > 0 && count <= ring->capacity);
    atomic_store_explicit(&ring->words->claimed, head + count, memory_order_relaxed);
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&ring->words->word[(head + i) & mask], record[i],
                              memory_order_release);
    atomic_store_explicit(&ring->words->head, head + count, memory_order_release);
}

/* Length of the record at POSITION; 0 if it is malformed. */
static uint64_t record_length(const struct log_ring *ring, uint64_t position, uint64_t head,
                              uint64_t room)
{
    uint64_t count = atomic_load_explicit(&ring->words->word[position & (ring->capacity - 1)],
                                          memory_order_acquire) &
                     UINT32_MAX;

    return count > room || count > head - position ? 0 : count;
}

/* End of the records from POSITION on that can be read. */
static uint64_t readable_end(const struct log_ring *ring, uint64_t position, uint64_t room)
{
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire), length;

    if (head - position > ring->capacity)
        return position;
    while (position != head && (length = record_length(ring, position, head, room)) != 0)
        position += length;
    return position;
}

/* Again if the consumer has just followed a wrong head. */
void log_ring_resume(const struct log_ring *ring, uint64_t room)
{
    uint64_t position, head;

    do {
        position = atomic_load_explicit(&ring->cursor->position, memory_order_acquire);
        head = readable_end(ring, position, room);
        atomic_store_explicit(&ring->words->claimed, head, memory_order_relaxed);
        atomic_store_explicit(&ring->words->head, head, memory_order_release);
        position = atomic_load_explicit(&ring->cursor->position, memory_order_acquire);
    } while (head - position > ring->capacity);
}

enum log_ring_result log_ring_read(const struct log_ring *ring, uint64_t *position,
                                   uint64_t *record, uint64_t room)
{
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);
    uint64_t mask = ring->capacity - 1, count;

    if (*position == head)
        return LOG_RING_EMPTY;
    if (head - *position > ring->capacity)
        goto overrun;
    record[0] = atomic_load_explicit(&ring->words->word[*position & mask], memory_order_acquire);
    count = log_ring_words(record[0]);
    if (count == 0 || count > room || count > head - *position)
        goto overrun;
    for (uint64_t i = 1; i < count; i++)
        record[i] =
            atomic_load_explicit(&ring->words->word[(*position + i) & mask], memory_order_acquire);
    if (atomic_load_explicit(&ring->words->claimed, memory_order_relaxed) - *position >
        ring->capacity)
        goto overrun;
    *position += count;
    return LOG_RING_RECORD;

overrun:
    *position = head;
    return LOG_RING_OVERRUN;
}
