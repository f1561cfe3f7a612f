/*
 * The processes of an instance, recorded in its lock file: each adds itself before it handles
 * anything from outside. The next start ends those that a dead master has left behind. A process is
 * identified by boot, pid and start time, so another one with a reused pid is never meant.
 */
#ifndef DAEMON_PROCESS_RECORD_H
#define DAEMON_PROCESS_RECORD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Adds this process to the record FD, and removes those that have ended, unless another process
 * holds the record for longer than 0.1 s. Errors are ignored.
 */
void process_record_add(int fd);

/* True if process PID, or with 0 any one, is in the record FD and has not ended. */
bool process_record_lives(int fd, pid_t pid);

/*
 * Ends all other processes in the record FD: stopped ones at once, those that run if they do not
 * exit within WAIT_MS. Logs those that it kills.
 */
void process_record_end_all(int fd, int wait_ms);

#endif
