/*
 * The resources that a process and its descendants use, from /proc. CPU time is the scheduler's
 * (/proc/PID/task/TID/schedstat); threads that have exited are not included. Any thread.
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
    uint64_t anonymous;    /* of it, without shared memory and files; grows with a leak */
    uint64_t descriptors;  /* open files */
    bool descriptors_seen; /* could be read for all processes; false: descriptors is incomplete */
    size_t processes;
};

/* The usage of PID and its descendants. Processes that exit meanwhile are not included. */
struct usage usage_of(pid_t pid);

/* usage_of().cpu_ns alone, which is cheaper to read. */
uint64_t usage_cpu_ns(pid_t pid);

/* The context switches of PID and its descendants so far, voluntary or not. */
uint64_t usage_switches(pid_t pid);

#endif
