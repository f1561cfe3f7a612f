/* What /proc says of a process. Any thread. */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * When PID was started, in clock ticks since the machine's start (field 22 of /proc/PID/stat): with
 * the pid it names a process for good. 0 when that can't be read.
 */
uint64_t process_start_ticks(pid_t pid);

#endif
