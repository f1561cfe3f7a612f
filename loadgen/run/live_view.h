/*
 * What is drawn on a terminal while a run goes on: a frame of a few lines, made anew for each drawing,
 * that fits whatever room there is. In much room
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
 * and in little one line: live_view_line(). Pure.
 */
#ifndef LOADGEN_LIVE_VIEW_H
#define LOADGEN_LIVE_VIEW_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/rate_trace.h"
#include "loadgen/stats/tally.h"

enum {
    LIVE_LINES_MAX = 40,
    LIVE_LINE_BYTES = 1024,
    LIVE_WIDTH_MAX = 120,
    LIVE_LEAST_WIDTH =
        36, /* below this, or with fewer lines than the next, there is one line only */
    LIVE_LEAST_HEIGHT = 10,
};

/* What is asked for right now; it may change while the run goes on. */
struct progress_setting {
    double rate; /* requests a second; 0: closed loop */
    uint32_t connections, threads;
};

/* Where a run ends; 0: not there. */
struct progress_goal {
    uint64_t requests;
    uint64_t duration_ns, warmup_ns; /* duration_ns with the warm-up in it */
};

struct live_scene {
    const struct progress_goal *goal;
    const struct tally *tally; /* of what counts */
    const struct progress_setting *setting;
    const struct rate_trace *trace;
    const char *label; /* what the first line is; NULL: nothing */
    const char *said;  /* the last line: what came of a change, or the keys; NULL: nothing */
    uint64_t elapsed_ns;
    double rate; /* answers a second, of late */
    bool over;   /* the run is */
    bool unicode, colour;
};

struct live_frame {
    size_t lines;
    char text[LIVE_LINES_MAX][LIVE_LINE_BYTES]; /* may have escape sequences of colours */
    size_t columns[LIVE_LINES_MAX];             /* that each takes */
};

/* Fills *frame: at most HEIGHT lines of at most WIDTH columns. */
void live_view_draw(struct live_frame *frame, const struct live_scene *scene, size_t width,
                    size_t height);

/* The whole in one line of at most WIDTH columns: what does not fit is left out from the right. */
void live_view_line(struct live_frame *frame, const struct live_scene *scene, size_t width);

/* How much of the run is over, in percent: of its requests or of its time, whichever is further. */
double live_view_percent(const struct progress_goal *goal, const struct tally *tally,
                         uint64_t elapsed_ns);

#endif
