/*
 * Plots as a PNG picture, drawn by gnuplot (http://www.gnuplot.info), a program that may be installed
 * or not. Main thread.
 */
#ifndef LOADGEN_GNUPLOT_H
#define LOADGEN_GNUPLOT_H

#include "loadgen/report/plot.h"

/* Whether the program is on the path. */
bool gnuplot_is_there(void);

/* Plots that are collected as lines for gnuplot. */
struct gnuplot;

/* Returns NULL when there is no memory. */
struct gnuplot *gnuplot_create(void);

/* Instead of gnuplot_draw(). */
void gnuplot_free(struct gnuplot *gnuplot);

/* A plot_taker: CONTEXT is the struct gnuplot. */
void gnuplot_take(void *context, const struct plot *plot);

/*
 * Draws all of them under TITLE, two beside each other, into OUT, and frees GNUPLOT. Returns 0, or -1
 * with errno: EIO when gnuplot failed, which has then said why on standard error.
 */
int gnuplot_draw(struct gnuplot *gnuplot, const char *title, FILE *out);

#endif
