/* Parses the command line into a plan. Pure. */
#ifndef LOADGEN_OPTIONS_H
#define LOADGEN_OPTIONS_H

#include "loadgen/plan/plan.h"

#include <stdio.h>

enum options_result {
    OPTIONS_RUN,      /* the plan is complete */
    OPTIONS_HELP,     /* --help */
    OPTIONS_HELP_ALL, /* --help all */
    OPTIONS_VERSION,  /* --version */
    OPTIONS_WRONG,    /* invalid: see WHY */
};

#define OPTIONS_DEFAULT_URL "http://127.0.0.1:8080/"

/*
 * Parses ARGV, ARGC arguments with the program's name first, into *plan. CORES is the default
 * number of threads. Options may come before or after URLs; "--" ends the options.
 */
enum options_result options_parse(int argc, char *const *argv, uint32_t cores, struct plan *plan,
                                  char *why, size_t size);

/* The options of a first day, or with ALL every option by theme. */
void options_help(FILE *out, bool all);

#endif
