/*
 * The access log: writes the records of all log rings to the log, in batches. Each batch is noted in
 * struct segment_logger before it is written, with the size of its file, and the rings keep its records
 * until it is. So the logger that replaces a dead one neither loses nor repeats lines of a file; of a pipe
 * or socket it may repeat one batch, of at most PIPE_BUF bytes. A target that takes nothing holds up
 * neither the logger nor the other log: the batch waits. The rings belong to the workers: any content is
 * safe, and a worker that logs faster than this process writes does not hold up the others.
 *
 * A batch is for one target (targets.h). If the file of a host takes no lines, they are counted as lost,
 * so that it does not hold up the other hosts. The logger.
 */
#ifndef DAEMON_LOGGER_ACCESS_LOG_H
#define DAEMON_LOGGER_ACCESS_LOG_H

#include "common/log_record.h"
#include "common/segment.h"
#include "daemon/logger/salvage.h"
#include "daemon/logger/sink.h"
#include "daemon/logger/targets.h"

#include <stdbool.h>

enum { LOG_BATCH_BYTES = 512 * 1024 };

struct access_log;

/* All borrowed. */
struct access_log_setup {
    const struct segment *segment;
    const struct salvage *salvage; /* its lines come first */
    const struct log_targets *targets;
    const struct log_owner *owner;
    enum log_format format;
};

/* The log has no sinks yet. NULL: out of memory. */
struct access_log *access_log_new(const struct access_log_setup *setup);
void access_log_free(struct access_log *log);

/*
 * Continues TARGET in *SINK, which it owns, after a start or a rotation. No line is lost, because lines
 * stay in the rings until they are written. Also ends the batch that another logger left.
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
 * Number of lines in the rings of SEGMENT and SALVAGE that are not written, those of an unfinished batch
 * included. While no worker runs, and in the logger or while none runs.
 */
uint64_t access_log_unwritten(const struct segment *segment, const struct salvage *salvage);

#endif
