/* Which instances run on this machine, by their shared memory. Any thread. */
#ifndef CONSOLE_INSTANCES_H
#define CONSOLE_INSTANCES_H

#include "common/instance.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { INSTANCES_MAX = 64 };

struct instance {
    char name[INSTANCE_NAME_MAX + 1];
    char listening[256];
    int32_t pid;
    uint64_t started_ns; /* wall clock */
};

/* Fills LIST with those that run, by name; INSTANCES_MAX at most. Returns how many. */
size_t instances_find(struct instance *list);

/* One line each, or one that says that none runs. */
void instances_print(FILE *out);

#endif
