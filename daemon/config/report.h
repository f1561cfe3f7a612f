/*
 * Error messages of the configuration. Each names the place, shows the line with carets under the
 * offending word, and gives advice:
 *
 *     etc/webserver.ini:3:1: error: [server] has no key 'lisen'
 *         lisen = 127.0.0.1:8080
 *         ^^^^^
 *         did you mean 'listen'?
 *
 * Columns count characters from 1, as editors do. Bytes that are not printable text are replaced,
 * so that a file cannot send escape sequences to the terminal. Any thread.
 */
#ifndef DAEMON_CONFIG_REPORT_H
#define DAEMON_CONFIG_REPORT_H

#include "common/macros.h"
#include "common/span.h"

#include <stddef.h>
#include <stdio.h>

enum {
    CONFIG_ERRORS_SHOWN = 20, /* others are only counted */
    CONFIG_QUOTED_MAX = 60,   /* bytes of a word in a message */
};

/* A span as the two arguments of "%.*s", cut to CONFIG_QUOTED_MAX. */
#define CONFIG_QUOTED(span)                                                                        \
    (int)((span).length < CONFIG_QUOTED_MAX ? (span).length : CONFIG_QUOTED_MAX), (span).start

/* A word in a line of a source. Everything is borrowed. */
struct config_place {
    const char *source; /* "etc/webserver.ini", "-o 2", "default" */
    size_t line;        /* from 1; 0: the source is one line without a number */
    struct span text;   /* the whole line; start NULL: show none */
    size_t offset;      /* of the word in text, bytes */
    size_t length;      /* of the word, bytes; 0 is shown as one caret */
};

struct config_report {
    FILE *out;
    size_t errors; /* so far, including those not shown */
};

/* Reports one error. ADVICE may be empty. */
void config_report_error(struct config_report *report, const struct config_place *place,
                         const char *advice, const char *format, ...) PRINTF_LIKE(4, 5);

/* Prints how many errors were not shown, if any. */
void config_report_end(const struct config_report *report);

enum { CONFIG_PROBLEM_MAX = 256, CONFIG_ADVICE_MAX = 512 };

/* An error in a value. */
struct config_fault {
    size_t offset, length; /* of the offending word, bytes */
    const char *problem, *advice;
};

/* Receives the faults of a value; there may be several. FAULT is valid during the call. */
struct config_faults {
    void (*report)(void *owner, const struct config_fault *fault);
    void *owner;
};

/* Reports one fault; FORMAT is the problem. Returns -1. */
int config_fault_report(const struct config_faults *faults, size_t offset, size_t length,
                        const char *advice, const char *format, ...) PRINTF_LIKE(5, 6);
int config_fault_memory(const struct config_faults *faults);

#endif
