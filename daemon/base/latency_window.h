/* The latency of all answers since the last look, from the segment's ever-growing histograms. */
#ifndef DAEMON_LATENCY_WINDOW_H
#define DAEMON_LATENCY_WINDOW_H

#include "common/histogram.h"
#include "common/segment.h"

struct latency_window {
    struct histogram since;  /* what came between the last two looks */
    struct histogram before; /* all up to the last look */
    struct histogram now;    /* all up to this one */
};

/* Moves the window on; its `since` is then valid until the next call. One thread. */
void latency_window_move(struct latency_window *window, const struct segment *segment);

#endif
