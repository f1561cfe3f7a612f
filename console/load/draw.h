/*
 * A load run on the screen: numbers of client and server side by side, and both on one time axis with
 * the moments when something was changed. Draws from the run alone. The console's only thread.
 */
#ifndef CONSOLE_LOAD_DRAW_H
#define CONSOLE_LOAD_DRAW_H

#include "console/load/run.h"
#include "console/load/store.h"
#include "console/scene/scene.h"

enum { LOAD_TOTALS = 5 }; /* lines that most runs make use of */

/* Lines that load_draw_totals() makes use of on a canvas of WIDTH: what is said of a run is broken. */
int load_draw_totals_lines(const struct load_run *run, int width);

/* What is going on or came out, in as many lines as the canvas has. */
void load_draw_totals(const struct load_run *run, const struct scene *scene,
                      const struct canvas *canvas);

/* Rate and p99 over time, below or beside each other, and what the marks mean. */
void load_draw_plots(const struct load_run *run, const struct scene *scene,
                     const struct canvas *canvas);

/* Two runs line by line: RUN_DIFFERENCES + 2 lines. */
void load_draw_comparison(const struct run_entry *before, const struct run_entry *after,
                          const struct canvas *canvas);

/* In words: what the check of both counts says. Returns BUFFER. */
char *load_check_words(const struct load_run *run, char *buffer, size_t size);

#endif
