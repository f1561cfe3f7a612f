/* Starting another program: a process with a clean signal state and chosen descriptors. The age of one. */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * fork(). In the child no signal is blocked and SIGPIPE has its default action; it receives SIGTERM
 * when this process ends.
 */
pid_t process_fork(void);

/*
 * How long process PID has run, which started at STARTED_NS (wall clock): if the clock was set back
 * by more than 10 s since, by its own start in /proc; 0 if that is unknown.
 */
uint64_t process_age_ns(pid_t pid, uint64_t started_ns);

/*
 * Writes the path of the program NAME, relative to the directory of the running program. Returns
 * false if there is no such program, or its path is too long.
 */
bool process_find_beside(const char *name, char *path, size_t size);

/*
 * Executes PROGRAM, searched for in PATH if it has no slash. FDS become the descriptors 0, 1, ...;
 * a negative one is /dev/null. On failure writes why to standard error and exits with
 * PROCESS_NOT_STARTED. Makes only async-signal-safe calls.
 */
enum { PROCESS_NOT_STARTED = 127, PROCESS_FDS_MAX = 4 };
_Noreturn void process_exec(const char *program, const char *const *argv, const int *fds,
                            int fd_count);

#endif
