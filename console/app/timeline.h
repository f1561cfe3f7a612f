/*
 * The time that a session shows: now, the time of freezing, an earlier second or step of the history,
 * or a position in a recording. Single thread.
 */
#ifndef CONSOLE_TIMELINE_H
#define CONSOLE_TIMELINE_H

#include "console/data/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline {
    bool frozen;             /* no samples are taken; a replay is paused */
    size_t back;             /* seconds before the time of freezing */
    uint64_t mark_ns;        /* wall clock of the mark moved to; 0: moved otherwise since */
    double replay_at_ns;     /* position in the recording */
    uint64_t replay_ns;      /* monotonic clock when the position was last advanced; 0: never */
    uint64_t next_sample_ns; /* monotonic clock; 0: at once */
};

/* Samples the server unless frozen, or advances the replay by the time since the last call times
 * SPEED. Returns 0, or -1 if out of memory. */
int timeline_sample(struct timeline *timeline, struct watch *watch, unsigned wants, double speed,
                    uint64_t now_ns);

/* Freezes or continues. Returns 0, or -1 if out of memory. */
int timeline_toggle_freeze(struct timeline *timeline, struct watch *watch);

/* Moves by SECONDS in the recording or in the history, there by a step at least; moving back freezes a live session. Returns 0,
 * or -1 if out of memory. */
int timeline_move(struct timeline *timeline, struct watch *watch, long seconds);

/*
 * Freezes, and shows the second of the mark at TIME_NS (wall clock) of the recording or the history.
 * Returns 0, or -1 if out of memory.
 */
int timeline_show_mark(struct timeline *timeline, struct watch *watch, uint64_t time_ns);

#endif
