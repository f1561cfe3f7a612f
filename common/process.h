/* Starting another program: a process with a clean signal state and chosen descriptors. */
#ifndef COMMON_PROCESS_H
#define COMMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * fork(). In the child no signal is blocked and SIGPIPE has its default action; it receives SIGTERM
 * when this process ends.
 */
pid_t process_fork(void);

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
