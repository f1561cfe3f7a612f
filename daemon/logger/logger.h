/*
 * The logger process: drains every thread's log ring into the access log, in big writes, and the
 * event ring into the error log. Because the rings lie in shared memory, the lines of a worker that
 * crashed get written too; and because it notes each batch before it writes it, so do those of a
 * logger that crashed, neither lost nor twice.
 */
#ifndef DAEMON_LOGGER_H
#define DAEMON_LOGGER_H

#include "common/segment.h"
#include "daemon/config/config.h"

/* What a fork leaves to the child. Borrowed, but for the descriptors. */
struct logger_setup {
    const struct config *config;
    struct segment *segment;
    int doorbell;   /* eventfd: a ring is half full */
    int command_fd; /* a byte: finish and end. End of file: the master is gone */
};

/* Runs until told to stop, or until the master is gone and nothing more comes. Returns the exit
 * status. */
int logger_run(const struct logger_setup *setup);

#endif
