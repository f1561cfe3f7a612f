/* Which rows of a list are in sight. Pure. */
#ifndef CONSOLE_SCROLL_H
#define CONSOLE_SCROLL_H

#include "console/ui/keys.h"

#include <stdbool.h>

struct scroll {
    int top;  /* the first row in sight */
    int page; /* rows in sight when it was last drawn */
};

/* Moves; returns false when ACTION is no movement. The result is set right by the next fit. */
bool scroll_key(struct scroll *scroll, enum action action);

/* Sets the top right for ROWS rows of which PAGE are in sight. */
void scroll_fit(struct scroll *scroll, int rows, int page);

#endif
