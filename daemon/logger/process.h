/* The logger as the master sees it: one process that is always wanted until the end. */
#ifndef DAEMON_LOGGER_PROCESS_H
#define DAEMON_LOGGER_PROCESS_H

#include "daemon/base/backoff.h"
#include "daemon/logger/logger.h"

#include <sys/types.h>

struct logger_process {
    pid_t pid; /* 0: none */
    int fd;    /* our end of its socketpair; -1: none */
    uint64_t started_ns;
    struct backoff backoff;
    bool unwanted;
    bool restarting; /* it was told to end, and another follows at once */
};

/*
 * Forks it if it is wanted, absent and its back-off is over. In the child CHILD(CONTEXT) frees what
 * is the master's, and the function does not return. SETUP's command_fd is filled in here.
 */
void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*child)(void *context), void *context);

/* It has ended, HOW in words. */
void logger_process_ended(struct logger_process *process, struct segment *segment, const char *how);

/* Tells it to write all it has and end, so that another follows. */
void logger_process_restart(struct logger_process *process);

/* Tells it to write all it has and end; none follows. */
void logger_process_stop(struct logger_process *process);

#endif
