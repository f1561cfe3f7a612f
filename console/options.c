#include "console/options.h"

#include "common/instance.h"
#include "common/macros.h"
#include "common/nearest.h"
#include "common/units.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_DEFAULT = 10, RATE_MOST = 60 };

#define SPEED_LEAST 0.1
#define SPEED_MOST  100

static const char usage[] =
    "usage: wsconsole [-n NAME] [-s SOCKET] [-r RATE] [--theme THEME] [--ascii] [--no-color]\n"
    "                 [--readonly] [VIEW]\n"
    "       wsconsole --replay FILE [--speed X] [--at TIME] [VIEW]\n"
    "       wsconsole [-n NAME] --once VIEW\n"
    "       wsconsole [-n NAME] --json [VIEW]\n"
    "       wsconsole [-n NAME] --csv VIEW\n";

static void print_help(void)
{
    printf(
        "%s\n"
        "Shows a running webserverd live, from its shared memory, and changes its thread count.\n\n"
        "  -n, --name NAME      the instance (default: " INSTANCE_DEFAULT_NAME ")\n"
        "  -s, --socket SOCKET  its control socket, instead of looking it up by the name\n"
        "  -r, --fps RATE       pictures a second, 1 to %d (default: %d)\n"
        "      --theme THEME    dark (default), light or mono\n"
        "      --no-color       the same as --theme mono; so is NO_COLOR in the environment\n"
        "      --ascii          draw with plain characters only\n"
        "      --readonly       show, but change nothing\n"
        "      --once VIEW      print one view as text and end\n"
        "      --json [VIEW]    print one view, or all, as one line of JSON and end\n"
        "      --csv VIEW       print the list of one view as CSV and end\n"
        "      --record FILE    record the session into a new file\n"
        "      --replay FILE    watch a recorded session instead of a server\n"
        "      --speed X        play it X times as fast, 0.1 to 100\n"
        "      --at TIME        begin at TIME of it (90s, 5m), standing still\n"
        "      --batch          print again and again, with --once, --json or --csv\n"
        "      --every TIME     how often; 2s by default\n"
        "      --count N        end after N prints\n"
        "      --filter WORDS   show only the rows that match; see FILTER in the manual\n"
        "  -w, --wait off|TIME  do not wait for a server, or only so long\n"
        "  -V, --version        print the version\n"
        "  -h, --help           print this help\n\n"
        "Views:",
        usage, RATE_MOST, RATE_DEFAULT);
    for (size_t i = 0; i < VIEW_COUNT; i++)
        printf(" %s", view_table[i]->name);
    printf(
        "\n\nExit status: 0 done, 1 failed, 2 wrong use, 3 no daemon (only --once and --json).\n");
}

static PRINTF_LIKE(1, 2) enum options_result wrong(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "wsconsole: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    return OPTIONS_WRONG;
}

static enum options_result read_view(const char *word, struct options *options)
{
    const char *names[VIEW_COUNT];
    const char *nearest;

    options->view = view_named(word);
    if (options->view != NULL)
        return OPTIONS_RUN;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        names[i] = view_table[i]->name;
    nearest = nearest_word(word, names, VIEW_COUNT);
    if (nearest != NULL)
        return wrong("there is no view '%s'; did you mean '%s'?", word, nearest);
    return wrong("there is no view '%s'; -h lists the views", word);
}

static enum options_result read_csv_view(const char *word, struct options *options)
{
    enum options_result result = read_view(word, options);

    if (result != OPTIONS_RUN || options->view->list != NULL)
        return result;
    return wrong("the view '%s' has no list to print as CSV", word);
}

static enum options_result read_rate(const char *word, struct options *options)
{
    uint64_t rate;

    if (units_parse_number(word, &rate) != 0 || rate < 1 || rate > RATE_MOST)
        return wrong("'%s' is no rate: 1 to %d pictures a second", word, RATE_MOST);
    options->rate_hz = (unsigned)rate;
    return OPTIONS_RUN;
}

static enum options_result read_theme(const char *word, struct options *options)
{
    options->theme = theme_named(word);
    if (options->theme != THEME_COUNT)
        return OPTIONS_RUN;
    return wrong("there is no theme '%s': dark, light or mono", word);
}

static enum options_result read_speed(const char *word, struct options *options)
{
    char rest;

    if (sscanf(word, "%lf%c", &options->speed, &rest) == 1 && options->speed >= SPEED_LEAST &&
        options->speed <= SPEED_MOST)
        return OPTIONS_RUN;
    return wrong("'%s' is no speed: 0.1 to 100", word);
}

static enum options_result read_at(const char *word, struct options *options)
{
    uint64_t ms;

    if (units_parse_time_ms(word, &ms) != 0)
        return wrong("'%s' is no time: 90s, 5m", word);
    options->at_ns = ms * 1000000;
    options->at_given = true;
    return OPTIONS_RUN;
}

static enum options_result read_every(const char *word, struct options *options)
{
    uint64_t ms;

