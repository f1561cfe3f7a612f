/*
 * Writes log lines to a target (daemon/config/log_target.h): a file, syslog or journald. One
 * thread: the logger's, and the master's before it forks the logger.
 */
#ifndef DAEMON_LOG_SINK_H
#define DAEMON_LOG_SINK_H

#include "common/tables.h"
#include "daemon/config/config.h"
#include "daemon/config/log_target.h"

#include <stddef.h>

struct log_sink {
    enum log_target_kind kind;
    int fd;           /* -1: not open */
    int facility;     /* of syslog */
    const char *name; /* of the instance, for journald; borrowed */
};

/*
 * Opens the target TEXT; "-" duplicates FALLBACK. NAME is the instance's. Returns 0, or -1 with
 * errno and a sink that is not open. A sink of the target "off" discards all lines.
 */
int log_sink_open(struct log_sink *sink, const char *text, int fallback, const char *name);
void log_sink_close(struct log_sink *sink);

/*
 * Writes whole lines, each with its newline. Returns the number of bytes written: LENGTH, or fewer
 * with errno. After an error a file may end with a partial line; a socket has received whole lines
 * only. Blocks while a pipe or socket is full.
 */
size_t log_sink_write(struct log_sink *sink, enum level level, const char *lines, size_t length);

/*
 * Opens and closes both logs of CONFIG, so that the start or the reload fails if a log cannot be
 * opened. Returns 0, or -1 with WHY. The master.
 */
int log_sink_check(const struct config *config, char *why, size_t size);

#endif
