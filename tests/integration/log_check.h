/* Checks on the access log: number and form of its lines. */
#ifndef TESTS_LOG_CHECK_H
#define TESTS_LOG_CHECK_H

#include "server.h"

#include <stdint.h>

#define LOG_LINE_START "^127\\.0\\.0\\.1 - - "
#define LOG_LINE_TIME                                                                              \
    "\\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}\\] "

/* Number of lines in the file. */
uint64_t log_count_lines(const struct server *server);

/* Waits until the file has at least LINES lines. Returns its text; the caller must free it. */
char *log_with_lines(const struct server *server, uint64_t lines);

/*
 * Fails the test unless TEXT is COUNT complete lines that match the extended regular expression
 * PATTERN.
 */
void log_check_lines(const char *text, uint64_t count, const char *pattern);

/*
 * After a load (load.h): the file has exactly one line for each of the RESPONSES, each in the
 * expected form, and the counters agree.
 */
void log_check_load(const struct server *server, const char *target, size_t body_length,
                    uint64_t responses);

#endif
