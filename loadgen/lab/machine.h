/* The machine that an experiment runs on, for the reports. Main thread. */
#ifndef LOADGEN_LAB_MACHINE_H
#define LOADGEN_LAB_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { MACHINE_FACTS = 12, MACHINE_LABEL = 16, MACHINE_TEXT = 160 };

struct machine_fact {
    char label[MACHINE_LABEL], text[MACHINE_TEXT];
    bool changes; /* between two starts on the same machine */
};

struct machine {
    struct machine_fact fact[MACHINE_FACTS];
    size_t count;
};

/* Ignored if MACHINE is full. */
void machine_add(struct machine *machine, const char *label, const char *text, bool changes);

/* Facts that are unknown are left out. SERVER is the version of webserverd. */
void machine_describe(struct machine *machine, const char *server);

#endif
