/*
 * The live view of a run: a frame of a few lines, composed for the size of the terminal. On a large one:
 *
 *       1.5 s   50%  ━━━━━━━━━━━━━━━━━━━━━━━━━━───────────────────────────  1.5 s left
 *     requests/s     75.2k  peak 80.1k  ▁▃▅▇█▇▇▇█▇▇▇
 *     answered       112,800
 *     errors         0
 *     connections    499 of 500 up, 2 threads
 *     latency        p50 100 us  p90 200 us  p99 1.20 ms  p99.9 3.00 ms  max 4.50 ms
 *
 *          82-100 us ▏
 *         100-120 us ██████████████████████▌                             45.1%  p50
 *         ...
 *     + - load  C c connections  T t threads  q end
 *
 * A small one shows a single line: live_view_line(). Pure.
 */
#ifndef LOADGEN_LIVE_VIEW_H
#define LOADGEN_LIVE_VIEW_H

#include "loadgen/plan/plan.h"
#include "loadgen/stats/tally.h"

/* ---- The rate trace: the rate over the whole run, in at most 64 cells ---- */

enum {
    RATE_TRACE_CELLS = 64,
    RATE_TRACE_TEXT = 4 * RATE_TRACE_CELLS, /* bytes of a drawn trace */
};

/* When all cells are in use, each pair of cells is merged into one. */
struct rate_trace {
    double cell[RATE_TRACE_CELLS]; /* responses per second */
    size_t count;
    unsigned samples_in_cell; /* per complete cell; 0 means 1 */
    double sum;               /* of the incomplete cell */
    unsigned samples;         /* of the incomplete cell */
};

/* Adds RATE, the rate since the last call. Call at equal intervals. */
void rate_trace_add(struct rate_trace *trace, double rate);

/* The highest cell. */
double rate_trace_peak(const struct rate_trace *trace);

/*
 * Draws the trace, oldest first, in at most WIDTH columns; a cell that is not 0 is visible. Returns the
 * number of columns.
 */
size_t rate_trace_draw(char text[RATE_TRACE_TEXT], const struct rate_trace *trace, size_t width,
                       bool unicode);

/* ---- Frames ---- */

enum {
    LIVE_LINES_MAX = 40,
    LIVE_LINE_BYTES = 1024,
    LIVE_WIDTH_MAX = 120,
    LIVE_WIDTH_MIN = 36, /* a smaller terminal gets one line */
    LIVE_HEIGHT_MIN = 10,
};

/* The load in effect; may change during the run. */
struct progress_setting {
    double rate; /* requests per second; 0: closed loop */
    uint32_t connections, threads;
};

/* The limits of a run; 0: none. */
struct progress_goal {
    uint64_t requests;
    uint64_t duration_ns, warmup_ns; /* duration_ns includes the warm-up */
};

struct live_scene {
    const struct progress_goal *goal;
    const struct tally *tally; /* without the warm-up */
    const struct progress_setting *setting;
    const struct rate_trace *trace;
    const char *label;   /* the first line; NULL: none */
    const char *message; /* the last line; NULL: none */
    uint64_t elapsed_ns;
    double rate; /* responses per second over the last second */
    bool over;   /* the run has ended */
    bool unicode, colour;
};

struct live_frame {
    size_t lines;
    char text[LIVE_LINES_MAX][LIVE_LINE_BYTES]; /* may contain escape sequences for colours */
    size_t columns[LIVE_LINES_MAX];             /* displayed width of each */
};

/* Fills *frame with at most HEIGHT lines of at most WIDTH columns. */
void live_view_draw(struct live_frame *frame, const struct live_scene *scene, size_t width,
                    size_t height);

/* Fills *frame with one line of at most WIDTH columns; drops items from the right that do not fit. */
void live_view_line(struct live_frame *frame, const struct live_scene *scene, size_t width);

/* How much of the run is done, in percent: of its requests or its time, whichever is more. */
double live_view_percent(const struct progress_goal *goal, const struct tally *tally,
                         uint64_t elapsed_ns);

#endif
