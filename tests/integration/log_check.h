/* Whether the access log is what it should be: its lines counted, and their form. */
#ifndef TESTS_LOG_CHECK_H
#define TESTS_LOG_CHECK_H

#include "server.h"

#include <stdint.h>

#define LOG_LINE_START "^127\\.0\\.0\\.1 - - "
#define LOG_LINE_TIME                                                                              \
    "\\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}\\] "

/* Lines in the file now. */
uint64_t log_count_lines(const struct server *server);

/* Waits until the file has at least LINES, and returns its text. The caller frees. */
char *log_with_lines(const struct server *server, uint64_t lines);

/* Fails the test unless TEXT is COUNT whole lines, each matching the extended expression PATTERN. */
void log_check_lines(const char *text, uint64_t count, const char *pattern);

/*
 * After a load (load.h): the file has a line for each of its ANSWERS and none else, all of them of
 * the form that its request makes, and the counters say the same.
 */
void log_check_load(const struct server *server, const char *target, size_t body_length,
                    uint64_t answers);

#endif
