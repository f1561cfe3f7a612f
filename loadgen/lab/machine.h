/* The machine that an experiment ran on, in words: numbers mean nothing without it. Main thread. */
#ifndef LOADGEN_LAB_MACHINE_H
#define LOADGEN_LAB_MACHINE_H

#include <stddef.h>

enum { MACHINE_FACTS = 12, MACHINE_TEXT = 160 };

struct machine_fact {
    const char *label;
    char text[MACHINE_TEXT];
};

struct machine {
    struct machine_fact fact[MACHINE_FACTS];
    size_t count;
};

/* What can be known is written; the rest is left out. SERVER is the version of the server. */
void machine_describe(struct machine *machine, const char *server);

#endif
