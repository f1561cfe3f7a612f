/*
 * A sweep: the same requests over few and over many connections, kept alive or not, with more or fewer
 * threads and workers of our own server, in rounds (trials.h); and what that says about the server's
 * limits. A curve is what was measured over the connections with all else the same. Main thread.
 */
#ifndef LOADGEN_SWEEP_H
#define LOADGEN_SWEEP_H

#include "loadgen/run/server_control.h"
#include "loadgen/run/trials.h"
#include "loadgen/stats/usl.h"
#include "loadgen/stats/zones.h"

enum {
    SWEEP_POINTS_MAX = 1000,
    SWEEP_CURVE_NAME = 72,
    SWEEP_NAME = 112,
    SWEEP_FINDINGS_MAX = 8,
    SWEEP_FINDING_TEXT = 400,
    SWEEP_NOTES_MAX = 8,
};

struct sweep_point {
    struct plan plan;
    char name[SWEEP_NAME];
    size_t curve;
    struct interval of[MEASURE_COUNT]; /* over the rounds */
    enum zone zone;
    bool client_bound;  /* the client had no processor time left: the server may be faster */
    bool machine_bound; /* nor had the machine, which may be the server's, too */
};

/* What keeps the throughput from growing. */
enum sweep_limit {
    SWEEP_LIMIT_UNKNOWN,
    SWEEP_LIMIT_NOT_REACHED, /* it still grows at the last point */
    SWEEP_LIMIT_CLIENT,
    SWEEP_LIMIT_SERVER_THREADS, /* all of them are busy, and the machine has more cores */
    SWEEP_LIMIT_SERVER_CPU,     /* all cores are busy with the server */
    SWEEP_LIMIT_MACHINE,        /* all cores are busy, with server and client */
    SWEEP_LIMIT_CONTENTION,
    SWEEP_LIMIT_COHERENCY,
};

/* A sentence about a curve, or about all; the name is for programs. */
struct sweep_finding {
    const char *name;
    char text[SWEEP_FINDING_TEXT];
};

struct sweep_curve {
    char name[SWEEP_CURVE_NAME]; /* "kept alive, 2 workers x 6 threads" */
    bool keepalive;
    struct server_sizes server; /* 0: not known, or not ours */
    struct sweep_point *points; /* by rising connections */
    size_t count, measured;     /* those at the begin that have a round, at least */
    bool noisy; /* the rounds differ so much that no more than the medians is said */
    struct zones zones;
    bool has_usl; /* only a good fit is kept */
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
    char server[64]; /* our own server's name; "": it is not ours */
    uint32_t cores;  /* of this machine */
    enum trials_end end;
    enum result_status status;
    struct sweep_finding note[SWEEP_NOTES_MAX]; /* about the sweep as a whole */
    size_t note_count;
};

/*
 * Makes the points and curves of the plan, with nothing measured. SERVER is what our own server has
 * where the plan does not say; {0, 0}: it is not ours. Returns NULL with WHY. Free with sweep_free().
 */
struct sweep *sweep_create(const struct plan *plan, struct server_sizes server, char *why,
                           size_t size);
void sweep_free(struct sweep *sweep);

#endif
