/*
 * The latest events (warnings, errors, changes) of all processes of a server, in shared memory.
 * Many writers, many readers, no lock: a writer gets the next event number by one atomic addition
 * and owns the slot of that number.
 *
 *   sequence = 2n + 1   event n is being written
 *   sequence = 2n + 2   event n is complete
 *
 * Readers skip a slot whose writer died in between. A writer delayed until EVENT_SLOTS later events
 * were written shares its slot with one of them; the checksum then fails and readers skip that
 * slot.
 */
#ifndef COMMON_EVENT_RING_H
#define COMMON_EVENT_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_SLOTS = 1024,
    EVENT_TEXT_WORDS = 28,
    EVENT_TEXT_BYTES = EVENT_TEXT_WORDS * 8, /* NUL included; longer texts are cut */
};

struct event_slot {
    _Atomic uint64_t sequence;
    _Atomic uint64_t time_ns;  /* wall clock */
    _Atomic uint64_t source;   /* level | role << 8 | pid << 32 */
    _Atomic uint64_t checksum; /* of number, time, source and text */
    _Atomic uint64_t text[EVENT_TEXT_WORDS];
};

struct event_ring {
    _Atomic uint64_t next; /* number of the next event */
    _Atomic uint64_t count_by_level[7];
    struct event_slot slot[EVENT_SLOTS];
};

struct event_record {
    uint64_t number;
    uint64_t time_ns;
    uint8_t level; /* enum level */
    uint8_t role;  /* enum role */
    int32_t pid;
    char text[EVENT_TEXT_BYTES];
};

/* Appends EVENT; ignores its number. Any thread of any process of the server. */
void event_ring_append(struct event_ring *ring, const struct event_record *event);

/*
 * Reads event *number. Returns 1 with *event filled, 0 if the event is not written yet, or -1 if it
 * was overwritten or its writer died. 1 and -1 advance *number to the next event. A writer counts
 * as dead once the newest event is EVENT_WRITER_LOST_NS old at NOW_NS (wall clock). Any thread.
 */
int event_ring_read(const struct event_ring *ring, uint64_t *number, uint64_t now_ns,
                    struct event_record *event);

#define EVENT_WRITER_LOST_NS UINT64_C(200000000)

/* Number of the oldest event that may still be in the ring. */
uint64_t event_ring_oldest(const struct event_ring *ring);

#endif
