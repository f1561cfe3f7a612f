/* One run, and what it uses: changes of the load, the display of progress. Main thread. */
#ifndef LOADGEN_RUN_INTERNAL_H
#define LOADGEN_RUN_INTERNAL_H

#include "loadgen/plan/request_plan.h"
#include "loadgen/run/run.h"

#include <event2/event.h>

/*
 * Runs PLAN with its prepared requests. OBSERVER may be NULL. Returns 0 with *result filled
 * (release it with result_free()), or -1 with WHY if the run could not begin.
 */
int run_plan(const struct plan *plan, struct request_plan *request_plan,
             const struct run_observer *observer, struct result *result, char *why, size_t size);

/*
 * ---- Changes of the load: lines on a descriptor (--control-fd), keys on the terminal ----
 *
 *     rate 2000 · rate +10% · connections 50 · connections -5 · threads 4 · stop
 */

enum change_kind {
    CHANGE_RATE,
    CHANGE_CONNECTIONS,
    CHANGE_THREADS,
    CHANGE_STOP,
    CHANGE_LOAD, /* only keys: the rate in an open loop, the connections in a closed one */
};

enum change_way { CHANGE_TO, CHANGE_BY, CHANGE_BY_PERCENT };

struct change {
    enum change_kind kind;
    enum change_way way;
    double value;
};

/* Parses a line without its line end. Returns 0, or -1 with WHY. */
int change_parse_line(const char *line, struct change *change, char *why, size_t size);

/* The help line for the keys. */
#define CHANGE_KEYS_HELP "+ - load  C c connections  T t threads  q end"

/* VALUE after CHANGE: an integer of at least 1; a rate may be any positive number. */
double change_apply(const struct change *change, double value);

/* Where changes come from; one at a time. */
struct control;

/* CHANGE, or NULL and WHY for an invalid line. */
typedef void control_change(void *context, const struct change *change, const char *why);

/*
 * Watches descriptor FD (-1: none) and, if KEYS, standard input if this process owns the terminal.
 * Returns NULL if out of memory or if FD cannot be watched.
 */
struct control *control_create(struct event_base *base, int fd, bool keys,
                               control_change *on_change, void *context);

/* Whether keys are read. */
bool control_has_keys(const struct control *control);

/* Restores the terminal. CONTROL may be NULL. */
void control_destroy(struct control *control);

/*
 * Makes the terminal deliver single keys, without echo. Returns false unless standard input is a
 * terminal that this process owns.
 */
bool terminal_keys_begin(void);

/* Restores the terminal, also at exit(). No effect without a begin. */
void terminal_keys_end(void);

/*
 * ---- The live view ----
 *
 * A frame of a few lines, composed for the size of the terminal. On a large one:
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

enum {
    RATE_TRACE_CELLS = 64,
    RATE_TRACE_TEXT = 4 * RATE_TRACE_CELLS, /* bytes of a drawn trace */
};

/* The rate over the whole run. When all cells are in use, each pair of cells is merged into one. */
struct rate_trace {
    double cell[RATE_TRACE_CELLS]; /* responses per second */
    size_t count;
    unsigned samples_per_cell; /* 0 means 1 */
    double incomplete_sum;
    unsigned incomplete_samples;
};

/* Adds RATE, the rate since the last call. Call at equal intervals. */
void rate_trace_add(struct rate_trace *trace, double rate);

/* The highest cell. */
double rate_trace_peak(const struct rate_trace *trace);

/*
 * Draws the trace, oldest first, in at most WIDTH columns; a cell that is not 0 is visible. Returns
 * the number of columns.
 */
size_t rate_trace_draw(char text[RATE_TRACE_TEXT], const struct rate_trace *trace, size_t width,
                       bool unicode);

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

/*
 * Fills *frame with one line of at most WIDTH columns; drops items from the right that do not fit.
 */
