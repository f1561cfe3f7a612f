/*
 * The logger process: writes the log rings of all threads to the access log, in large batches, and
 * the event ring to the error log. The rings are in shared memory, so the lines of a crashed worker
 * are written, too. Each batch is recorded in shared memory before it is written, so that a logger
 * that replaces a crashed one neither loses nor repeats lines. The master passes it the descriptors
 * of the logs; it can open nothing itself.
 */
#ifndef DAEMON_LOGGER_H
#define DAEMON_LOGGER_H

#include "common/segment.h"
#include "daemon/config/config.h"
#include "daemon/logger/salvage.h"

/* What the logger inherits from the master. All borrowed, except command_fd. */
struct logger_setup {
    const struct config *config;
    struct segment *segment;
    const struct salvage *salvage;
    const struct log_targets *targets;
    int doorbell;   /* eventfd: written when a ring is half full */
    int alive_fd;   /* read end of a pipe; ends when the master and all workers have ended */
    int command_fd; /* its end of the channel to the master */
    int lock_fd;    /* the lock of the pid file, held while any process of the daemon lives */
};

/*
 * Runs until the master sends MESSAGE_LOG_FINISH, or until the master and all workers have died.
 * Lines that cannot be written by then are counted and reported. Returns the exit status. The caller
 * has freed the master's event base.
 */
int logger_run(const struct logger_setup *setup);

#endif
