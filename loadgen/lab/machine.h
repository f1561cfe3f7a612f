/* The machine that an experiment runs on, for the reports. Main thread. */
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

/* Facts that are unknown are left out. SERVER is the version of webserverd. */
void machine_describe(struct machine *machine, const char *server);

#endif
