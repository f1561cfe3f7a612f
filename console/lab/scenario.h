/*
 * A guided scenario is data: console/lab/NAME.def initialises a struct lab_scenario, and
 * console/lab/scenarios.def lists them. It describes a test bed (a private webserverd with files and
 * load, or examples/locks) and steps. A step has an instruction, a condition that completes it, measures and an explanation.
 * Scenarios are constant.
 */
#ifndef CONSOLE_LAB_SCENARIO_H
#define CONSOLE_LAB_SCENARIO_H

#include "common/tables.h"
#include "console/data/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The measures of a scenario: a sliding window of LAB_SAMPLES samples over the last SPAN_NS. Pure:
 * the samples carry the time.
 */
enum { LAB_SAMPLES = 9 };

enum lab_measure {
    LAB_MEASURE_NONE,
#define MEASURE(name, label, kind, unit, of) LAB_MEASURE_##name,
#include "console/lab/measures.def"
#undef MEASURE
    LAB_MEASURE_COUNT
};

struct lab_sample {
    uint64_t time_ns; /* monotonic clock */
    uint64_t sums[METRIC_COUNT];
    uint64_t failed_requests; /* counted by the clients */
};

struct lab_window {
    uint64_t span_ns;                      /* set by the owner */
    struct lab_sample sample[LAB_SAMPLES]; /* ring buffer */
    uint64_t taken;                        /* samples; 0 drops them all */
    struct lab_sample base;                /* when the step began */
    uint64_t killed_ns;                    /* a worker was killed; monotonic clock; 0: none was */
    uint64_t recovered_ns;                 /* its successor was seen serving; 0: not yet */
};

/*
 * Call with each MODEL: adds a sample if the next one is due, and notices when the killed worker
 * has been replaced.
 */
void lab_window_take(struct lab_window *window, const struct model *model, uint64_t failed);

/* Reports that a worker was killed at the time of MODEL. */
void lab_window_killed(struct lab_window *window, const struct model *model);

/* Makes the last sample the base of measures of kind GROWTH and FAILED. */
void lab_window_rebase(struct lab_window *window);

/* True if the samples span SPAN_NS. */
bool lab_window_full(const struct lab_window *window);

/* NAN: unknown. */
void lab_window_values(const struct lab_window *window, double values[LAB_MEASURE_COUNT]);

const char *lab_measure_label(enum lab_measure measure);

/* What the explanation of a step says of a measure. The panel says so if it is not true. */
struct lab_claim {
    enum lab_measure measure; /* LAB_MEASURE_NONE ends a shorter list */
    enum {
        LAB_BELOW,
        LAB_ABOVE,
        LAB_LESS,
        LAB_MORE
    } relation;   /* than VALUE; than before the step */
    double value; /* used by LAB_BELOW and LAB_ABOVE */
};

/*
 * Checks a claim with the values before the step and now. Returns true, or false and writes why
 * not: "queued jobs 2, expected over 5". A value that is not known proves nothing.
 */
bool lab_claim_holds(const struct lab_claim *claim, const double *before, const double *now,
                     char *why, size_t size);

/* Formats VALUE into BUFFER (TEXT_SHORT bytes). Returns BUFFER. */
char *lab_measure_text(enum lab_measure measure, double value, char *buffer);

/*
 * How long a step measures, by default and at the least and most. The least is the time after which
 * the console reads the configuration again: the next step must see it as the last one left it.
 */
enum { LAB_STEP_MS = 2000, LAB_STEP_LEAST_MS = 500, LAB_STEP_MOST_MS = 60000 };

enum {
    LAB_FILES = 2,
    LAB_LOADS = 3,
    LAB_STEPS = 7,
    LAB_ACTIONS = 6,
    LAB_SHOWN = 5,
    LAB_CLAIMS = 3
};

/* Actions of the test bed. */
enum lab_action_kind {
    LAB_NOTHING,
    LAB_START,       /* load NUMBER */
    LAB_STOP,        /* the load NUMBER */
    LAB_CHANGE_LOAD, /* send TEXT ("rate 200") to load NUMBER */
    LAB_STALL,       /* NUMBER clients connect and stall; 0: all disconnect */
    LAB_KILL,        /* SIGKILL to a worker */
    LAB_CONFIGURE,   /* TEXT becomes the configuration file; no reload */
    LAB_COMMAND,     /* send TEXT to the control socket */
    LAB_RESTORE_LOG, /* the access log becomes a regular file; /dev/full before */
};

struct lab_action {
    enum lab_action_kind act;
    int number;
    const char *text;
};

/* The conditions that complete a step. */
enum lab_condition_kind {
    LAB_PRESSED,   /* key L, which starts the actions */
    LAB_VIEW,      /* view TEXT is shown */
    LAB_THREADS,   /* at least LEAST serving threads per worker */
    LAB_OFFLOAD,   /* at least LEAST offload threads per worker */
    LAB_VALUE,     /* METRIC is at least LEAST */
    LAB_INCREASED, /* METRIC increased by LEAST since the step began */
    LAB_KEY,       /* KEY has the value TEXT in the configuration in force */
    LAB_EVENT,     /* the server published the event TEXT since the step began */
};

struct lab_condition {
    enum lab_condition_kind until;
    enum metric metric;
    uint64_t least;
    const char *key, *text;
};

struct lab_step {
    const char *todo;  /* instruction: the keys to press; with LAB_PRESSED, what G will do */
    const char *watch; /* what to observe */
    struct lab_condition done, also;      /* both must hold; ALSO is ignored if it is LAB_PRESSED */
    struct lab_action first[LAB_ACTIONS]; /* executed at the start of the step */
    struct lab_action then[LAB_ACTIONS];  /* executed when the step is completed */
    unsigned settle_s;                    /* delay before measuring, at LAB_STEP_MS; 0: default */
    enum lab_measure shown[LAB_SHOWN];    /* LAB_MEASURE_NONE ends a shorter list */
    const char *why;
    struct lab_claim claims[LAB_CLAIMS];
};

/* Files /LIST/0.bin, /LIST/1.bin ..., and LIST.urls with their URLs in the directory of the test
 * bed. */
struct lab_files {
    const char *list;
    unsigned count, bytes;
};

struct lab_scenario {
    const char *name;
    const char *title;
    const char *about;           /* one line for the menu */
    const char *locks;           /* arguments of examples/locks, split at blanks, which then
                                  * replaces webserverd; NULL: webserverd */
    const char *config;          /* the initial configuration file */
    const char *const *settings; /* options that override it; NULL: none */
    struct lab_files files[LAB_FILES];
    /*
     * Arguments of wsload, split at blanks; @URL@: the server, @DIRECTORY@: that of the test bed.
     */
    const char *loads[LAB_LOADS];
    struct lab_action begin[LAB_ACTIONS];
    struct lab_step steps[LAB_STEPS];
};

enum {
#define SCENARIO(name) LAB_SCENARIO_##name,
#include "console/lab/scenarios.def"
#undef SCENARIO
    LAB_SCENARIO_COUNT
};

extern const struct lab_scenario *const lab_scenario_table[LAB_SCENARIO_COUNT];

/* The scenario called NAME, or NULL. */
const struct lab_scenario *lab_scenario_named(const char *name);

/* Number of steps. */
int lab_scenario_steps(const struct lab_scenario *scenario);

#endif
