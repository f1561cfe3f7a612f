/*
 * wsconsole: the live view of a running webserverd in the terminal. This file reads the command
 * line and starts either the full-screen program or a single print.
 */
#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "console/app/once.h"
#include "console/app/options.h"
#include "console/app/program.h"
#include "console/app/settings.h"
#include "console/data/instances.h"

#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    EXIT_DONE = 0,
    EXIT_USAGE = 2,
    EXIT_NO_DAEMON = 3,
    LONG_FROM = 256 /* above all character codes */
};

static void make_getopt(struct option *longs, char names[][OPTION_NAME_BYTES], char *letters)
{
    size_t used = 0;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        bool argument = option_table[i].argument[0] != '\0';

        longs[i] = (struct option){.name = option_typed_name(&option_table[i], names[i]),
                                   .has_arg = argument ? required_argument : no_argument,
                                   .val = LONG_FROM + (int)i};
        if (option_table[i].letter == 0)
            continue;
        letters[used++] = option_table[i].letter;
        if (argument)
            letters[used++] = ':';
    }
    longs[OPTION_COUNT] = (struct option){0};
    letters[used] = '\0';
}

static const struct option_info *option_of(int code)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (code == LONG_FROM + (int)i ||
            (option_table[i].letter != 0 && code == option_table[i].letter))
            return &option_table[i];
    return NULL;
}

static enum options_result check_together(struct options *options)
{
    if (options->batch && !options->once)
        return option_wrong(options, "--batch requires --once, --json or --csv");
    if (options->record != NULL && options->replay != NULL)
        return option_wrong(options, "--record and --replay cannot be combined");
    if (options->lab != NULL &&
        (options->once || options->replay != NULL || options->record != NULL))
        return option_wrong(
            options, "--lab cannot be combined with --once, --json, --csv, --record or --replay");
    if (options->all && (options->once || options->replay != NULL || options->lab != NULL ||
                         options->name_given || options->socket != NULL))
        return option_wrong(options, "--all cannot be combined with --name, --socket, --replay, "
                                     "--lab, --once, --json or --csv");
    if (options->at_given && options->replay == NULL)
        return option_wrong(options, "--at requires --replay");
    return OPTIONS_RUN;
}

static enum options_result read_arguments(int argc, char **argv, struct options *options)
{
    struct option longs[OPTION_COUNT + 1];
    char names[OPTION_COUNT][OPTION_NAME_BYTES], letters[2 * OPTION_COUNT + 1];
    int code;

    make_getopt(longs, names, letters);
    while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct option_info *option = option_of(code);
        enum options_result result;

        if (option == NULL) {
            fputs(options_usage, stderr);
            return OPTIONS_WRONG;
        }
        result = option->read(optarg, options);
        if (result != OPTIONS_RUN)
            return result;
    }
    if (optind < argc && option_table[OPTION_view].read(argv[optind], options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (optind + 1 < argc)
        return option_wrong(options, "unexpected argument '%s'", argv[optind + 1]);
    return OPTIONS_RUN;
}

/* Reads console.ini, then the command line, which takes precedence. Prints errors and, where
 * requested, help and version. */
static enum options_result read_options(int argc, char **argv, struct options *options)
{
    enum options_result result;
    bool no_color;

    options_init(options);
    no_color = options->theme == THEME_MONO;
    if (settings_read(options, stderr) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (no_color)
        options->theme = THEME_MONO; /* NO_COLOR takes precedence over the file */
    options->name_given = false;
    result = read_arguments(argc, argv, options);
    if (!options->batch)
        options->count = 1;
    if (result == OPTIONS_RUN)
        result = check_together(options);
    if (result == OPTIONS_WRONG && options->why[0] != '\0')
        escape_report("wsconsole", options->why);
    return result;
}

/*
 * Without a name, the instance is the one that owns the socket given; without a socket, one-shot
 * output is of the only running instance (in full screen the user chooses). Waits as long as the
 * options allow. Returns false after an error message.
 */
static bool find_instance(struct options *options)
{
    uint64_t until_ns = clock_monotonic_ns() + options->wait_s * NS_PER_S;
    const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    char why[256];

    if (options->name_given || options->replay != NULL || options->lab != NULL)
        return true;
    if (options->socket == NULL) {
        if (options->once)
            instance_with_socket(NULL, options->name);
        return true;
    }
    while (!instance_with_socket(options->socket, options->name)) {
        if (!options->wait_given || clock_monotonic_ns() >= until_ns) {
            snprintf(why, sizeof(why), "no running webserverd has the control socket '%.200s'",
                     options->socket);
            escape_report("wsconsole", why);
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options;
    enum options_result result;

    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same in every locale and script */
    result = read_options(argc, argv, &options);
    if (result != OPTIONS_RUN)
        return result == OPTIONS_DONE ? EXIT_DONE : EXIT_USAGE;
    if (!find_instance(&options))
        return EXIT_NO_DAEMON;
    return options.once ? once_run(&options) : program_run(&options);
}
