/* Processor time of other processes and of the machine. Any thread. */
#ifndef LOADGEN_PROCESSOR_TIME_H
#define LOADGEN_PROCESSOR_TIME_H

#include <stdint.h>
#include <sys/types.h>

/* What PID has used so far, all its threads, user and system, in ns; 0 when it is gone. */
uint64_t processor_time_of(pid_t pid);

/*
 * How long the calling thread was ready to run so far while others had the cores, in ns; 0 where the
 * kernel does not tell.
 */
uint64_t processor_wait_of_thread(void);

/* All cores of this machine since its start, in clock ticks; both 0 when that is not known. */
struct processor_time {
    uint64_t busy, all;
};
struct processor_time processor_time_of_machine(void);

/* The part of all cores that was busy since THEN, 0 to 1; NAN when too little time passed to say. */
double processor_time_busy(struct processor_time then);

#endif
