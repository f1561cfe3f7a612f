/*
 * A run at a constant rate whose course is kept step by step, with what the server used, and with
 * something that happens to it in the middle. The rate is half of what the server can do: what users
 * wait for, not what a full server does. Main thread.
 */
#ifndef LOADGEN_LAB_OBSERVED_H
#define LOADGEN_LAB_OBSERVED_H

#include "loadgen/lab/points.h"
#include "loadgen/lab/usage.h"
#include "loadgen/stats/series.h"

enum { OBSERVED_STEPS = 2000, OBSERVED_CONNECTIONS = 100 };

/* What the server had at the end of a step. */
struct observed_look {
    struct usage usage;
    uint64_t connections; /* open ones, of clients */
};

struct observed {
    struct lab *lab;
    struct private_server *server;
    double rate; /* requests a second */
    uint64_t duration_ms;
    uint64_t step_ms; /* 100 at the least; more where it would be more than OBSERVED_STEPS */
    bool uses_usage;  /* looks at the server's memory and descriptors in each step */
    /* Once, ACT_MS after the begin; must not wait. NULL: nothing happens. */
    void (*act)(void *context);
    void *context;
    uint64_t act_ms;

    /* What came of it. */
    struct series *series;
    struct observed_look *looks; /* of each entry of the series, as far as there is room */
    uint64_t answered, bad;
    double client_share, late_percent;
    bool acted;
};

/* Half of the rate that SERVER reaches with LAB_SMALL, measured for a moment. 0 with WHY. */
double observed_half_rate(struct lab *lab, struct private_server *server);

/* Runs it. Returns 0 (then observed_free() is owed), or -1: interrupted or with WHY. */
int observed_run(struct observed *observed);
void observed_free(struct observed *observed);

/* Answers a second in a step. */
double observed_rate(const struct series_entry *step);

#endif
