/*
 * A frame of lines that is redrawn in place on a terminal, below the previous output. It is not
 * full-screen, so the last frame can remain. Main thread.
 */
#ifndef LOADGEN_LIVE_TERMINAL_H
#define LOADGEN_LIVE_TERMINAL_H

#include "loadgen/run/live_view.h"

#include <stdio.h>

struct live_terminal {
    FILE *out;
    struct live_frame shown; /* the frame on the terminal */
};

/* Whether OUT is a terminal that can move its cursor. */
bool live_terminal_is_capable(FILE *out);

/* Whether OUT is a capable terminal and NO_COLOR (https://no-color.org) is not set. */
bool live_terminal_wants_colour(FILE *out);

/* Whether the locale uses UTF-8 and the terminal presumably displays it. */
bool live_terminal_has_unicode(void);

void live_terminal_size(const struct live_terminal *terminal, size_t *width, size_t *height);

/* Replaces the frame on the terminal by *FRAME. No effect while the process is in the background. */
void live_terminal_show(struct live_terminal *terminal, const struct live_frame *frame);

/* Removes the frame; with STAYS, keeps it and moves the cursor below it. */
void live_terminal_end(struct live_terminal *terminal, bool stays);

#endif
