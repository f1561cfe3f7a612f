/*
 * What a report for people says, in words, apart from how it is laid out: the text, the Markdown and
 * the HTML report say the same. Main thread.
 */
#ifndef LOADGEN_REPORT_FACTS_H
#define LOADGEN_REPORT_FACTS_H

#include "loadgen/base/format.h"
#include "loadgen/stats/result.h"

enum { REPORT_FACTS_MAX = 8, REPORT_FACT_TEXT = 256, REPORT_TIMES_MAX = 4, REPORT_NUMBER = 32 };

struct report_fact {
    const char *label;
    char text[REPORT_FACT_TEXT];
    bool main; /* the one number of the run */
};

struct report_times {
    const char *label;
    const struct histogram *times; /* not empty */
};

/* "100 connections kept alive, 2 threads, engine curl, 2.00 s" */
char *report_setting(char *buffer, size_t size, const struct result *result);

/* Returns how many of FACTS were filled, at most REPORT_FACTS_MAX. */
size_t report_facts(const struct result *result, struct report_fact *facts);

/* The times that were measured. Returns how many of ROWS were filled, at most REPORT_TIMES_MAX. */
size_t report_times(const struct result *result, struct report_times *rows);

/* The percentile as "1.23 ms", or DASH where no value lies beyond it. */
char *report_percentile(char *buffer, size_t size, const struct histogram *times, double percent,
                        const char *dash);

/* A measure over the rounds of a repeated run: median, ends of its interval, half the interval. */
enum { REPORT_ROUND_COLUMNS = 5, REPORT_ROUND_ROWS = 9 };
extern const char *const report_round_heads[REPORT_ROUND_COLUMNS];

struct report_round {
    const char *label;
    char cell[REPORT_ROUND_COLUMNS - 1][MEASURE_TEXT];
};

/* Returns how many of ROWS were filled, at most REPORT_ROUND_ROWS; 0: it was not repeated. */
size_t report_rounds(const struct result *result, struct report_round *rows);

#endif
