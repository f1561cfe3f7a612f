/*
 * A guided scenario is data: console/lab/NAME.def initialises a struct lab_scenario, and
 * console/lab/scenarios.def lists them. It describes a test bed (a private webserverd, files, load)
 * and steps. A step has an instruction, a condition that completes it, measures and an explanation.
 * Constant; any thread.
 */
#ifndef CONSOLE_LAB_SCENARIO_H
#define CONSOLE_LAB_SCENARIO_H

#include "common/tables.h"
#include "console/lab/measures.h"

#include <stdint.h>

enum { LAB_FILES = 2, LAB_LOADS = 3, LAB_STEPS = 7, LAB_ACTIONS = 6, LAB_SHOWN = 5 };

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
    LAB_RESTORE_LOG, /* remove the link from access.log to /dev/full */
};

struct lab_action {
    enum lab_action_kind act;
    int number;
    const char *text;
};

/* What completes a step. */
enum lab_condition_kind {
    LAB_PRESSED,   /* key L; the test bed then acts */
    LAB_VIEW,      /* view TEXT is shown */
    LAB_THREADS,   /* at least LEAST serving threads per worker */
    LAB_OFFLOAD,   /* at least LEAST offload threads per worker */
    LAB_VALUE,     /* METRIC is at least LEAST */
    LAB_INCREASED, /* METRIC increased by LEAST since the step began */
    LAB_KEY,       /* KEY has the value TEXT in the configuration in force */
};

struct lab_condition {
    enum lab_condition_kind until;
    enum metric metric;
    uint64_t least;
    const char *key, *text;
};

struct lab_step {
    const char *todo;                     /* the keys to press; with LAB_PRESSED what L will do */
    const char *watch;                    /* what to look at */
    struct lab_condition done, also;      /* both must hold; `also` LAB_PRESSED: only `done` */
    struct lab_action first[LAB_ACTIONS]; /* at the start of the step */
    struct lab_action then[LAB_ACTIONS];  /* when it is completed */
    unsigned settle_s;                    /* delay before measuring; 0: default */
    enum lab_measure shown[LAB_SHOWN];    /* LAB_MEASURE_NONE ends a shorter list */
    const char *why;
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
    const char *config;          /* the initial configuration file */
    const char *const *settings; /* options that override it; NULL: none */
    struct lab_files files[LAB_FILES];
    /* Arguments of wsload, split at blanks; @URL@: the server, @DIRECTORY@: that of the test bed. */
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
