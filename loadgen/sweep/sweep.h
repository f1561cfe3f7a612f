/*
 * A sweep: the same load with different numbers of connections, with and without keep-alive, and
 * with different numbers of workers and threads of webserverd. A point is one such setting; it is
 * measured in every round. The points of a curve differ only in the number of connections. Main
 * thread.
 */
#ifndef LOADGEN_SWEEP_SWEEP_H
#define LOADGEN_SWEEP_SWEEP_H

#include "loadgen/run/server.h"
#include "loadgen/run/run.h"
#include "loadgen/stats/scaling.h"

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
    struct interval of[MEASURE_COUNT]; /* over the rounds */
    enum zone zone;
    bool client_bound;  /* the client used all its CPU time: the server may be faster */
    bool machine_bound; /* the cores of this machine were all busy */
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
    struct sweep_point *points; /* by number of connections; in the sweep's points */
    size_t count,
        measured; /* measured: how many of them, from the first, have at least one round */
    bool noisy;   /* the rounds differ too much for conclusions beyond the medians */
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
    char server[64]; /* instance name of the webserverd; "": another server */
    uint32_t cores;  /* of this machine */
    enum trials_end end;
    char failure[SWEEP_FAILURE_TEXT]; /* of TRIALS_FAILED: why it could not continue */
    enum result_status status;
    struct sweep_finding note[SWEEP_NOTES_MAX]; /* about the sweep as a whole */
    size_t note_count;
};

/*
 * Creates the points and curves of PLAN, which outlives the sweep. SERVER has the current sizes of
 * the webserverd, the defaults where the plan sets none; {0, 0}: another server. Returns NULL with
 * WHY.
 */
struct sweep *sweep_create(const struct plan *plan, struct server_sizes server, char *why,
                           size_t size);
void sweep_free(struct sweep *sweep);

/* The completed runs of all points. */
size_t sweep_runs_done(const struct sweep *sweep);

#endif
