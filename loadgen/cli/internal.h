/*
 * What the files of this directory share: the state of reading a command line, the values of
 * options. Pure.
 */
#ifndef LOADGEN_CLI_INTERNAL_H
#define LOADGEN_CLI_INTERNAL_H

#include "common/macros.h"

#include "loadgen/cli/options.h"

struct option_reader {
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

/*
 * The setter of each option of options.def, in load_options.c and request_options.c: parses the
 * value and stores it in reader->plan. Returns false with the error set, or to end the parsing
 * (--help, --version).
 */
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help)                                             \
    bool option_set_##name(struct option_reader *reader, struct option_value value);
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS

#endif
