/* Scroll position of a text or list. Pure. */
#ifndef CONSOLE_SCROLL_H
#define CONSOLE_SCROLL_H

#include "console/ui/keys.h"

#include <stdbool.h>

struct scroll {
    int top;  /* first visible row */
    int page; /* visible rows when last drawn */
};

/* Moves; false if ACTION is not a movement. The position may be out of range until scroll_fit(). */
bool scroll_key(struct scroll *scroll, enum action action);

/* Clamps the position for ROWS rows, PAGE of them visible. */
void scroll_fit(struct scroll *scroll, int rows, int page);

#endif
