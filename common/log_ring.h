/*
 * A ring of variable-length records for one writing thread, one draining process and any number of
 * unknown onlookers, all without a lock. It lies in shared memory; nothing in it is a pointer.
 *
 *            cursor              head    claimed
 *              |                  |         |
 *   ───────────▼──────────────────▼─────────▼───────────▶ positions in words, never reset
 *    drained    records to drain    being     free: until claimed - cursor = capacity
 *    (still readable                written
 *     for onlookers)
 *
 * A position is an index into the endless sequence of words; its place is position & (capacity - 1).
 * The first word of a record holds its length in words in the low 32 bits.
 *
 * Who writes what: the thread writes claimed, the words and then head; the drainer writes cursor.
 * A new word becomes visible only after claimed covers it (words are stored with release, loaded
 * with acquire), so whoever copies a record and afterwards finds claimed - position <= capacity
 * knows that the copy is whole: otherwise it was overtaken. These orders need no fence, so
 * ThreadSanitizer follows them. The scheme is that of the perf event ring of Linux.
 */
#ifndef COMMON_LOG_RING_H
#define COMMON_LOG_RING_H

#include "common/macros.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_ring {
    /* The thread's line. */
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed;
    _Atomic uint64_t head;
    uint64_t capacity; /* in words, a power of two; fixed before the ring is published */
    /* The drainer's line. */
    _Alignas(CACHE_LINE) _Atomic uint64_t cursor;
    _Atomic uint64_t
        cursor_after; /* where cursor will stand when the write under way has succeeded */
    _Alignas(CACHE_LINE) _Atomic uint64_t word[];
};

/* Bytes of a ring of CAPACITY words. */
size_t log_ring_bytes(uint64_t capacity);

/* Prepares zeroed memory. Before anyone else sees the ring. */
void log_ring_init(struct log_ring *ring, uint64_t capacity);

/* True when WORDS more fit before the drainer's cursor. The writer's thread. */
static inline bool log_ring_has_room(const struct log_ring *ring, uint64_t words)
{
    uint64_t used = atomic_load_explicit(&ring->head, memory_order_relaxed) -
                    atomic_load_explicit(&ring->cursor, memory_order_acquire);

    return used + words <= ring->capacity;
}

/*
 * Appends one record of COUNT words, record[0] with COUNT in its low 32 bits. The caller has asked
 * for room, or does not mind overwriting what the drainer has not seen. The writer's thread.
 */
void log_ring_append(struct log_ring *ring, const uint64_t *record, uint64_t count);

enum log_ring_result {
    LOG_RING_RECORD,  /* *position moved behind the copied record */
    LOG_RING_EMPTY,   /* nothing between *position and head; *position unchanged */
    LOG_RING_OVERRUN, /* *position moved to head: what lay between is lost to this reader */
};

/*
 * Copies the record at *position into RECORD, which has room for ROOM words. A record that is longer
 * than ROOM or not well formed counts as overtaken. Any thread or process that maps the ring;
 * *position belongs to the caller.
 */
enum log_ring_result log_ring_read(const struct log_ring *ring, uint64_t *position,
                                   uint64_t *record, uint64_t room);

#endif
