/*
 * A lock-free ring of variable-length records in shared memory: one writer thread, one consumer
 * (the logger) and any number of readers the writer does not know. It contains no pointers.
 *
 *            cursor              head    claimed
 *              |                  |         |
 *   ───────────▼──────────────────▼─────────▼───────────▶ positions in words, never reset
 *    consumed   records to consume  being     free: until claimed - cursor = capacity
 *    (still readable                written
 *     by readers)
 *
 * A position counts words since the start; its index is position & (capacity - 1). The low 32 bits
 * of a record's first word are its length in words.
 *
 * The writer stores claimed, then the words, then head; the consumer stores cursor. Words are
 * stored with release and loaded with acquire, so a word is never visible before the claimed that
 * covers it. A reader that copies a record and then finds claimed - position <= capacity has a
 * consistent copy; otherwise it was overrun. No fences are needed, so ThreadSanitizer understands
 * the scheme. It is that of the Linux perf event ring.
 */
#ifndef COMMON_LOG_RING_H
#define COMMON_LOG_RING_H

#include "common/macros.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_ring {
    /* Cache line of the writer. */
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed;
    _Atomic uint64_t head;
    uint64_t capacity; /* in words, a power of two; fixed before the ring is published */
    /* Cache line of the consumer. */
    _Alignas(CACHE_LINE) _Atomic uint64_t cursor;
    _Atomic uint64_t cursor_after; /* value of cursor after the write in progress */
    _Alignas(CACHE_LINE) _Atomic uint64_t word[];
};

/* Size in bytes of a ring of CAPACITY words. */
size_t log_ring_bytes(uint64_t capacity);

/* Initialises zeroed memory, before any other thread uses the ring. */
void log_ring_init(struct log_ring *ring, uint64_t capacity);

/* True if WORDS more fit without overwriting records not consumed yet. Writer thread. */
static inline bool log_ring_has_room(const struct log_ring *ring, uint64_t words)
{
    uint64_t used = atomic_load_explicit(&ring->head, memory_order_relaxed) -
                    atomic_load_explicit(&ring->cursor, memory_order_acquire);

    return used + words <= ring->capacity;
}

/*
 * Appends a record of COUNT words; the low 32 bits of record[0] are COUNT. Does not check for
 * room: it overwrites records not consumed yet. Writer thread.
 */
void log_ring_append(struct log_ring *ring, const uint64_t *record, uint64_t count);

enum log_ring_result {
    LOG_RING_RECORD,  /* *position advanced past the copied record */
    LOG_RING_EMPTY,   /* no record at *position; *position unchanged */
    LOG_RING_OVERRUN, /* *position advanced to head: the records in between are lost */
};

/*
 * Copies the record at *position into RECORD, which holds ROOM words. A record longer than ROOM or
 * malformed counts as overrun. Any thread or process; *position is the caller's.
 */
enum log_ring_result log_ring_read(const struct log_ring *ring, uint64_t *position,
                                   uint64_t *record, uint64_t room);

#endif
