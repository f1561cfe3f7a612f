/*
 * Compares two reports of --format json: round by round if both have rounds, else second by second.
 * Main thread.
 */
#ifndef LOADGEN_REPORT_COMPARE_H
#define LOADGEN_REPORT_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Reads the report of a run from FILE. Returns NULL with WHY; the caller frees it with json_decref(). */
json_t *compare_read_one(const char *file, char *why, size_t size);

/*
 * Reads the report in FILES; several names, separated by commas, are runs of the same load, each of
 * which becomes a round. Returns NULL with WHY; the caller releases the report with json_decref().
 */
json_t *compare_read(const char *files, char *why, size_t size);

/*
 * Writes the differences between A and B as text, and whether they are significant. Returns whether
 * B is significantly worse in a measure.
 */
bool compare_write(FILE *out, const json_t *a, const json_t *b);

#endif
