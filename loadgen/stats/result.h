/* The result of a run: the input of all reports. Main thread. */
#ifndef LOADGEN_RESULT_H
#define LOADGEN_RESULT_H

#include "loadgen/plan/plan.h"
#include "loadgen/stats/measures.h"
#include "loadgen/stats/series.h"
#include "loadgen/stats/tally.h"

/*
 * The comparison with the counters of the webserverd at the target, if there is one (run/server.h).
 */
enum server_check_outcome {
    SERVER_CHECK_NONE, /* no webserverd of this machine there, or its segment is inaccessible */
    SERVER_CHECK_SAME, /* both counted the same */
    SERVER_CHECK_DIFFERS,
};

struct server_check_result {
    enum server_check_outcome outcome;
    char name[64];    /* the instance */
    uint64_t counted; /* requests that the server answered during the run */
    uint64_t sent;    /* responses received, warm-up included */
    double cores;     /* CPU seconds per second of all its processes; NAN: unknown */
};

/* The rounds of a repeated run (--repeat). */
struct rounds {
    struct trials *trials;      /* one point, number 0 */
    struct series_entry *total; /* one for each of these rounds */
    uint32_t requested, done;   /* done: complete rounds, which TRIALS has */
};

/* Empty, with room for COUNT rounds. Returns NULL if out of memory. */
struct rounds *rounds_create(uint32_t count);
void rounds_free(struct rounds *rounds);

static inline struct interval rounds_interval(const struct rounds *rounds, enum measure measure)
{
    return trials_interval(rounds->trials, 0, measure);
}

/* What the hostile clients of one kind did. */
struct hostile_count {
    uint32_t asked, open;    /* clients; open: connected at the end */
    uint64_t opened, failed; /* connections */
    uint64_t closed;         /* by the server */
    uint64_t held_ns;        /* the sum of the times that connections were open */
    uint64_t longest_ns;
};

extern const char *const hostile_kind_names[PLAN_HOSTILE_KINDS];

struct result {
    const struct plan *plan;
    const char *url;  /* the first one; owned */
    size_t requests;  /* number of distinct requests */
    size_t origins;   /* number of distinct origins */
    uint64_t skipped; /* lines of the log, or other requests of a file, that cannot be sent */
    const char *engine;
    struct tally tally;    /* all threads, without the warm-up */
    struct tally warmup;   /* requests begun during the warm-up */
    struct series *series; /* including the warm-up */
    /*
     * Duration without the warm-up: from the start of the first request (open loop: of the
     * schedule) to the end of the last one or the deadline, whichever is later.
     */
    uint64_t elapsed_ns;
    uint64_t began_unix_ns;        /* wall clock at the start of the run, warm-up included */
    uint64_t due_ns;               /* the part of elapsed_ns in which requests could begin */
    uint64_t cpu_ns;               /* all client threads, user and system */
    uint64_t waited_ns;            /* time in which they were ready to run but had no core */
    uint64_t thread_ns;            /* the sum of their lifetimes */
    uint32_t connections, threads; /* when the run ended */
    uint64_t changes;              /* changes of the load during the run */
    bool out_of_memory;            /* not all connections could be created */
    int log_error;                 /* errno of a write to the log of requests; 0: none */
    bool interrupted;
    bool unreachable;                   /* stopped early: no connection could be established */
    const struct condition *aborted_by; /* NULL: none */
    struct server_check_result server;
    double machine_busy; /* part of all cores of this machine in use, 0 to 1; NAN: unknown */
    struct error_texts error_texts;
    struct negotiations negotiations;
    uint32_t merged; /* number of reports that this was merged from; 0: one run */
    uint64_t overlap_from_ns,
        overlap_ns; /* merged: begin and length of the time in which all measured */
    struct scenario_tally *scenarios; /* NULL: none; owned */
    struct hostile_count hostile[PLAN_HOSTILE_KINDS];
    struct measures *alone; /* the same run without hostile clients; NULL: none; owned */
    struct rounds *rounds;  /* the rounds that this is the sum of; NULL: a single run; owned */
};

/* Frees what *result owns. */
void result_free(struct result *result);

/* The total without the warm-up, as one entry of the series. */
struct series_entry result_total(const struct result *result);

/*
 * The time that responses per second refer to. In an open loop, the last responses come after the
 * end of the schedule as the first ones came after its begin: that time is not counted twice.
 */
uint64_t result_rate_ns(const struct result *result);

/* Responses per second; 0 if no time passed. */
double result_rate(const struct result *result);

/*
 * Requests, or starts of scenarios, per second that were due in an open loop: the planned rate, or
 * the average if it varied. 0: closed loop.
 */
double result_rate_due(const struct result *result);
bool result_rate_is_average(const struct result *result);

/*
 * The part of a core that each client thread used, 0 to 1. From RESULT_BUSY_CLIENT_SHARE on, the
 * client limits the result.
 */
#define RESULT_BUSY_CLIENT_SHARE 0.85
double result_cpu_share(const struct result *result);

/*
 * The part of the time that each client thread waited for a core, 0 to 1. From
 * RESULT_STARVED_CLIENT_SHARE on, this distorts the latencies.
 */
#define RESULT_STARVED_CLIENT_SHARE 0.2
double result_wait_share(const struct result *result);

/* CPU time of the client per request, including the warm-up, in ns; NAN: no requests. */
double result_cpu_each_ns(const struct result *result);

/* Errors (tally_bad) in percent of all requests; 0 without requests. */
double result_bad_percent(const struct result *result);

/* Whether the run was an open loop: then latency differs from service time. */
bool result_is_open(const struct result *result);

/* The exit status of the program. */
enum result_status {
    RESULT_GOOD = 0,
    RESULT_USAGE_ERROR = 1, /* nothing was run */
    RESULT_NOTHING = 2,     /* no response */
    RESULT_ERRORS = 3,      /* more errors than --max-errors */
    RESULT_GATE = 99,       /* a condition of --fail-if or --abort-on was true */
    RESULT_INTERRUPTED = 130,
};
enum result_status result_status(const struct result *result);

/* Fills *measures from RESULT. */
void result_measure(const struct result *result, struct measures *measures);

/*
 * Adds FROM, a later round of the same plan, to INTO, which is all zero bytes before the first.
 * Warm-ups are left out of the series. Returns false if out of memory.
 */
bool result_add_round(struct result *into, const struct result *from);

/*
 * ---- Results of runs that were made at the same time, such as on several machines ----
 *
 * The times of the result count from the first begin of a measurement, by the wall clocks.
 */

/*
 * Fills *plan, which has the settings of the report, with the load of COUNT plans together:
 * connections, threads, requests and rates are summed.
 */
void merge_plans(struct plan *plan, const struct result *const *from, size_t count);

/*
 * Fills *into, all zero bytes but for its plan, from COUNT results with a url. Counts are added
 * exactly, histograms bucket by bucket. CPU use of the machine and the comparison with the server
 * become unknown. Returns false if out of memory; release *into in either case.
 */
bool merge_results(struct result *into, const struct result *const *from, size_t count);

/* Why RESULT has no connection, in one line: "URL: no connection was established: ...". */
void result_explain_unreachable(const struct result *result, char *text, size_t size);

/* ---- Notes: warnings for the reader of a result (notes.c) ---- */

enum { RESULT_NOTES_MAX = 51, RESULT_NOTE_TEXT = 400 };

struct result_note {
    const char *name; /* programs identify the note by it */
    char text[RESULT_NOTE_TEXT];
};

/* Fills NOTES, of RESULT_NOTES_MAX elements. Returns how many. */
size_t result_notes(const struct result *result, struct result_note *notes);

#endif
