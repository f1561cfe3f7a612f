/*
 * What a process and all its descendants use of the machine, by /proc. Processor time is that of the
 * scheduler's own accounts (schedstat), in ns, of threads that live: what one used that has ended
 * since is left out. Any thread.
 */
#ifndef LOADGEN_LAB_USAGE_H
#define LOADGEN_LAB_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
    uint64_t cpu_ns;       /* on a core, user and system */
    uint64_t resident;     /* bytes; pages that processes share count in each of them */
    uint64_t descriptors;  /* open files */
    bool descriptors_seen; /* of all processes; else the number says nothing */
    size_t processes;
};

/* Of PID and its descendants. Those that end meanwhile are left out. */
struct usage usage_of(pid_t pid);

/* Only the processor time of it: cheaper. */
uint64_t usage_cpu_ns(pid_t pid);

#endif
