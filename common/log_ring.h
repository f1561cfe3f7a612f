/*
 * A lock-free ring of variable-length records in shared memory: one writer thread, one consumer
 * (the logger) and any number of readers the writer does not know.
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
 *
 * Writer and consumer do not trust each other: each writes its own page, and the capacity is in the
 * private memory of each process. Any content of the other's page is safe; at worst records are
 * lost or garbled.
 */
#ifndef COMMON_LOG_RING_H
#define COMMON_LOG_RING_H

#include "common/macros.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Written by the writer. */
struct log_ring_words {
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed;
    _Atomic uint64_t head;
    _Alignas(CACHE_LINE) _Atomic uint64_t word[];
};

/* Written by the consumer. */
struct log_ring_cursor {
    _Alignas(CACHE_LINE) _Atomic uint64_t position;
    _Atomic uint64_t after; /* value of position after the write in progress */
};

/* A ring as one process sees it. */
struct log_ring {
    struct log_ring_words *words;
    struct log_ring_cursor *cursor;
    uint64_t capacity; /* in words, a power of two */
};

/* Size in bytes of the words of a ring with CAPACITY words. */
size_t log_ring_bytes(uint64_t capacity);

/* The largest capacity that fits into BYTES: a power of two, or 0. */
uint64_t log_ring_capacity(size_t bytes);

/*
 * True if WORDS more fit without overwriting records not consumed yet, or if the position is
 * impossible: beyond the head, or more than the capacity behind it. A compromised consumer wrote
 * it, and the writer must not wait for that. Writer thread.
 */
static inline bool log_ring_has_room(const struct log_ring *ring, uint64_t words)
{
    uint64_t used = atomic_load_explicit(&ring->words->head, memory_order_relaxed) -
                    atomic_load_explicit(&ring->cursor->position, memory_order_acquire);

    return used + words <= ring->capacity || used > ring->capacity;
}

/* Number of words of the record with the first word FIRST. */
static inline uint64_t log_ring_words(uint64_t first)
{
    return first & UINT16_MAX;
}

/*
 * Appends a record of COUNT words; the low 16 bits of record[0] are COUNT. Does not check for
 * room: it overwrites records not consumed yet. Writer thread.
 */
void log_ring_append(const struct log_ring *ring, const uint64_t *record, uint64_t count);

/*
 * Continues the ring of a previous writer, which may have left any content: cuts it after the last
 * record that can be read in the way of log_ring_read() with ROOM words. Writer thread, before its
 * first record.
 */
void log_ring_resume(const struct log_ring *ring, uint64_t room);

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
