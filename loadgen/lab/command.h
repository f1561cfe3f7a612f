/* The command line of `wsload lab`, and the list of its experiments. Main thread. */
#ifndef LOADGEN_LAB_COMMAND_H
#define LOADGEN_LAB_COMMAND_H

#include "loadgen/lab/lab.h"

#include <stdio.h>

enum { LAB_CHOSEN_MAX = 64 };

/* All experiments, in the order of experiments.def. */
extern const struct experiment lab_experiments[];
extern const size_t lab_experiment_count;

/* Returns NULL for an unknown name. */
const struct experiment *lab_find(const char *name);

/* A command line. */
struct lab_options {
    const char *directory; /* of the pages */
    const char *program;   /* NULL: searches for webserverd */
    bool quick, quiet, resume, help;
    uint32_t rounds;      /* 0: the default */
    uint64_t duration_ms; /* 0: the default */
    uint64_t until_ms;    /* for added rounds in an experiment; 0: none are added */
    uint64_t rate;        /* 0: the default */
    const struct experiment *chosen[LAB_CHOSEN_MAX];
    size_t count; /* 0: list the experiments */
};

/* ARGV[0] is ignored. Returns 0, or -1 with WHY. Pure. */
int lab_options_parse(struct lab_options *options, int argc, char *const *argv, char *why,
                      size_t size);

void lab_help(FILE *out);

#endif
