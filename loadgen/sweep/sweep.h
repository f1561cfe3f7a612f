/*
 * A sweep: the same load with different numbers of connections, with and without keep-alive, and
 * with different numbers of workers and threads of webserverd. A point is one such setting; it is
 * measured in every round. The points of a curve differ only in the number of connections. Main
 * thread.
 */
#ifndef LOADGEN_SWEEP_SWEEP_H
#define LOADGEN_SWEEP_SWEEP_H

#include "loadgen/run/run.h"
#include "loadgen/run/server.h"
#include "loadgen/stats/scaling.h"

#include <stdio.h>

enum {
    SWEEP_POINTS_MAX = 1000,
    SWEEP_CURVE_NAME = 72,
    SWEEP_NAME = 112,
    SWEEP_FINDINGS_MAX = 8,
    SWEEP_FINDING_TEXT = 400,
    SWEEP_FAILURE_TEXT = 320,
    SWEEP_NOTES_MAX = 8,
};

struct sweep_point {
    struct plan plan;
    char name[SWEEP_NAME];
    size_t curve;
    struct interval over_rounds[MEASURE_COUNT];
    enum zone zone;
    bool client_bound; /* the client used all its CPU time: the server may be faster */
};

/* What limits the throughput of a curve. */
enum sweep_limit {
    SWEEP_LIMIT_UNKNOWN,
    SWEEP_LIMIT_NOT_REACHED, /* throughput still grows at the last point */
    SWEEP_LIMIT_CLIENT,
    SWEEP_LIMIT_SERVER_THREADS, /* the server's threads are all busy; the machine has more cores */
    SWEEP_LIMIT_SERVER_CPU,     /* all cores are busy with the server */
    SWEEP_LIMIT_MACHINE,        /* all cores are busy, with server and client */
    SWEEP_LIMIT_CONTENTION,
    SWEEP_LIMIT_COHERENCY,
    SWEEP_LIMIT_CONNECTIONS, /* requests wait for a free connection */
};

/* How busy client, server and machine were. */
struct sweep_load {
    double client_percent;  /* of a core, each client thread */
    double server_cores;    /* NAN: unknown */
    double machine_percent; /* of all cores */
    double server_threads;  /* 0: unknown */
    uint32_t machine_cores;
};

/* A sentence about a curve or the sweep; NAME identifies it for programs. */
struct sweep_finding {
    const char *name;
    char text[SWEEP_FINDING_TEXT];
};

struct sweep_curve {
    char name[SWEEP_CURVE_NAME]; /* "keep-alive, 2 workers x 6 threads" */
    bool keepalive;
    struct server_sizes server; /* 0: unknown, or not webserverd */
    struct sweep_point *points; /* a part of the sweep's, by rising number of connections */
    size_t count;
    size_t measured; /* the first points that have at least one round */
    bool noisy;      /* the rounds differ too much for conclusions beyond the medians */
    struct zones zones;
    bool has_usl; /* usl fits well */
    struct usl usl;
    enum sweep_limit limit;
    struct sweep_finding finding[SWEEP_FINDINGS_MAX];
    size_t finding_count;
};

struct sweep {
    const struct plan *plan;
    struct sweep_point *points;
    size_t point_count;
    struct sweep_curve *curves;
    size_t curve_count;
    struct trials *trials;
    uint64_t began_ns; /* wall clock */
    char server[64];   /* instance name of the webserverd; "": another server */
    uint32_t machine_cores;
    enum trials_end end;
    char failure[SWEEP_FAILURE_TEXT]; /* why it could not continue (TRIALS_FAILED) */
    enum result_status status;
    struct sweep_finding note[SWEEP_NOTES_MAX]; /* about the sweep as a whole */
    size_t note_count;
};

/*
 * Runs all trials of PLAN, with the number of workers and threads of each curve, restores the
 * server's own numbers at the end, and draws the conclusions. Reports on standard error if the
 * numbers cannot be restored. Returns NULL, with WHY and the program's exit status in *STATUS, if
 * the sweep could not begin or continue. Free with sweep_free().
 */
struct sweep *sweep_run(const struct plan *plan, enum result_status *status, char *why,
                        size_t size);
void sweep_free(struct sweep *sweep);

/*
 * Writes SWEEP in the format of its plan. COLOUR allows emphasis by escape sequences in text.
 * Returns 0, or -1 with errno. Errors of OUT are left to the caller (ferror()).
 *
 * CSV follows RFC 4180, but lines end with LF: for each point a row with the medians, two rows with
 * the ends of the 95 % confidence intervals, and one for each round. Unknown values are empty.
 */
int sweep_report(FILE *out, const struct sweep *sweep, bool colour);

/* ---- Between the files of this directory ---- */

/*
 * Creates the points and curves of PLAN, which outlives the sweep. SERVER has the current sizes of
 * the webserverd, the defaults where the plan sets none; {0, 0}: another server. Returns NULL with
 * WHY.
 */
struct sweep *sweep_create(const struct plan *plan, struct server_sizes server, char *why,
                           size_t size);

/* The completed runs of all points. */
size_t sweep_runs_done(const struct sweep *sweep);

/* Whose CPU time limits the throughput; SWEEP_LIMIT_UNKNOWN: none. */
enum sweep_limit sweep_limit_of(const struct sweep_load *load);

/* The name of LIMIT in JSON. */
const char *sweep_limit_name(enum sweep_limit limit);

/* Fills the intervals, zones, limits, findings and notes of SWEEP from its trials. */
void sweep_conclude(struct sweep *sweep);

#endif
