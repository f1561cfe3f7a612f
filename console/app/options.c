#include "console/app/options.h"

#include "common/macros.h"
#include "console/app/option_table.h"
#include "console/app/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_DEFAULT = 10, LONG_FROM = 256 };

static const char usage[] =
    "usage: wsconsole [-n NAME] [option ...] [VIEW]\n"
    "       wsconsole --replay FILE [--speed X] [--at TIME] [VIEW]\n"
    "       wsconsole [-n NAME] --once VIEW | --json [VIEW] | --csv VIEW [--batch]\n"
    "       wsconsole --lab NAME\n"
    "       wsconsole -l\n";

void option_table_print(FILE *out)
{
    fprintf(out, "%s\nShows a running webserverd live, from its shared memory, and changes it.\n\n",
            usage);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[OPTION_NAME_BYTES], left[80];
        char letter[8] = "    ";

        if (option_table[i].letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", option_table[i].letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter,
                 option_typed_name(&option_table[i], name),
                 option_table[i].argument[0] != '\0' ? " " : "", option_table[i].argument);
        fprintf(out, "  %-22s %s\n", left, option_table[i].help);
    }
    fprintf(out, "\nViews:");
    for (size_t i = 0; i < VIEW_COUNT; i++)
        fprintf(out, " %s", view_table[i]->name);
    fprintf(out, "\n\nExit status: 0 done, 1 failed, 2 wrong use, 3 no daemon.\n");
}

/* The command line */

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

/* NO_COLOR, and what terminals that tell their colours say of their background. */
static enum theme theme_of_environment(void)
{
    const char *no_color = getenv("NO_COLOR"), *colours = getenv("COLORFGBG");
    const char *back = colours != NULL ? strrchr(colours, ';') : NULL;

    if (no_color != NULL && no_color[0] != '\0')
        return THEME_MONO;
    return back != NULL && (strcmp(back, ";7") == 0 || strcmp(back, ";15") == 0) ? THEME_LIGHT
                                                                                 : THEME_DARK;
}

static enum options_result check_together(struct options *options)
{
    if (options->batch && !options->once)
        return option_wrong(options, "--batch goes with --once, --json or --csv");
    if (options->record != NULL && options->replay != NULL)
        return option_wrong(options, "--record and --replay do not go together");
    if (options->lab != NULL &&
        (options->once || options->replay != NULL || options->record != NULL))
        return option_wrong(options, "--lab goes with a screen of its own: without --once, --json, "
                                     "--csv, --record and --replay");
    if (options->at_given && options->replay == NULL)
        return option_wrong(options, "--at goes with --replay");
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
            fputs(usage, stderr);
            return OPTIONS_WRONG;
        }
        result = option->read(optarg, options);
        if (result != OPTIONS_RUN)
            return result;
    }
    if (optind < argc && option_table[OPTION_view].read(argv[optind], options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (optind + 1 < argc)
        return option_wrong(options, "'%s' is one argument too many", argv[optind + 1]);
    return OPTIONS_RUN;
}

enum options_result options_read(int argc, char **argv, struct options *options)
{
    enum theme theme = theme_of_environment();
    enum options_result result;

    *options = (struct options){.name = INSTANCE_DEFAULT_NAME,
                                .theme = theme,
                                .theme_setting = THEME_COUNT,
                                .span_s = options_spans_s[0],
                                .rate_hz = RATE_DEFAULT,
                                .speed = 1,
                                .every_s = 2};
    if (settings_read(options, stderr) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (theme == THEME_MONO)
        options->theme = theme; /* NO_COLOR is above the file */
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
