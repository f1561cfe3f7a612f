/*
 * The last events (warnings, errors, changes) of all processes of a server, in shared memory. Many
 * writers, many readers, no lock: a writer takes the next number by one atomic addition and owns
 * that slot; the slot's sequence tells readers when the text is whole.
 *
 *   sequence = 2n + 1   event n is being written
 *   sequence = 2n + 2   event n is whole
 *
 * A writer that is killed between the two leaves one slot that readers pass over. A writer that is
 * held up until EVENT_SLOTS later events have been written shares its slot with the later one; the
 * checksum tells readers that the words are a mixture, and they pass over it too.
 */
#ifndef COMMON_EVENT_RING_H
#define COMMON_EVENT_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_SLOTS = 1024,
    EVENT_TEXT_WORDS = 28,
    EVENT_TEXT_BYTES = EVENT_TEXT_WORDS * 8, /* with the ending NUL; longer texts are cut */
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

/* Writes EVENT, whose number is assigned here. Any thread of any process of the server. */
void event_ring_append(struct event_ring *ring, const struct event_record *event);

/*
 * Reads event number *number if it is there; afterwards *number is the next one to ask for. Returns
 * 1 with *event filled, 0 when that event has not been written (yet), and -1 when it was overwritten
 * or its writer died: *number has then moved on, so that asking again makes progress. A writer counts
 * as dead when a later event is already EVENT_WRITER_LOST_NS old at NOW_NS (wall clock). Any reader.
 */
int event_ring_read(const struct event_ring *ring, uint64_t *number, uint64_t now_ns,
                    struct event_record *event);

#define EVENT_WRITER_LOST_NS UINT64_C(200000000)

/* The oldest number that may still be there. */
uint64_t event_ring_oldest(const struct event_ring *ring);

#endif
