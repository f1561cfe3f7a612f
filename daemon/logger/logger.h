/*
 * The logger process: writes the log rings of all threads to the access log, in large batches, and the
 * event ring to the error log. The rings are in shared memory, so the lines of a crashed worker are
 * written, too. Each batch is recorded there before it is written, so a logger that replaces a crashed
 * one neither loses nor repeats lines.
 */
#ifndef DAEMON_LOGGER_H
#define DAEMON_LOGGER_H

#include "common/segment.h"
#include "daemon/config/config.h"

/* Borrowed, except command_fd. */
struct logger_setup {
    const struct config *config;
    struct segment *segment;
    int doorbell;   /* eventfd: written when a ring is half full */
    int command_fd; /* one byte: write what is left and exit; end of file: the master has died */
};

/* Runs until the master sends the byte, or has died and no more lines come. Returns the exit status. */
int logger_run(const struct logger_setup *setup);

#endif
