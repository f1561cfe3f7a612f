/*
 * Events of all processes for the error log and the consoles: warnings, errors and state changes.
 * They go into the event ring of the process, from which the logger writes the error log. Before
 * the segment exists and after the logger has exited they go to standard error. A failed assertion
 * is an event, too.
 */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "common/macros.h"
#include "common/segment.h"

#include <stdbool.h>

/* The role of this process in its events; each process sets it once after its fork. */
void events_set_role(enum role role);

/* Sends events to ring RING of SEGMENT (borrowed), or with NULL to standard error. */
void events_attach(const struct segment *segment, uint32_t ring);

/* Also writes errors to standard error: for the master while no logger runs. */
void events_echo(bool echo);

/* Lines for files and standard streams are JSON objects. */
void events_set_json(bool json);

/* The lowest level to log before events_attach(); the segment has its own level. */
void events_set_level(enum level level);

enum { EVENT_LOG_MAX = 1600 }; /* bytes of a text with its NUL */

/*
 * Any thread of any process. A text of EVENT_TEXT_BYTES or more becomes several events; each after the
 * first begins with "... ".
 */
void event_log(enum level level, const char *format, ...) PRINTF_LIKE(2, 3);

enum { EVENT_LINE_MAX = 6 * EVENT_TEXT_BYTES + 160 }; /* size of a line with every byte escaped */

/*
 * Lines of an event, which another process may have forged: the text is escaped (escape_text()), so
 * there is always one line.
 */

/*
 * Reads JOURNAL_STREAM: where a service manager passes a stream to the journal, which takes the
 * priority of a line from "<3>" at its begin (sd-daemon(3)). Call it once, before sandbox_enter()
 * overwrites the environment.
 */
void events_find_journal(void);

/*
 * The new master of an upgrade also writes errors to the file that this variable names by its
 * descriptor, so that the old one can report them. Until events_end_report() or, in a child,
 * events_set_role().
 */
#define EVENTS_REPORT_VARIABLE "WEBSERVERD_UPGRADE_REPORT"
void events_begin_report(void);
void events_report(const char *text, size_t length);
void events_end_report(void);

/* "<3>" or similar if FD is that stream, else "". Any LEVEL. */
const char *event_priority(int fd, enum level level);

/* "worker 123: text\n", for targets that add time and level themselves (syslog, journald). */
size_t event_line_short(const struct event_record *event, char *line, size_t size);

/*
 * One of them, as FD needs it: the stream of the journal gets the short one after its priority. With
 * events_set_json() {"time":"2026-11-21T06:18:30.123Z","level":"warn","process":"worker","pid":123,
 * "message":"text"}.
 */
size_t event_line_to(int fd, const struct event_record *event, char *line, size_t size);

#endif