void live_view_line(struct live_frame *frame, const struct live_scene *scene, size_t width);

/* How much of the run is done, in percent: of its requests or its time, whichever is more. */
double live_view_percent(const struct progress_goal *goal, const struct tally *tally,
                         uint64_t elapsed_ns);

/* A frame that is redrawn in place, below the previous output, so that the last one can remain. */
struct live_terminal {
    FILE *out;
    struct live_frame shown; /* the frame on the terminal */
};

/* Whether OUT is a terminal that can move its cursor. */
bool live_terminal_is_capable(FILE *out);

void live_terminal_size(const struct live_terminal *terminal, size_t *width, size_t *height);

/*
 * Replaces the frame on the terminal by *FRAME. No effect while the process is in the background.
 */
void live_terminal_show(struct live_terminal *terminal, const struct live_frame *frame);

/* Removes the frame; with STAYS, keeps it and moves the cursor below it. */
void live_terminal_end(struct live_terminal *terminal, bool stays);

/*
 * ---- Progress: the live view on a terminal, or JSON lines for a program ----
 *
 * Both go to standard error, so that standard output has only the report.
 */

enum { PROGRESS_TICK_MS = 100 };

enum progress_kind {
    PROGRESS_NONE,
    PROGRESS_LIVE,  /* the live view, redrawn each frame */
    PROGRESS_LINES, /* a JSON object per line, every second tick */
};

struct progress {
    enum progress_kind kind;
    const struct plan *plan;
    struct progress_goal goal;
    FILE *out;
    uint64_t ticks;
    uint64_t past_ns[10];       /* times of the last ticks, a ring */
    uint64_t past_answered[10]; /* responses up to these ticks */
    double rate;                /* responses per second over these ticks */
    struct rate_trace trace;
    struct histogram shown; /* latency up to the last JSON line */
    struct live_terminal terminal;
    bool keys;              /* the live view lists the keys */
    char message[80];       /* shown in the last line of the live view for a while */
    uint64_t message_until; /* tick at which the message expires */
};

/* The state of the run to display. */
struct progress_now {
    const struct tally *tally; /* the sum of all threads, without the warm-up */
    uint64_t elapsed_ns;
    struct progress_setting setting;
};

/* Chooses the kind: lines if the plan says so, live if OUT is a capable terminal. */
void progress_begin(struct progress *progress, const struct plan *plan,
                    const struct progress_goal *goal, FILE *out);

/* Call every PROGRESS_TICK_MS: samples the rate and writes JSON lines. */
void progress_tick(struct progress *progress, const struct progress_now *now);

/* Redraws the live view; call once per frame. */
void progress_draw(struct progress *progress, const struct progress_now *now);

/*
 * Reports a change: if ACCEPTED, the load now in effect; else WHY it was rejected. As a JSON line
 * it has a member "event": "changed" or "rejected".
 */
void progress_report_change(struct progress *progress, bool accepted, const char *why, double rate,
                            uint32_t connections, uint32_t threads);

/* Stops the process (Ctrl-Z) with the terminal restored; returns when it continues. */
void progress_suspend(struct progress *progress);

/* Draws the live view for the last time, or removes it if a report follows on the same terminal. */
void progress_end(struct progress *progress, const struct progress_now *now);

/*
 * ---- Metrics over HTTP while a run lasts (--metrics), in the text format of Prometheus ----
 */

struct metrics_page;

/* Writes the page. */
typedef void metrics_page_write(void *context, FILE *out);

/* Listens at ADDRESS, "[HOST]:PORT". Returns NULL with WHY. */
struct metrics_page *metrics_page_create(struct event_base *base, const char *address,
                                         metrics_page_write *write, void *context, char *why,
                                         size_t size);

/* PAGE may be NULL. */
void metrics_page_free(struct metrics_page *page);

/* Writes the state of a run. */
void metrics_page_put(FILE *out, const struct progress_now *now);

#endif
