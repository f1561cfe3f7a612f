/*
 * The resources that a process and its descendants use, from /proc. CPU time is that of the
 * scheduler (schedstat); threads that have ended are left out. Any thread.
 */
#ifndef LOADGEN_LAB_USAGE_H
#define LOADGEN_LAB_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
    uint64_t cpu_ns;       /* user and system */
    uint64_t resident;     /* bytes; shared pages count once per process */
    uint64_t descriptors;  /* open files */
    bool descriptors_seen; /* of all processes; false: descriptors is incomplete */
    size_t processes;
};

/* Of PID and its descendants. Processes that end meanwhile are left out. */
struct usage usage_of(pid_t pid);

/* Only cpu_ns, which is cheaper. */
uint64_t usage_cpu_ns(pid_t pid);

#endif
