/*
 * A control group with a memory limit, in the hierarchy of version 1 or 2 (cgroups(7)). Needs root and a
 * hierarchy that may be written.
 */
#ifndef TESTS_CONTROL_GROUP_H
#define TESTS_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct control_group {
    char directory[128];
    const char *limit, *used; /* names of its files */
};

/* Returns false if none can be made here. */
bool control_group_create(struct control_group *group);

/* Ends what still runs in it. */
void control_group_remove(const struct control_group *group);

/* Makes BYTES the limit; UINT64_MAX: none. */
void control_group_limit(const struct control_group *group, uint64_t bytes);

/* Memory in use, pages of files included. */
uint64_t control_group_used(const struct control_group *group);

/* Starts a process in it that holds BYTES of memory until it is killed. */
pid_t control_group_hold(const struct control_group *group, uint64_t bytes);

#endif
