/*
 * A run at a constant rate, or as fast as possible, recorded in steps; optionally with the server's
 * resource usage, and with an event during the run. Main thread.
 */
#ifndef LOADGEN_LAB_OBSERVED_H
#define LOADGEN_LAB_OBSERVED_H

#include "loadgen/lab/machine.h"
#include "loadgen/lab/points.h"
#include "loadgen/stats/measures.h"
#include "loadgen/stats/series.h"

enum { OBSERVED_STEPS = 2000, OBSERVED_CONNECTIONS = 100 };

/* The server at the end of a step. */
struct observed_sample {
    struct usage usage;
    uint64_t client_connections;
};

struct observed {
    struct lab *lab;
    struct private_server *server;
    double rate; /* requests a second; 0: as fast as possible */
    uint64_t duration_ms;
    uint64_t step_ms;   /* 100 or more; raised to have at most OBSERVED_STEPS */
    bool records_usage; /* records the server's memory and descriptors in each step */
    /* Called once, EVENT_MS after the start; must not block. NULL: no event. */
    void (*event)(void *context);
    void *context;
    uint64_t event_ms;

    /* The results. */
    struct series *series;
    struct observed_sample *samples; /* one for each entry of the series, at most OBSERVED_STEPS */
    uint64_t answered, bad;
    double late_percent;
    bool event_done;
};

/*
 * The rate of the lab or, without one, half the maximum rate of SERVER with LAB_SMALL, from one
 * trial. Returns 0 with WHY on failure.
 */
double observed_choose_rate(struct lab *lab, struct private_server *server);

/*
 * Returns 0, after which the caller calls observed_free(), or -1: interrupted or failed with WHY.
 */
int observed_run(struct observed *observed);
void observed_free(struct observed *observed);

/* Responses per second in STEP. */
double observed_rate(const struct series_entry *step);

/*
 * ---- Windows of a run, for confidence intervals of its rate and its latency ----
 */

enum { WINDOWS_MAX = 10 };

/*
 * The steps of SERIES in WINDOWS_MAX windows of about the same number of steps, or a window per
 * step if there are fewer. The interval is that of statistics_interval() over the windows: batch
 * means (Conway 1963). Successive seconds of a run are correlated and would give too narrow an
 * interval; windows are less correlated the longer they are, and count as independent. The interval
 * covers variation within the run, not between runs.
 */

/* Responses per second. */
struct interval windows_rate(const struct series *series);

/* In ns: in each window, the mean over its responses of the p99 of their step. */
struct interval windows_p99(const struct series *series);

#endif
