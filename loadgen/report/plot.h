/*
 * A plot of lines as SVG inside an HTML page, whose style sheet gives the colours: classes "line
 * line0", "line line1" ..., "bar line0" ..., "grid", "shade" and "axis". Pure, but for the FILE.
 */
#ifndef LOADGEN_PLOT_H
#define LOADGEN_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PLOT_LINES_MAX = 6, PLOT_LABEL = 32, PLOT_TICKS_MAX = 24 };

struct plot_point {
    double x, y;
};

/* From LOW to HIGH: how sure a point is. */
struct plot_bar {
    double low, high; /* NAN: not known */
};

struct plot_line {
    const char *name;
    const struct plot_point *points; /* in the order of x; borrowed */
    size_t count;
    const struct plot_bar *bars; /* one for each point, or NULL; borrowed */
    bool smooth;                 /* the points are a curve's: they get no dots */
};

/* A linear axis begins at 0. A logarithmic one leaves out what is not above 0. */
struct plot_axis {
    bool logarithmic;
    void (*format)(char *label, double value); /* into PLOT_LABEL bytes */
};

struct plot {
    const char *title; /* also what a screen reader says */
    struct plot_axis x, y;
    double shaded_to; /* up to this x it does not count; 0: nothing is shaded */
    struct plot_line line[PLOT_LINES_MAX];
    size_t line_count;
};

/* An axis as it is drawn: where it begins and ends, and its ticks. */
struct plot_scale {
    bool logarithmic;
    double least, most;
    size_t tick_count;
    struct {
        double at;
        char label[PLOT_LABEL];
    } tick[PLOT_TICKS_MAX];
};

/* Whether there is anything to draw. */
bool plot_has_points(const struct plot *plot);

/* The axis of x, or else of y, of a plot that has points. */
struct plot_scale plot_scale_of(const struct plot *plot, bool of_x);

/* Takes a plot, which is only there while it does. */
typedef void plot_taker(void *context, const struct plot *plot);

/* A <figure> with title, legend and picture. Nothing where no line has a point. */
void plot_write(FILE *out, const struct plot *plot);

#endif
