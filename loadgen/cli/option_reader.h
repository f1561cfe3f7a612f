/* Reads the arguments of a command line; parses values that several options share. Pure. */
#ifndef LOADGEN_OPTION_READER_H
#define LOADGEN_OPTION_READER_H

#include "common/macros.h"

#include "loadgen/plan/plan.h"

enum options_result {
    OPTIONS_RUN,     /* the plan is complete */
    OPTIONS_HELP,    /* --help */
    OPTIONS_VERSION, /* --version */
    OPTIONS_WRONG,   /* invalid: see WHY */
};

struct option_reader {
    int argc, next; /* next: index of the next argument */
    char *const *argv;
    struct plan *plan;
    enum options_result result;
    char *why; /* the first error */
    size_t size;
};

/* An option as written, "-c" or "--connections", and its value. */
struct option_value {
    const char *spelling;
    const char *text; /* NULL: a switch */
};

/* The maximum of all times: 15 days, the range of libcurl's 32-bit milliseconds. */
enum { OPTION_TIME_MAX_MS = PLAN_TIME_MAX_MS };

/* Sets the error. Returns false. */
PRINTF_LIKE(2, 3) bool option_fail(struct option_reader *reader, const char *format, ...);

/* Each parses VALUE into *out. Returns false with the error set. */
bool option_read_time(struct option_reader *reader, struct option_value value, uint64_t min_ms,
                      uint64_t *out);

/* An integer from 1 to MAX. */
bool option_read_number(struct option_reader *reader, struct option_value value, uint64_t max,
                        uint32_t *out);

/* A comma-separated list of integers from 1 to MAX; the result is sorted and has no duplicates. */
bool option_read_numbers(struct option_reader *reader, struct option_value value, uint64_t max,
                         struct plan_numbers *out);

#endif
