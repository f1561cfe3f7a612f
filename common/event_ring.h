/*
 * The latest events (warnings, errors, changes) of one process, in shared memory. Its threads are
 * the writers; any process may read. No lock: a writer gets the next event number by one atomic
 * addition and owns the slot of that number.
 *
 *   sequence = 2n + 1   event n is being written
 *   sequence = 2n + 2   event n is complete
 *
 * Readers skip a slot whose writer died in between. A writer delayed until the ring has wrapped
 * shares its slot with a later one; the checksum then fails and readers skip that slot. The number
 * of slots is in the private memory of each process; any content of the ring is safe to read.
 */
#ifndef COMMON_EVENT_RING_H
#define COMMON_EVENT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_TEXT_WORDS = 28,
    EVENT_TEXT_BYTES = EVENT_TEXT_WORDS * 8, /* NUL included; longer texts are cut */
};

struct event_slot {
    _Atomic uint64_t sequence;
    _Atomic uint64_t time_ns;  /* wall clock */
    _Atomic uint64_t source;   /* level | role << 8 | pid << 32 */
    _Atomic uint64_t checksum; /* covers number, time, source and text */
    _Atomic uint64_t text[EVENT_TEXT_WORDS];
};

struct event_ring_slots {
    _Atomic uint64_t next; /* number of the next event */
    uint64_t unused[7];
    struct event_slot slot[];
};

/* A ring as one process sees it. */
struct event_ring {
    struct event_ring_slots *shared;
    uint64_t slots;
};

struct event_record {
    uint64_t number;
    uint64_t time_ns;
    uint8_t level; /* enum level */
    uint8_t role;  /* enum role */
    int32_t pid;
    char text[EVENT_TEXT_BYTES];
};

/* Size in bytes of a ring with SLOTS slots, and the number of slots that fit into BYTES. */
size_t event_ring_bytes(uint64_t slots);
uint64_t event_ring_capacity(size_t bytes);

/* Appends EVENT; ignores its number. Any thread of the process that owns the ring. */
void event_ring_append(const struct event_ring *ring, const struct event_record *event);

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

/*
 * The event rings of all processes of a server (common/segment.h) as one list, in order of time.
 * Each process writes its own ring, so role and pid of an event follow from its ring and not from
 * the event, and its time must be possible. One thread per merge.
 */
struct segment;
struct event_merge;

/*
 * For a segment with RINGS event rings. Starts at the oldest event of each. STRICT: no event keeps a
 * pid only because it claims it. NULL: out of memory.
 */
struct event_merge *event_merge_new(uint32_t rings, bool strict);
void event_merge_free(struct event_merge *merge);

/* Sets and returns the number of the next event to take from ring RING. */
void event_merge_seek(struct event_merge *merge, uint32_t ring, uint64_t next);
uint64_t event_merge_position(const struct event_merge *merge, uint32_t ring);

/*
 * Begins a pass over the rings of SEGMENT, borrowed until the last event_merge_take(). A pass takes
 * at most as many events from a ring as it has slots, so that it ends even if a process logs faster
 * than they are taken.
 */
void event_merge_begin(struct event_merge *merge, const struct segment *segment);

/*
 * Takes the oldest event not taken yet; WALL_NS is now. Returns the number of its ring, or -1 at
 * the end of the pass.
 */
int event_merge_take(struct event_merge *merge, uint64_t wall_ns, struct event_record *event);

/* Number of events that were overwritten before they were taken. */
uint64_t event_merge_lost(const struct event_merge *merge);

#endif
