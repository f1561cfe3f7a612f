/*
 * wsconsole: the live view of a running webserverd in the terminal. This file reads the command
 * line and starts either the full-screen program or a single print.
 */
#include "common/macros.h"
#include "console/app/once.h"
#include "console/app/options.h"
#include "console/app/program.h"
#include "console/app/settings.h"

#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_DONE = 0, EXIT_USAGE = 2, LONG_FROM = 256 /* above all character codes */ };

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
        fprintf(stderr, "wsconsole: %s\n", options->why);
    return result;
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
    return options.once ? once_run(&options) : program_run(&options);
}
