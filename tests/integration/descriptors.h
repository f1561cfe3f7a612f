/* The file descriptors of workers. Errors fail the running test. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include "server.h"

#include <sys/resource.h>

/* Number of open descriptors of process PID, which runs as the user of the test. */
rlim_t descriptors_open(pid_t pid);

/*
 * Opens connections until each serving thread of SERVER has answered a request for TARGET: then all
 * have their listening sockets. Closes them, and returns when the COUNT workers in PIDS have no file
 * of the site open.
 */
void descriptors_settle(const struct server *server, const char *target, const pid_t *pids,
                        size_t count);

#endif
