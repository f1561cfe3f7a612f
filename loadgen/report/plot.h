/*
 * A plot: its lines, and the range and ticks of its axes. text.h and html.h draw it.
 * Pure.
 */
#ifndef LOADGEN_REPORT_PLOT_H
#define LOADGEN_REPORT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

enum { PLOT_LINES_MAX = 6, PLOT_LABEL = 32, PLOT_TICKS_MAX = 24 };

struct plot_point {
    double x, y;
};

/* The confidence interval of a point; NAN: unknown. */
struct plot_bar {
    double low, high;
};

struct plot_line {
    const char *name;
    const struct plot_point *points; /* by rising x; borrowed */
    size_t count;
    const struct plot_bar *bars; /* one for each point, or NULL; borrowed */
    bool smooth;                 /* drawn without dots at the points */
};

/* A linear axis begins at 0. On a logarithmic axis, values that are not positive are left out. */
struct plot_axis {
    bool logarithmic;
    void (*format)(char *label, double value); /* writes at most PLOT_LABEL bytes */
};

struct plot {
    const char *title; /* also for screen readers */
    struct plot_axis x, y;
    double shaded_to; /* a shaded background from 0 to this x, such as the warm-up; 0: none */
    struct plot_line line[PLOT_LINES_MAX];
    size_t line_count;
};

/* An axis to draw. */
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

/* Whether the axes can show POINT. */
bool plot_shows(const struct plot *plot, const struct plot_point *point);

/* The x axis (OF_X) or the y axis of a plot that has points. */
struct plot_scale plot_scale_of(const struct plot *plot, bool of_x);

/* The position of VALUE on the axis: 0 at its start, 1 at its end. */
double plot_position(const struct plot_scale *scale, double value);

/* ---- Labels of an axis, for struct plot_axis ---- */

void axis_count(char *label, double value);
void axis_rate(char *label, double value);      /* per second */
void axis_seconds(char *label, double value);   /* VALUE in seconds */
void axis_time(char *label, double value);      /* VALUE in ns; the label in the unit that fits */
void axis_mebibytes(char *label, double value); /* VALUE in MiB */
void axis_percent(char *label, double value);

#endif
