/*
 * A frame of lines on a terminal that renews itself in place, below what stood there before: no full
 * screen, so that the last frame can stay. Main thread.
 */
#ifndef LOADGEN_LIVE_TERMINAL_H
#define LOADGEN_LIVE_TERMINAL_H

#include "loadgen/run/live_view.h"

#include <stdio.h>

struct live_terminal {
    FILE *out;
    struct live_frame shown; /* what stands there now */
};

/* Whether OUT is a terminal that can move its cursor. */
bool live_terminal_is_capable(FILE *out);

/* Whether people want colours on OUT: a terminal that can, and no NO_COLOR (https://no-color.org). */
bool live_terminal_wants_colour(FILE *out);

/* Whether the locale's characters are those of UTF-8, and the terminal's too as far as one can know. */
bool live_terminal_has_unicode(void);

void live_terminal_size(const struct live_terminal *terminal, size_t *width, size_t *height);

/* Puts *FRAME in the place of what is shown. Nothing where the terminal is someone else's for now. */
void live_terminal_show(struct live_terminal *terminal, const struct live_frame *frame);

/* Ends: what is shown goes away, or stays with the cursor below it. */
void live_terminal_end(struct live_terminal *terminal, bool stays);

#endif
