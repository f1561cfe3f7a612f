/*
 * The logger process: writes the log rings of all threads to the access log, in large batches, and
 * the event ring to the error log. The rings are in shared memory, so the lines of a crashed worker
 * are written, too. Each batch is recorded in shared memory before it is written, so that a logger
 * that replaces a crashed one neither loses nor repeats lines.
 */
#ifndef DAEMON_LOGGER_H
#define DAEMON_LOGGER_H

#include "common/segment.h"
#include "daemon/base/backoff.h"
#include "daemon/config/config.h"

#include <sys/types.h>

/* Borrowed, except command_fd. */
struct logger_setup {
    const struct config *config;
    struct segment *segment;
    int doorbell;   /* eventfd: written when a ring is half full */
    int command_fd; /* one byte: write all lines and exit; end of file: the master has died */
};

/* The process as the master sees it. It is restarted until the shutdown. The master. */
struct logger_process {
    pid_t pid;           /* 0: none */
    int fd;              /* the master's end of its socketpair; -1: none */
    uint64_t started_ns; /* monotonic clock */
    struct backoff backoff;
    bool stopped;    /* stopped for good: it is not started again */
    bool restarting; /* it was sent the stop byte; a new logger follows immediately */
};

/*
 * Forks the logger unless it runs, is stopped for good, or waits for its back-off. The child calls
 * AFTER_FORK(CONTEXT), which frees the master's resources, and does not return. Sets SETUP's
 * command_fd.
 */
void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context);

/* Call when the process has ended; HOW describes the end. */
void logger_process_ended(struct logger_process *process, struct segment *segment, const char *how);

/* Makes the logger write all lines and exit; a new one follows. */
void logger_process_restart(struct logger_process *process);

/* Makes the logger write all lines and exit for good. */
void logger_process_stop(struct logger_process *process);

#endif
