/*
 * The command line of webserverd. One thread, once, at the start:
 *
 *     switch (options_parse(&options, argc, argv, stderr)) { … }
 *     config_load(&config, options.file, options.overrides, options.override_count, stderr)
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { OPTIONS_EXIT_USAGE = 2 }; /* exit status after wrong use */

enum options_action {
    OPTIONS_RUN,
    OPTIONS_CHECK,   /* -t: load the configuration, say whether it is good, and end */
    OPTIONS_DUMP,    /* -T: the same, and print it with config_print() */
    OPTIONS_VERSION, /* -V: options_print_version(), and end */
    OPTIONS_HELP,    /* -h: options_print_usage(), and end */
    OPTIONS_WRONG,   /* what was wrong has been printed: end with OPTIONS_EXIT_USAGE */
};

struct options {
    const char *file;             /* of the configuration, into argv; NULL: none was given */
    const char *const *overrides; /* "section.key=value", into argv */
    size_t override_count;
    bool detach; /* run in the background */
    char **argv; /* all of it, to start another one like this */
};

/*
 * Reads the arguments into *OPTIONS and says what is to be done. Whatever the result, *OPTIONS is
 * owed options_free(). The order of argv may change.
 */
enum options_action options_parse(struct options *options, int argc, char **argv, FILE *errors);
void options_free(struct options *options);

/* What -h and -V print. */
void options_print_usage(FILE *out);
void options_print_version(FILE *out, const char *sandbox); /* as sandbox_describe() has it */

#endif
