/*
 * Reads the event rings of all processes of a server (common/segment.h) as one list, in order of
 * time. Each process writes its own ring, so the role of an event follows from its ring and not
 * from the event. One thread per merge.
 */
#ifndef COMMON_EVENT_MERGE_H
#define COMMON_EVENT_MERGE_H

#include "common/segment.h"

struct event_merge;

/* For a segment with RINGS event rings. Starts at the oldest event of each. NULL: out of memory. */
struct event_merge *event_merge_new(uint32_t rings);
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
