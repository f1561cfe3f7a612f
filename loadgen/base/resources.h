/* Resources of this machine: the limit on open files, and CPU time. Any thread, unless noted. */
#ifndef LOADGEN_RESOURCES_H
#define LOADGEN_RESOURCES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Raises the limit on open files (RLIMIT_NOFILE) to the hard limit and checks that CONNECTIONS in
 * THREADS threads fit. Returns 0, or -1 with WHY. Main thread.
 */
int resources_reserve_descriptors(uint32_t connections, uint32_t threads, char *why, size_t size);

/* The number of cores that this process may use, at least 1. */
uint32_t resources_cores(void);

/* CPU time of PID and all its threads, user and system, in ns; 0 if the process is gone. */
uint64_t resources_process_cpu_ns(pid_t pid);

/* How long the calling thread was ready to run but waited for a core, in ns; 0 if unknown. */
uint64_t resources_thread_wait_ns(void);

/* CPU time of all cores of this machine since boot, in clock ticks; both 0 if unknown. */
struct machine_cpu {
    uint64_t busy, all;
};
struct machine_cpu resources_machine_cpu(void);

/* The busy part of all cores since THEN, 0 to 1; NAN if less than 20 ticks have passed. */
double resources_machine_busy(struct machine_cpu then);

#endif
