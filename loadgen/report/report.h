/*
 * The reports of runs: written in the formats of plan/formats.def; read back to be merged,
 * compared, or the base of conditions. Main thread.
 */
#ifndef LOADGEN_REPORT_REPORT_H
#define LOADGEN_REPORT_REPORT_H

#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Writes RESULT in the format of its plan. COLOUR allows emphasis by escape sequences in text.
 * Returns 0, or -1 with errno. Errors of OUT are left to the caller (ferror()).
 *
 * CSV follows RFC 4180, but lines end with LF: a line of column names; a row for each second, the
 * warm-up first; for a repeated run, a row for each round, one for the medians and two for the ends
 * of their 95 % confidence intervals; the total. Only the total has percentiles other than p50, p90
 * and p99. HdrHistogram is the form of outputPercentileDistribution (https://hdrhistogram.org), in
 * milliseconds, for its plotter and for readers of wrk2's reports.
 */
int report_write(FILE *out, const struct result *result, bool colour);

/*
 * Writes DOCUMENT in FORMAT (text or HTML) and frees it. DOCUMENT may be NULL: out of memory.
 * Returns as report_write().
 */
int report_write_document(FILE *out, struct document *document, enum plan_format format,
                          bool colour);

/* The report of a run for people: its facts, tables and plots. Returns NULL with ENOMEM. */
struct document *result_document(const struct result *result);

/*
 * Adds the facts which command PLAN was, and when, where and with what it ran; none if the command
 * is not known. BEGAN_NS: wall clock.
 */
void report_put_environment(struct document *document, const struct plan *plan, uint64_t began_ns);

/* ---- JSON reports that are read back ---- */

/* A result, with as much of its plan as reports and merging need. */
struct stored_result {
    struct plan plan;
    struct result result;
    char *method; /* owned, of PLAN */
};

/*
 * Merges the JSON reports in the files plan->urls, of runs that were made at the same time, such as
 * on several machines. Each must be the report of a single run or a merged one. The report of the
 * result has the settings of PLAN, such as its format, percentiles and conditions. Returns NULL
 * with WHY, which names the file and the member that is wrong; release with stored_result_free().
 */
struct stored_result *merge_reports(const struct plan *plan, char *why, size_t size);
void stored_result_free(struct stored_result *stored);

/* Reads the report of a run from FILE. Returns NULL with WHY; release with json_decref(). */
json_t *compare_read_one(const char *file, char *why, size_t size);

/*
 * Reads the report in FILES; several names, separated by commas, are runs of the same load, each of
 * which becomes a round. Returns NULL with WHY; release with json_decref().
 */
json_t *compare_read(const char *files, char *why, size_t size);

/*
 * Writes the differences between A and B as text, and whether they are significant: round by round
 * if both have rounds, else second by second. Returns whether B is significantly worse in a
 * measure.
 */
bool compare_write(FILE *out, const json_t *a, const json_t *b);

/*
 * Makes the limits of the relative conditions of PLAN, such as "p99>1.1x", absolute, from the JSON
 * report of an earlier run that it names (--baseline). Returns 0, or -1 with WHY, also if the
 * report lacks a number.
 */
int baseline_apply(struct plan *plan, char *why, size_t size);

#endif
