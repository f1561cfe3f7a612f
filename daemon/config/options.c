#include "daemon/config/options.h"

#include "common/escape.h"
#include "common/macros.h"
#include "common/tables.h"

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "webserverd"

struct described {
    char letter;
    const char *name;
    const char *argument; /* NULL: it has_argument none */
    const char *help;
};

static const struct described described[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "daemon/config/options.def"
#undef OPTION
};

static const struct option long_options[] = {
#define OPTION(letter, name, argument, help)                                                       \
    {name, (argument) == NULL ? no_argument : required_argument, NULL, letter},
#include "daemon/config/options.def"
#undef OPTION
    {NULL, 0, NULL, 0}};

/* '+': stop at the first operand; ':': getopt prints no messages. */
static const char short_options[] = "+:f:o:dtATS:Vh";

void options_print_usage(FILE *out)
{
    fprintf(out, "usage: " PROGRAM " [-d | -t [-A] | -T] [-f FILE] [-o SECTION.KEY=VALUE]...\n"
                 "       " PROGRAM " -S DIRECTORY\n"
                 "Serves the files of a directory over HTTP. Every configuration key has a\n"
                 "default.\n\n");
    for (size_t i = 0; i < ARRAY_LENGTH(described); i++) {
        const struct described *option = &described[i];
        bool has_argument = option->argument != NULL;
        char forms[64];

        snprintf(forms, sizeof(forms), "-%c, --%s%s%s", option->letter, option->name,
                 has_argument ? " " : "", has_argument ? option->argument : "");
        fprintf(out, "  %-32s  %s\n", forms, option->help);
    }
    fprintf(out, "\nManuals: " PROGRAM "(8), webserver.ini(5)\n");
}

void options_print_version(FILE *out, const char *sandbox)
{
    fprintf(out, PROGRAM " " WEBSERVERD_VERSION "\nsandbox of workers: %s\n", sandbox);
}

static enum options_action usage_error(FILE *errors)
{
    fprintf(errors, "try " PROGRAM " -h\n");
    return OPTIONS_WRONG;
}

/* WORD is the argument as typed: "--tset", or "-xy" with LETTER in it. */
static enum options_action unknown_option(const char *word, int letter, FILE *errors)
{
    char typed[66], suggestion[DID_YOU_MEAN_SIZE];

    if (strncmp(word, "--", 2) != 0) {
        fprintf(errors, PROGRAM ": unknown option -%c\n", isgraph(letter) ? letter : '?');
        return usage_error(errors);
    }
    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word, "="), word);
    fputs(PROGRAM ": unknown option ", errors);
    escape_print(errors, typed);
    fprintf(errors, "%s\n", did_you_mean(suggestion, typed, WORD_LIST_OF(described, name), ""));
    return usage_error(errors);
}

/* getopt_long() rejected WORD; optopt tells why. */
static enum options_action reject_option(const char *word, bool missing, FILE *errors)
{
    const struct described *known = described;

    while (known < described + ARRAY_LENGTH(described) && known->letter != optopt)
        known++;
    if (known == described + ARRAY_LENGTH(described))
        return unknown_option(word, optopt, errors);
    if (missing)
        fprintf(errors, PROGRAM ": -%c (--%s) needs an argument: %s\n", known->letter, known->name,
                known->argument);
    else
        fprintf(errors, PROGRAM ": --%s takes no argument\n", known->name);
    return usage_error(errors);
}

/* Parses all options; OVERRIDES has room for ARGC. */
static enum options_action parse_options(struct options *options, const char **overrides, int argc,
                                         char **argv, FILE *errors)
{
    enum options_action action = OPTIONS_RUN;
    int letter, word;

    opterr = 0;
    optind = 0; /* glibc: restart, dropping the state of an earlier call */
    for (;;) {
        word = optind > 0 ? optind : 1;
        letter = getopt_long(argc, argv, short_options, long_options, NULL);
        switch (letter) {
        case -1:
            if (optind == argc && options->as_service && action != OPTIONS_CHECK) {
                fputs(PROGRAM ": --as-service needs -t\n", errors);
                return usage_error(errors);
            }
            if (optind == argc)
                return action;
            fputs(PROGRAM ": '", errors);
            escape_print(errors, argv[optind]);
            fputs("' is not an option; name a configuration file with -f FILE\n", errors);
            return usage_error(errors);
        case 'f':
            options->file = optarg;
            break;
        case 'o':
            overrides[options->override_count++] = optarg;
            break;
        case 'd':
            options->detach = true;
            break;
        case 't':
            action = action == OPTIONS_DUMP ? OPTIONS_DUMP : OPTIONS_CHECK;
            break;
        case 'A':
            options->as_service = true;
            break;
        case 'T':
            action = OPTIONS_DUMP;
            break;
        case 'S':
            options->directory = optarg;
            return OPTIONS_SELF_SIGNED;
        case 'V':
            return OPTIONS_VERSION;
        case 'h':
            return OPTIONS_HELP;
        default:
            return reject_option(argv[word], letter == ':', errors);
        }
    }
}

enum options_action options_parse(struct options *options, int argc, char **argv, FILE *errors)
{
    const char **overrides = calloc((size_t)argc, sizeof(*overrides));

    *options = (struct options){.overrides = overrides, .argv = argv};
    if (overrides == NULL) {
        fprintf(errors, PROGRAM ": out of memory\n");
        return OPTIONS_WRONG;
    }
    return parse_options(options, overrides, argc, argv, errors);
}

void options_free(struct options *options)
{
    free((void *)options->overrides);
    *options = (struct options){.file = NULL};
}
