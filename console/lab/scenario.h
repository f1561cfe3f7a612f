/*
 * What a guided scenario is made of. A scenario is data, a file console/lab/NAME.def that fills a
 * struct lab_scenario; console/lab/scenarios.def lists them. It sets a stage (a private webserverd,
 * files, load), and leads through steps: each says what to do and what to watch, knows when it is
 * done, names the numbers that are then measured, and explains them. Constant; any thread.
 */
#ifndef CONSOLE_LAB_SCENARIO_H
#define CONSOLE_LAB_SCENARIO_H

#include "common/tables.h"
#include "console/lab/measures.h"

#include <stdint.h>

enum { LAB_FILES = 2, LAB_LOADS = 3, LAB_STEPS = 7, LAB_ACTIONS = 6, LAB_SHOWN = 5 };

/* What the stage does by itself. */
enum lab_action_kind {
    LAB_NOTHING,
    LAB_START,       /* the load NUMBER */
    LAB_STOP,        /* the load NUMBER */
    LAB_CHANGE_LOAD, /* TEXT ("rate 200") to the load NUMBER */
    LAB_STALL,       /* NUMBER clients connect and stall; 0: all of them go */
    LAB_KILL,        /* a worker, by SIGKILL */
    LAB_CONFIGURE,   /* TEXT becomes the configuration file, which nobody reads yet */
    LAB_COMMAND,     /* TEXT to the control socket */
    LAB_RESTORE_LOG, /* access.log is no link to /dev/full any more */
};

struct lab_action {
    enum lab_action_kind act;
    int number;
    const char *text;
};

/* When a step is done. */
enum lab_condition_kind {
    LAB_PRESSED,   /* L was pressed: what follows is done by the stage */
    LAB_VIEW,      /* the view TEXT is shown */
    LAB_THREADS,   /* so many serving threads in each worker, LEAST or more */
    LAB_OFFLOAD,   /* the same of offload threads */
    LAB_VALUE,     /* METRIC is LEAST or more */
    LAB_INCREASED, /* METRIC has grown by LEAST since the step began */
    LAB_KEY,       /* in the configuration in force KEY has the value TEXT */
};

struct lab_condition {
    enum lab_condition_kind until;
    enum metric metric;
    uint64_t least;
    const char *key, *text;
};

struct lab_step {
    const char *todo;  /* names the keys to press; with LAB_PRESSED, what L will bring about */
    const char *watch; /* where to look meanwhile */
    struct lab_condition done, also;      /* both; LAB_PRESSED as the other one: only the first */
    struct lab_action first[LAB_ACTIONS]; /* when the step begins */
    struct lab_action then[LAB_ACTIONS];  /* when it is done */
    unsigned settle_s;                    /* from then until numbers count; 0: the usual */
    enum lab_measure shown[LAB_SHOWN];    /* ended by LAB_MEASURE_NONE, if there are fewer */
    const char *why;
};

/* Files /LIST/0.bin, /LIST/1.bin ... and LIST.urls in the stage's folder, which lists them. */
struct lab_files {
    const char *list;
    unsigned count, bytes;
};

struct lab_scenario {
    const char *name;
    const char *title;
    const char *about;           /* a line for the list of scenarios */
    const char *config;          /* the configuration file at first */
    const char *const *settings; /* that prevail over it; NULL: none */
    struct lab_files files[LAB_FILES];
    /* Words of wsload, split at blanks; @URL@ is the server, @FOLDER@ the stage's folder. */
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

/* How many steps there are. */
int lab_scenario_steps(const struct lab_scenario *scenario);

#endif
