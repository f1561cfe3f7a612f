/*
 * The report of a run as JSON (wsload.schema.json), and the parts that the report of a sweep has,
 * too. Main thread.
 */
#ifndef LOADGEN_REPORT_JSON_H
#define LOADGEN_REPORT_JSON_H

#include "loadgen/stats/result.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Version of wsload.schema.json, the member "schema" of each report. It increases when a member is
 * removed or changes its meaning, type or unit; not for a new member.
 */
enum { REPORT_SCHEMA = 1 };

/* Returns 0, or -1 if out of memory or OUT fails. */
int result_write_json(FILE *out, const struct result *result);

/*
 * Writes OBJECT with jansson's FLAGS and a newline, safe for a terminal (escape_json_text()), and
 * releases it. Returns 0, or -1 if out of memory or OUT fails.
 */
int json_write(FILE *out, json_t *object, size_t flags);

/* TEXT, of any bytes, as a string (escape_text()). */
json_t *text_json(const char *text);

json_t *integer_json(uint64_t number);

/* Null for NAN and INFINITY, which JSON lacks. */
json_t *number_json(double value);

/* The command line of PLAN, and the machine and the libraries of this process. */
json_t *environment_json(const struct plan *plan);

/* A member for each measure. */
json_t *measures_json(const struct measures *measures);

/* median, low and high */
json_t *interval_json(const struct interval *interval);

#endif