    if (units_parse_time_ms(word, &ms) != 0 || ms == 0)
        return wrong("'%s' is no time: 2, 500ms, 1m", word);
    options->every_s = (double)ms / 1000;
    return OPTIONS_RUN;
}

static enum options_result read_count(const char *word, struct options *options)
{
    if (units_parse_number(word, &options->count) == 0 && options->count > 0)
        return OPTIONS_RUN;
    return wrong("'%s' is no count: 1 and above", word);
}

static enum options_result read_wait(const char *word, struct options *options)
{
    uint64_t ms = 0;

    if (strcmp(word, "off") != 0 && units_parse_time_ms(word, &ms) != 0)
        return wrong("'%s' is no time to wait: off, 10, 2m", word);
    options->wait_given = true;
    options->wait_s = ms / 1000;
    return OPTIONS_RUN;
}

static enum options_result read_filter(const char *word, struct options *options)
{
    static struct filter filter;
    char why[128];

    if (filter_set(&filter, word, why, sizeof(why)) != 0)
        return wrong("%s", why);
    options->filter = &filter;
    return OPTIONS_RUN;
}

static enum options_result read_option(int option, struct options *options)
{
    switch (option) {
    case 'n':
        options->name = optarg;
        return OPTIONS_RUN;
    case 's':
        options->socket = optarg;
        return OPTIONS_RUN;
    case 'r':
        return read_rate(optarg, options);
    case 'T':
        return read_theme(optarg, options);
    case 'C':
        options->theme = THEME_MONO;
        return OPTIONS_RUN;
    case 'A':
        options->ascii = true;
        return OPTIONS_RUN;
    case 'R':
        options->readonly = true;
        return OPTIONS_RUN;
    case 'O':
        options->once = true;
        return read_view(optarg, options);
    case 'J':
        options->once = options->json = true;
        return OPTIONS_RUN;
    case 'D':
        options->record = optarg;
        return OPTIONS_RUN;
    case 'p':
        options->replay = optarg;
        return OPTIONS_RUN;
    case 'X':
        return read_speed(optarg, options);
    case '@':
        return read_at(optarg, options);
    case 'B':
        options->batch = true;
        return OPTIONS_RUN;
    case 'E':
        return read_every(optarg, options);
    case 'N':
        return read_count(optarg, options);
    case 'f':
        return read_filter(optarg, options);
    case 'w':
        return read_wait(optarg, options);
    case 'S':
        options->once = options->csv = true;
        return read_csv_view(optarg, options);
    case 'V':
        printf("wsconsole " WEBSERVERD_VERSION "\n");
        return OPTIONS_DONE;
    case 'h':
        print_help();
        return OPTIONS_DONE;
    default:
        fputs(usage, stderr);
        return OPTIONS_WRONG;
    }
}

static void set_defaults(struct options *options)
{
    const char *no_color = getenv("NO_COLOR");

    *options = (struct options){
        .name = INSTANCE_DEFAULT_NAME, .rate_hz = RATE_DEFAULT, .speed = 1, .every_s = 2};
    if (no_color != NULL && no_color[0] != '\0')
        options->theme = THEME_MONO;
}

enum options_result options_read(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"name", required_argument, NULL, 'n'},   {"socket", required_argument, NULL, 's'},
        {"fps", required_argument, NULL, 'r'},    {"theme", required_argument, NULL, 'T'},
        {"no-color", no_argument, NULL, 'C'},     {"ascii", no_argument, NULL, 'A'},
        {"readonly", no_argument, NULL, 'R'},     {"once", required_argument, NULL, 'O'},
        {"json", no_argument, NULL, 'J'},         {"csv", required_argument, NULL, 'S'},
        {"record", required_argument, NULL, 'D'}, {"wait", required_argument, NULL, 'w'},
        {"batch", no_argument, NULL, 'B'},        {"every", required_argument, NULL, 'E'},
        {"count", required_argument, NULL, 'N'},  {"filter", required_argument, NULL, 'f'},
        {"replay", required_argument, NULL, 'p'}, {"speed", required_argument, NULL, 'X'},
        {"at", required_argument, NULL, '@'},     {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    int option;

    set_defaults(options);
    while ((option = getopt_long(argc, argv, "n:s:r:w:Vh", names, NULL)) != -1) {
        enum options_result result = read_option(option, options);

        if (result != OPTIONS_RUN)
            return result;
    }
    if (optind < argc && read_view(argv[optind], options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (optind + 1 < argc)
        return wrong("'%s' is one argument too many", argv[optind + 1]);
    if (options->batch && !options->once)
        return wrong("--batch goes with --once, --json or --csv");
    if (!options->batch)
        options->count = 1;
    if (options->record != NULL && options->replay != NULL)
        return wrong("--record and --replay do not go together");
    if (!instance_name_valid(options->name))
        return wrong("'%s' is no instance name: letters, digits, '.', '_' and '-' only",
                     options->name);
    return OPTIONS_RUN;
}
