/*
 * What a run came to: the material of every report, whole, so that reports are functions of it. Owned
 * by the main thread.
 */
#ifndef LOADGEN_RESULT_H
#define LOADGEN_RESULT_H

#include "loadgen/plan/plan.h"
#include "loadgen/stats/measures.h"
#include "loadgen/stats/series.h"
#include "loadgen/stats/tally.h"

/* How our own server's counters compare, where one listens at the target. */
enum server_check_outcome {
    SERVER_CHECK_NONE, /* no webserverd of this machine listens there, or it cannot be asked */
    SERVER_CHECK_SAME, /* it counted as many requests as were sent */
    SERVER_CHECK_DIFFERS,
};

struct server_check_result {
    enum server_check_outcome outcome;
    char name[64];    /* of the instance */
    uint64_t counted; /* requests that it answered during the run */
    uint64_t sent;    /* that it should have: answered here, warm-up included */
    double cores;     /* processor seconds a second that all its processes used; NAN: not known */
};

/* The rounds of a repeated run (--repeat). */
struct rounds {
    struct trials *trials;      /* of one point, number 0 */
    struct series_entry *total; /* of each round in the trials */
    uint32_t asked, done;       /* done: complete rounds, which are in the trials */
};

/* Empty, with room for COUNT rounds. Returns NULL if out of memory. */
struct rounds *rounds_create(uint32_t count);
void rounds_free(struct rounds *rounds);

static inline struct interval rounds_interval(const struct rounds *rounds, enum measure measure)
{
    return trials_interval(rounds->trials, 0, measure);
}

struct result {
    const struct plan *plan;
    const char *url;  /* the first, as it was requested; owned */
    size_t requests;  /* different ones */
    size_t origins;   /* that they go to */
    uint64_t skipped; /* lines of a log that could not be sent again */
    const char *engine;
    struct tally tally;    /* of all threads: what counts */
    struct tally warmup;   /* what was begun before */
    struct series *series; /* second by second, warm-up included */
    /*
     * How long what counts took: from the first request's begin (of an open loop: from when it could be
     * due) to the last one's end, or to the end of the run's time, whichever is later.
     */
    uint64_t elapsed_ns;
    uint64_t due_ns;               /* for how much of that requests were begun */
    uint64_t cpu_ns;               /* of all client threads, user and system */
    uint64_t waited_ns;            /* that they were ready to run while others had the cores */
    uint64_t thread_ns;            /* how long they were there, added up */
    uint32_t connections, threads; /* at the end; they may have been changed */
    uint64_t changes;              /* made while it ran */
    bool out_of_memory;            /* no memory for all connections that were ordered */
    bool interrupted;
    const struct condition *aborted_by; /* NULL: none */
    struct server_check_result server;
    double machine_busy; /* part of all cores of this machine, by anyone, 0 to 1; NAN: not known */
    struct error_texts error_texts;
    struct rounds *rounds; /* of which this is the sum; NULL: a single run. Owned */
};

/* Frees what *result owns. */
void result_free(struct result *result);

/* All that counts as if it were one second of the series. */
struct series_entry result_total(const struct result *result);

/* Answers a second; 0 when no time passed. */
double result_rate(const struct result *result);

/*
 * Requests a second that were due in an open loop: as planned, and where the plan changes with time
 * (or somebody changed it) on average. 0: closed loop.
 */
double result_rate_due(const struct result *result);
bool result_rate_is_average(const struct result *result);

/*
 * Part of one core that each client thread used, 0 to 1. From RESULT_BUSY_CLIENT_SHARE on, the client
 * measures itself as much as the server.
 */
#define RESULT_BUSY_CLIENT_SHARE 0.85
double result_cpu_share(const struct result *result);

/*
 * Part of the time that each client thread was ready to run and others had the cores, 0 to 1. From
 * RESULT_STARVED_CLIENT_SHARE on, the latencies tell of that as much as of the server.
 */
#define RESULT_STARVED_CLIENT_SHARE 0.2
double result_wait_share(const struct result *result);

/* Processor time of the client for each request, those of the warm-up too, ns; NAN: there was none. */
double result_cpu_each_ns(const struct result *result);

/* Requests that count as errors, in percent of all; 0 when there was none. */
double result_bad_percent(const struct result *result);

/* Whether the run was an open loop: latency is then not the service time. */
bool result_is_open(const struct result *result);

/* The exit status of the program. */
enum result_status {
    RESULT_GOOD = 0,
    RESULT_WRONG_USE = 1, /* nothing was run */
    RESULT_NOTHING = 2,   /* not one answer */
    RESULT_ERRORS = 3,    /* more errors than --max-errors allows */
    RESULT_GATE = 99,     /* a condition of --fail-if or --abort-on came true */
    RESULT_INTERRUPTED = 130,
};
enum result_status result_status(const struct result *result);

/* The measures of a run. */
void result_measure(const struct result *result, struct measures *measures);

/*
 * Adds FROM, a later round of the same plan, to INTO, which is all zero bytes before the first. Warm-ups
 * are left out of the series. Returns false if out of memory.
 */
bool result_add_round(struct result *into, const struct result *from);

#endif
