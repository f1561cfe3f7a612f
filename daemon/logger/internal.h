/* The parts of the logger process: where lines are written, the two logs, and its entry point. */
#ifndef DAEMON_LOGGER_INTERNAL_H
#define DAEMON_LOGGER_INTERNAL_H

#include "common/log_record.h"
#include "common/segment.h"
#include "common/tables.h"
#include "daemon/config/value.h"
#include "daemon/logger/log_files.h"
#include "daemon/logger/process.h"
#include "daemon/logger/salvage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- sink.c --- */

/*
 * Writes log lines to a target (daemon/config/value.h) that the master has opened: a file,
 * syslog or journald. The logger.
 */

/* Informs the owner of a log that its receiver has gone: the sink is not written to any more. */
struct log_owner {
    void (*lost)(void *context, uint32_t log); /* its number (log_files.h) */
    void *context;
};

struct log_sink {
    enum log_target_kind kind;
    int fd;                     /* -1: not open */
    bool regular, pipe, socket; /* what FD is, if one of these */
    bool lost; /* its receiver has gone; it stays open, for what a pipe still holds */
    int syslog_facility;
    const char *instance; /* its name, for journald; borrowed */
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
 * whole lines only. Except for a regular file it never blocks: errno is then EAGAIN. If LENGTH is
 * at most PIPE_BUF, a pipe takes all bytes or none.
 */
size_t log_sink_write(struct log_sink *sink, enum level level, const char *lines, size_t length);

/*
 * After a failed write: true if it can be repeated now. Waits for room, but not beyond UNTIL_NS
 * (monotonic clock). Otherwise errno tells why: EAGAIN if there was no room.
 */
bool log_sink_wait(int fd, uint64_t until_ns);

/* --- access_log.c --- */

/*
 * The access log: writes the records of all log rings to the log, in batches. Each batch is noted
 * in struct segment_logger before it is written, with the size of its file, and the rings keep its
 * records until it is. So the logger that replaces a dead one neither loses nor repeats lines of a
 * file; of a pipe or socket it may repeat one batch, of at most PIPE_BUF bytes. A target that takes
 * nothing holds up neither the logger nor the other log: the batch waits. The rings belong to the
 * workers: any content is safe, and a worker that logs faster than this process writes does not
 * hold up the others.
 *
 * A batch is for one target (log_files.h). If the file of a host takes no lines, they are counted
 * as lost, so that it does not hold up the other hosts. The logger.
 */

enum { LOG_BATCH_BYTES = 512 * 1024 };

struct access_log;

/* All borrowed. */
struct access_log_setup {
    const struct segment *segment;
    const struct salvage *salvage; /* its lines come first */
    const struct log_targets *targets;
    const struct log_owner *owner;
    enum log_format format;
    uint32_t sample; /* [log] sample; 0 is as 1 */
};

/* The log has no sinks yet. NULL: out of memory. */
struct access_log *access_log_new(const struct access_log_setup *setup);
void access_log_free(struct access_log *log);

/*
 * Continues TARGET in *SINK, which it owns, after a start or a rotation. No line is lost, because
 * lines stay in the rings until they are written. Also ends the batch that another logger left.
 * Nothing is written before target 0 has a sink, which therefore comes last at the start.
 */
void access_log_use(struct access_log *log, uint32_t target, const struct log_sink *sink);

enum access_log_state {
    ACCESS_LOG_IDLE,    /* there were no lines */
    ACCESS_LOG_WRITTEN, /* there were lines, and all could be written */
    ACCESS_LOG_BLOCKED, /* lines are left: the log takes no more now */
};

/* Writes what the rings hold. Ends soon, even if the log has no room. */
enum access_log_state access_log_drain(struct access_log *log);

/* Why the log takes no lines, for a message. */
const char *access_log_fault(const struct access_log *log);

/* Before the exit: counts the lines of an unfinished batch that the log has as written. */
void access_log_finish(struct access_log *log);

/*
 * Number of lines in the rings of SEGMENT and SALVAGE that are not written, those of an unfinished
 * batch included. While no worker runs, and in the logger or while none runs.
 */
uint64_t access_log_unwritten(const struct segment *segment, const struct salvage *salvage);

/* --- error_log.c --- */

/*
 * The error log: writes the events of all processes, in order of time, to the log. The rings of the
 * workers may have any content: an event is one line, and a worker can log only so many. The
 * logger.
 */

struct error_log;

/* SEGMENT and OWNER are borrowed. The log has no sink yet. NULL: out of memory. */
struct error_log *error_log_new(const struct segment *segment, const struct log_owner *owner);
void error_log_free(struct error_log *log);

/* Continues in *SINK, which it owns. */
void error_log_use(struct error_log *log, const struct log_sink *sink);

/*
 * Writes the new events. Those for which the log has no room now stay in the rings. Returns true if
 * none is left.
 */
bool error_log_drain(struct error_log *log);

/*
 * Logs now how many events of each worker were not logged. error_log_drain() does it once per
 * second.
 */
void error_log_report_suppressed(struct error_log *log);

/* --- logger.c --- */

/*
 * The logger process: writes the log rings of all threads to the access log, in large batches, and
 * the event ring to the error log. The rings are in shared memory, so the lines of a crashed worker
 * are written, too. Each batch is recorded in shared memory before it is written, so that a logger
 * that replaces a crashed one neither loses nor repeats lines. The master passes it the descriptors
 * of the logs; it can open nothing itself.
 */

/*
 * Runs with ARGUMENT, a struct logger_setup, until the master sends MESSAGE_LOG_FINISH, or until the
 * master and all workers have died. Lines that cannot be written by then are counted and reported.
 * Returns the exit status. The caller has freed the master's event base.
 */
int logger_run(void *argument);

#endif
