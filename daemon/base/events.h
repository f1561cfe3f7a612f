/*
 * What happened, for the error log and the consoles: warnings, errors and changes of all processes.
 * An event goes into the segment's event ring; the logger writes the error log from there. Before
 * the ring is there, and after the logger has ended, events go straight to standard error.
 */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "common/macros.h"
#include "common/segment.h"

/* Whose events these are from now on; every process says so once, after its fork. */
void events_set_role(enum role role);

/* Sends events to SEGMENT's ring (borrowed), or to standard error again (NULL). */
void events_attach(struct segment *segment);

/* The least level that is kept while there is no segment to say so. */
void events_set_level(enum level level);

/* Any thread of any process. */
void event_log(enum level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* "2026/11/21 06:18:30 [warn] worker 123: text\n"; returns the length. */
size_t event_line(const struct event_record *event, char *line, size_t size);

/* "worker 123: text\n", for logs that have a time and a level of their own. */
size_t event_line_short(const struct event_record *event, char *line, size_t size);

#endif
