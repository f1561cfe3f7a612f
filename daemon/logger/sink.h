/*
 * Writes log lines to a target (daemon/config/log_target.h) that the master has opened: a file,
 * syslog or journald. The logger.
 */
#ifndef DAEMON_LOG_SINK_H
#define DAEMON_LOG_SINK_H

#include "common/tables.h"
#include "daemon/base/messages.h"
#include "daemon/config/config.h"
#include "daemon/config/log_target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Informs the owner of a log that its receiver has gone: the sink is not written to any more. */
struct log_owner {
    void (*lost)(void *context, uint32_t log); /* its number (log_files.h) */
    void *context;
};

struct log_sink {
    enum log_target_kind kind;
    int fd;                     /* -1: not open */
    bool regular, pipe, socket; /* what FD is, if one of these */
    bool lost;        /* its receiver has gone; it stays open, for what a pipe still holds */
    int facility;     /* of syslog */
    const char *name; /* of the instance, for journald; borrowed */
};

/*
 * A sink for the target TEXT, which is valid, on FD, which it owns; -1: not open. NAME is the
 * instance's.
 */
struct log_sink log_sink_make(const char *text, int fd, const char *name);

/* Closes FD. The sink stays of its kind. */
void log_sink_close(struct log_sink *sink);

/* True if it can be written to. */
bool log_sink_is_open(const struct log_sink *sink);

/*
 * Writes whole lines, each with its newline. Returns the number of bytes written: LENGTH, or fewer
 * with errno. After an error a file may end with a partial line; a datagram socket has received
 * whole lines only. Except for a regular file it never blocks: errno is then EAGAIN. If LENGTH is at
 * most PIPE_BUF, a pipe takes all bytes or none.
 */
size_t log_sink_write(struct log_sink *sink, enum level level, const char *lines, size_t length);

/*
 * After a failed write: true if it can be repeated now. Waits for room, but not beyond UNTIL_NS
 * (monotonic clock). Otherwise errno tells why: EAGAIN if there was no room.
 */
bool log_sink_wait(int fd, uint64_t until_ns);

#endif
