/*
 * How the rate went over the whole run, short or long, in a few cells: when all are used up, each two
 * become one. Pure.
 */
#ifndef LOADGEN_RATE_TRACE_H
#define LOADGEN_RATE_TRACE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    RATE_TRACE_CELLS = 64,
    RATE_TRACE_TEXT = 4 * RATE_TRACE_CELLS, /* bytes of a drawn trace */
};

struct rate_trace {
    double cell[RATE_TRACE_CELLS]; /* answers a second */
    size_t count;
    unsigned samples_in_cell; /* that a whole cell stands for; 0 is 1 */
    double sum;               /* of the cell under way */
    unsigned samples;         /* in it */
};

/* Adds the rate of the time since the last call; calls come evenly. */
void rate_trace_add(struct rate_trace *trace, double rate);

/* The highest cell. */
double rate_trace_peak(const struct rate_trace *trace);

/*
 * Draws the trace, oldest first, in at most WIDTH columns; every cell that was not 0 shows. Returns how
 * many columns it takes.
 */
size_t rate_trace_draw(char text[RATE_TRACE_TEXT], const struct rate_trace *trace, size_t width,
                       bool unicode);

#endif
