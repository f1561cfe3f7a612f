/* The strip: one letter for each serving thread, worker by worker, and what the letters mean. */
#ifndef CONSOLE_STRIP_H
#define CONSOLE_STRIP_H

#include "console/data/snapshot.h"
#include "console/ui/canvas.h"

#include <stdio.h>

/*
 * The threads that there are, by worker and number: SORTED becomes an array of pointers into NOW,
 * valid until the next call. Returns how many.
 */
uint32_t strip_sorted(const struct snapshot *now, const struct thread_sample *const **sorted);

/* How a thread state is coloured: work green, waiting for others yellow or red, rest dim. */
enum tone strip_tone(uint32_t state);

/* Draws the letters from line Y on, over at most LINES lines; returns how many were used. */
int strip_draw(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Draws the legend likewise. */
int strip_draw_legend(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Both as text. */
void strip_print(FILE *out, const struct snapshot *now);

#endif
