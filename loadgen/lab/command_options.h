/* The command line of `wsload lab`: words in, orders out, or a sentence that says what is wrong. */
#ifndef LOADGEN_LAB_COMMAND_OPTIONS_H
#define LOADGEN_LAB_COMMAND_OPTIONS_H

#include "loadgen/lab/lab.h"

#include <stdio.h>

enum { LAB_CHOSEN_MAX = 64 };

struct lab_orders {
    const char *folder; /* of the pages */
    const char *program;
    bool quick, quiet, help;
    uint32_t rounds;      /* 0: as quick says */
    uint64_t duration_ms; /* the same */
    const struct experiment *chosen[LAB_CHOSEN_MAX];
    size_t count; /* 0: the list is wanted */
};

/* Returns 0, or -1 with WHY. Pure. */
int lab_orders_read(struct lab_orders *orders, int argc, char *const *argv, char *why, size_t size);

void lab_help(FILE *out);

#endif
