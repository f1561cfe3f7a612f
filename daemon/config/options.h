/*
 * The command line of webserverd (daemon/config/options.def). Parsed once, before other threads
 * start.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { OPTIONS_EXIT_USAGE = 2 }; /* exit status after a usage error */

enum options_action {
    OPTIONS_RUN,
    OPTIONS_CHECK,       /* -t: check the configuration and exit */
    OPTIONS_DUMP,        /* -T: check it, print it with config_print() and exit */
    OPTIONS_SELF_SIGNED, /* -S: write a certificate for development and exit */
    OPTIONS_VERSION,     /* -V: options_print_version() and exit */
    OPTIONS_HELP,        /* -h: options_print_usage() and exit */
    OPTIONS_WRONG,       /* usage error, already printed: exit with OPTIONS_EXIT_USAGE */
};

struct options {
    const char *file;             /* of the configuration, points into argv; NULL: none given */
    const char *const *overrides; /* "section.key=value", points into argv */
    size_t override_count;
    const char *directory; /* of -S, points into argv */
    bool detach;           /* run in the background */
    bool as_service;       /* of -t */
    char **argv;           /* to start the same command again, for an upgrade */
};

/* Parses the arguments into *OPTIONS; call options_free() whatever the result. */
enum options_action options_parse(struct options *options, int argc, char **argv, FILE *errors);
void options_free(struct options *options);

/* The output of -h and -V. */
void options_print_usage(FILE *out);
void options_print_version(FILE *out, const char *sandbox);

#endif
