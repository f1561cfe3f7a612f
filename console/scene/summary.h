/*
 * A server in a few lines: its identity and sizes (summary_*), and the strip: one state letter per
 * serving thread, by worker, with a legend (strip_*). Single thread.
 */
#ifndef CONSOLE_SUMMARY_H
#define CONSOLE_SUMMARY_H

#include "console/data/snapshot.h"
#include "console/ui/canvas.h"

#include <stddef.h>
#include <stdio.h>

/*
 * Appends an item to LINE (SIZE bytes), separated by two spaces, if the line then has at most WIDTH
 * characters. Earlier items thus have priority.
 */
void summary_append(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same, but once an item does not fit, the line ends with the number of items left out: "+3". */
void summary_add(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "threads 4 of 4 (2 in each)", "workers 2 of 2" and so on, up to WIDTH. */
void summary_processes(const struct snapshot *now, char *line, size_t size, int width);

/* "NAME", "pid 1234", "up 3h 12m", "on 127.0.0.1:8080", "version 0.2.0", up to WIDTH. */
void summary_identity(const struct snapshot *now, char *line, size_t size, int width);

/*
 * Sorts the existing threads by worker and number: *SORTED becomes an array of pointers into NOW, valid
 * until the next call. Returns their number.
 */
uint32_t strip_sorted(const struct snapshot *now, const struct thread_sample *const **sorted);

/* The tone of a thread state: work is good, waiting for others warn or bad, idle dim. */
enum tone strip_tone(uint32_t state);

/* Draws the letters from line Y on, in at most LINES lines; returns the number used. */
int strip_draw(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Draws the legend from line Y on, in at most LINES lines; returns the number used. */
int strip_draw_legend(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Prints both as text. */
void strip_print(FILE *out, const struct snapshot *now);

#endif
