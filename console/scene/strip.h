/* The strip: one state letter per serving thread, by worker, and a legend. The console's only thread. */
#ifndef CONSOLE_STRIP_H
#define CONSOLE_STRIP_H

#include "console/data/snapshot.h"
#include "console/ui/canvas.h"

#include <stdio.h>

/*
 * Sorts the existing threads by worker and number: *SORTED becomes an array of pointers into NOW, valid
 * until the next call. Returns their number.
 */
uint32_t strip_sorted(const struct snapshot *now, const struct thread_sample *const **sorted);

/* The tone of a thread state: work is good, waiting for others warn or bad, idle dim. */
enum tone strip_tone(uint32_t state);

/* Draws the letters from line Y on, in at most LINES lines; returns the number used. */
int strip_draw(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Draws the legend likewise. */
int strip_draw_legend(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Prints both as text. */
void strip_print(FILE *out, const struct snapshot *now);

#endif
