/* The command line: words in, a plan out, or a sentence that says what is wrong. Pure. */
#ifndef LOADGEN_OPTIONS_H
#define LOADGEN_OPTIONS_H

#include "loadgen/plan/plan.h"

#include <stdio.h>

#define OPTIONS_DEFAULT_URL "http://127.0.0.1:8080/"

enum options_result {
    OPTIONS_RUN,     /* *plan is complete */
    OPTIONS_HELP,    /* help was asked for */
    OPTIONS_VERSION, /* the version was asked for */
    OPTIONS_WRONG,   /* WHY says what is wrong and what to do */
};

/*
 * Reads ARGV (ARGC words, the program's name first) into *plan. CORES is the default for the number
 * of threads. Options may stand before and behind the URL; a word "--" ends them.
 */
enum options_result options_parse(int argc, char *const *argv, uint32_t cores, struct plan *plan,
                                  char *why, size_t size);

/* Writes the help text. */
void options_help(FILE *out);

#endif
