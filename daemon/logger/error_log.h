/*
 * The error log: writes the events of all processes, in order of time, to the log. The rings of the
 * workers may have any content: an event is one line, and a worker can log only so many. The logger.
 */
#ifndef DAEMON_LOGGER_ERROR_LOG_H
#define DAEMON_LOGGER_ERROR_LOG_H

#include "common/segment.h"
#include "daemon/logger/sink.h"

#include <stdbool.h>

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

/* Logs now how many events of each worker were not logged. error_log_drain() does it once per second. */
void error_log_report_suppressed(struct error_log *log);

#endif
