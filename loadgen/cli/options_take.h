/*
 * What the files that read the command line share: options.c finds out which option stands where,
 * and the take_ functions (options_values.c, options_request.c) take what stands behind it.
 */
#ifndef LOADGEN_OPTIONS_TAKE_H
#define LOADGEN_OPTIONS_TAKE_H

#include "common/macros.h"

#include "loadgen/cli/options.h"

/* tchar of RFC 9110 section 5.6.2: what methods and header names are made of. */
#define TOKEN_CHARACTERS                                                                           \
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* The words of a command line as they are read, and where the first mistake is described. */
struct reading {
    int argc, next; /* next: index of the word that is read next */
    char *const *argv;
    struct plan *plan;
    enum options_result result;
    char *why;
    size_t size;
};

/* An option as it was typed: "-c" or "--connections", with what follows it. */
struct typed {
    const char *spelling;
    const char *value; /* NULL: a switch */
};

/* Describes a mistake. Returns false. */
PRINTF_LIKE(2, 3) bool options_refuse(struct reading *reading, const char *format, ...);

/* A whole number from 1 to MOST. */
bool options_take_number(struct reading *reading, struct typed typed, uint64_t most, uint32_t *out);

/* Several of them with commas between; stored in rising order, each once. */
bool options_take_numbers(struct reading *reading, struct typed typed, uint64_t most,
                          struct plan_numbers *out);

/* What a sweep goes over, where the command line left that open, and what does not go with it. */
bool options_check_sweep(struct reading *reading);
void options_complete_sweep(struct plan *plan);

/* Each takes one option's value into the plan; false when it was refused. */
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help)                                             \
    bool take_##name(struct reading *reading, struct typed typed);
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS

#endif
