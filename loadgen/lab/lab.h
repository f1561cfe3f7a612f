/*
 * The experiments: what an experiment has at hand, and the list of all (experiments.def). Each sets up
 * private servers, measures, and fills its findings; the servers and everything else that it took from
 * the lab are given back by the lab when it ends, however it ends. Main thread.
 */
#ifndef LOADGEN_LAB_LAB_H
#define LOADGEN_LAB_LAB_H

#include "common/macros.h"
#include "common/private_server.h"

#include "loadgen/lab/findings.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LAB_SERVERS = 8,
    LAB_SERIES = 8,
    LAB_ROOMS = 32,
    LAB_WHY = 640,
    LAB_LABEL = 48, /* bytes of a label of a line or a row */
    LAB_TITLE = 96, /* bytes of a title of a table or a plot */
    LAB_SMALL_BYTES = 1024,
};

/* A file of LAB_SMALL_BYTES that every server of the lab has. */
#define LAB_SMALL "/small.html"

struct bare_server;
struct trials;

struct lab {
    const char *program; /* webserverd; NULL: it is looked for */
    bool quick;          /* fewer and shorter trials, smaller sets */
    uint32_t rounds;     /* of each point */
    uint64_t trial_ms;   /* counted part of a trial */
    uint32_t cores;      /* that this process may use */
    bool shows_progress; /* on standard error, a line that is written over */
    const char *name;    /* of the experiment that is conducted */
    bool interrupted;
    char why[LAB_WHY]; /* of the last failure */
    struct private_server *server[LAB_SERVERS];
    size_t servers;
    struct bare_server *bare;
    struct trials *trials[LAB_SERIES];
    size_t series;
    void *room[LAB_ROOMS];
    size_t rooms;
};

struct experiment {
    const char *name, *title;
    const char *question; /* a sentence for the list */
    /* Returns 0, or -1: interrupted, or with the lab's WHY. */
    int (*conduct)(struct lab *lab, struct document *findings);
};

/* experiment_NAME() of experiments.def, for conduct. */
#define EXPERIMENT(name, title, question)                                                          \
    int experiment_##name(struct lab *lab, struct document *findings);
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT

/* Conducts one, and gives back what it took. Returns as conduct does. */
int lab_conduct(struct lab *lab, const struct experiment *experiment, struct document *findings);

/* ---- For experiments ---- */

/* Writes WHY and returns -1. */
PRINTF_LIKE(2, 3)
int lab_fail(struct lab *lab, const char *format, ...);

/* Whether a signal has come: then nothing new is to be begun. Remembered in the lab. */
bool lab_is_interrupted(struct lab *lab);

/* Zeroed memory until the experiment's end, or NULL with WHY. */
void *lab_room(struct lab *lab, size_t count, size_t bytes);

/*
 * A private server until the experiment's end, with LAB_SMALL in its site; not started. Returns NULL
 * with WHY. lab_start() starts it with OPTIONS; lab_server() does both.
 */
struct private_server *lab_create_server(struct lab *lab);
int lab_start(struct lab *lab, struct private_server *server, const char *const *options);
struct private_server *lab_server(struct lab *lab, const char *const *options);

/* The bare server, whose answers are as long as LAB_SMALL, until the experiment's end; or NULL with WHY. */
const struct bare_server *lab_bare_server(struct lab *lab);

/* A control line. Returns 0, or -1 with WHY. */
int lab_command(struct lab *lab, const struct private_server *server, const char *line);

/* Says what is being done; for people. */
PRINTF_LIKE(2, 3)
void lab_progress(const struct lab *lab, const char *format, ...);

#endif
