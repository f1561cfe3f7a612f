/*
 * Each option has a function accept_NAME() that reads its argument; option_show() writes the value
 * in force of a setting. console/app/options.def lists them.
 */

#include "console/app/options.h"

#include "common/escape.h"
#include "common/tables.h"
#include "common/units.h"
#include "console/app/settings.h"
#include "console/data/alerts.h"
#include "console/data/instances.h"
#include "console/lab/scenario.h"
#include "console/ui/screen.h"
#include "console/views/views.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_DEFAULT = 10, RATE_REMOTE = 2, RATE_MOST = 60 };

#define SPEED_LEAST 0.1
#define SPEED_MOST  100

enum options_result option_wrong(struct options *options, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(options->why, sizeof(options->why), format, arguments);
    va_end(arguments);
    return OPTIONS_WRONG;
}

/* A flag: WORD is NULL on the command line, "on" or "off" in the file. */
static enum options_result accept_flag(const char *word, struct options *options, bool *flag)
{
    static const char *const on[] = {"on", "yes", "true"}, *const off[] = {"off", "no", "false"};

    for (size_t i = 0; word != NULL && i < ARRAY_LENGTH(off); i++)
        if (strcmp(word, off[i]) == 0) {
            *flag = false;
            return OPTIONS_RUN;
        }
    for (size_t i = 0; i < ARRAY_LENGTH(on); i++)
        if (word == NULL || strcmp(word, on[i]) == 0) {
            *flag = true;
            return OPTIONS_RUN;
        }
    return option_wrong(options, "invalid value '%s' (on or off)", word);
}

static void print_options_help(void);

/* Readers, one per option. WORD is the argument; NULL: none. */

#define FLAG(name)                                                                                 \
    static enum options_result accept_##name(const char *word, struct options *options)            \
    {                                                                                              \
        return accept_flag(word, options, &options->name);                                         \
    }
FLAG(all)
FLAG(ascii)
FLAG(no_mouse)
FLAG(readonly)
FLAG(log_scale)
#undef FLAG

static enum options_result accept_name(const char *word, struct options *options)
{
    if (!instance_name_valid(word))
        return option_wrong(options, "invalid instance name '%s' (letters, digits, '.', '_', '-')",
                            word);
    snprintf(options->name, sizeof(options->name), "%s", word);
    options->name_given = true;
    return OPTIONS_RUN;
}

static enum options_result accept_socket(const char *word, struct options *options)
{
    options->socket = word;
    return OPTIONS_RUN;
}

static enum options_result accept_list(const char *word, struct options *options)
{
    (void)word;
    options->list = true;
    return OPTIONS_RUN;
}

static enum options_result accept_wait(const char *word, struct options *options)
{
    uint64_t ms = 0;

    if (strcmp(word, "off") != 0 && units_parse_time_ms(word, &ms) != 0)
        return option_wrong(options, "invalid timeout '%s' (examples: off, 10, 2m)", word);
    options->wait_given = true;
    options->wait_s = (ms + 999) / 1000;
    return OPTIONS_RUN;
}

static enum options_result accept_fps(const char *word, struct options *options)
{
    uint64_t rate;

    if (units_parse_number(word, &rate) != 0 || rate < 1 || rate > RATE_MOST)
        return option_wrong(options, "invalid rate '%s' (1-%d frames per second)", word, RATE_MOST);
    options->rate_hz = (unsigned)rate;
    options->rate_given = true;
    return OPTIONS_RUN;
}

static enum options_result accept_theme(const char *word, struct options *options)
{
    enum theme theme = theme_named(word);

    if (theme == THEME_COUNT)
        return option_wrong(options, "unknown theme '%s' (dark, light, mono)", word);
    options->theme = options->theme_setting = theme;
    return OPTIONS_RUN;
}

static enum options_result accept_no_color(const char *word, struct options *options)
{
    (void)word;
    return accept_theme("mono", options);
}

static enum options_result accept_view(const char *word, struct options *options)
{
    char near[DID_YOU_MEAN_SIZE];

    options->view = view_named(word);
    options->view_setting = options->view;
    if (options->view != NULL)
        return OPTIONS_RUN;
    return option_wrong(
        options, "unknown view '%s'%s", word,
        did_you_mean(near, word, WORD_LIST(view_names, VIEW_COUNT), "; -h lists the views"));
}

static enum options_result accept_span(const char *word, struct options *options)
{
    uint64_t ms = 0;

    if (units_parse_time_ms(word, &ms) == 0)
        for (size_t i = 0; i < OPTIONS_SPANS; i++)
            if (ms == (uint64_t)options_spans_s[i] * 1000) {
                options->span_s = options_spans_s[i];
                return OPTIONS_RUN;
            }
    return option_wrong(options, "invalid time range '%s' (1m, 5m, 15m, 1h, 6h, 24h)", word);
}

static enum options_result accept_hide_columns(const char *word, struct options *options)
{
    char why[128];

    if (strlen(word) >= sizeof(options->hide_columns))
        return option_wrong(options, "the list of columns is too long");
    if (views_check_columns(word, why, sizeof(why)) != 0)
        return option_wrong(options, "%s", why);
    snprintf(options->hide_columns, sizeof(options->hide_columns), "%s", word);
    return OPTIONS_RUN;
}

static enum options_result accept_filter(const char *word, struct options *options)
{
    static struct filter filter;
    char why[128];

    if (filter_set(&filter, word, why, sizeof(why)) != 0 ||
        views_check_filter(&filter, why, sizeof(why)) != 0)
        return option_wrong(options, "%s", why);
    options->filter = &filter;
    return OPTIONS_RUN;
}

static enum options_result accept_once(const char *word, struct options *options)
{
    options->once = true;
    return accept_view(word, options);
}

static enum options_result accept_json(const char *word, struct options *options)
{
    (void)word;
    options->once = options->json = true;
    options->view = NULL;
    return OPTIONS_RUN;
}

static enum options_result accept_csv(const char *word, struct options *options)
{
    options->once = options->csv = true;
    if (accept_view(word, options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (options->view->list == NULL)
        return option_wrong(options, "view '%s' has no list to print as CSV", word);
    return OPTIONS_RUN;
}

static enum options_result accept_batch(const char *word, struct options *options)
{
    (void)word;
    options->batch = true;
    return OPTIONS_RUN;
}

static enum options_result accept_every(const char *word, struct options *options)
{
    uint64_t ms;

    if (units_parse_time_ms(word, &ms) != 0 || ms == 0)
        return option_wrong(options, "invalid interval '%s' (examples: 2, 500ms, 1m)", word);
    options->every_s = (double)ms / 1000;
    return OPTIONS_RUN;
}

static enum options_result accept_count(const char *word, struct options *options)
{
    if (units_parse_number(word, &options->print_count) == 0 && options->print_count > 0)
        return OPTIONS_RUN;
    return option_wrong(options, "invalid count '%s' (1 or more)", word);
}

static enum options_result accept_record(const char *word, struct options *options)
{
    options->record = word;
    return OPTIONS_RUN;
}

static enum options_result accept_replay(const char *word, struct options *options)
{
    options->replay = word;
    return OPTIONS_RUN;
}

static enum options_result accept_html(const char *word, struct options *options)
{
    options->html = word;
    return OPTIONS_RUN;
}

static enum options_result accept_size(const char *word, struct options *options)
{
    char rest;

    if (sscanf(word, "%3dx%3d%c", &options->columns, &options->rows, &rest) == 2 &&
        options->columns >= SCREEN_MIN_WIDTH && options->columns <= PAGE_MAX_WIDTH &&
        options->rows >= SCREEN_MIN_HEIGHT && options->rows <= PAGE_MAX_HEIGHT)
        return OPTIONS_RUN;
    return option_wrong(options, "invalid size '%s' (columns and lines: %dx%d-%dx%d)", word,
                        SCREEN_MIN_WIDTH, SCREEN_MIN_HEIGHT, PAGE_MAX_WIDTH, PAGE_MAX_HEIGHT);
}

static enum options_result accept_lab(const char *word, struct options *options)
{
    const char *names[LAB_SCENARIO_COUNT];
    char near[DID_YOU_MEAN_SIZE];
    bool list = strcmp(word, "list") == 0;

    for (size_t i = 0; i < LAB_SCENARIO_COUNT; i++) {
        names[i] = lab_scenario_table[i]->name;
        if (list)
            printf("%-14s %s\n", names[i], lab_scenario_table[i]->title);
    }
    if (list)
        return OPTIONS_DONE;
    options->lab = lab_scenario_named(word);
    if (options->lab != NULL)
        return OPTIONS_RUN;
    return option_wrong(options, "unknown scenario '%s'%s; --lab list shows them", word,
                        did_you_mean(near, word, WORD_LIST(names, LAB_SCENARIO_COUNT), ""));
}

static enum options_result accept_step_time(const char *word, struct options *options)
{
    if (units_parse_time_ms(word, &options->step_ms) == 0 &&
        options->step_ms >= LAB_STEP_LEAST_MS && options->step_ms <= LAB_STEP_MOST_MS)
        return OPTIONS_RUN;
    return option_wrong(options, "invalid time of a step '%s' (500ms-1m)", word);
}

static enum options_result accept_speed(const char *word, struct options *options)
{
    char rest;

    if (sscanf(word, "%lf%c", &options->replay_speed, &rest) == 1 &&
        options->replay_speed >= SPEED_LEAST && options->replay_speed <= SPEED_MOST)
        return OPTIONS_RUN;
    return option_wrong(options, "invalid speed '%s' (0.1-100)", word);
}

static enum options_result accept_at(const char *word, struct options *options)
{
    uint64_t ms;

    if (units_parse_time_ms(word, &ms) != 0)
        return option_wrong(options, "invalid time '%s' (examples: 90s, 5m)", word);
    options->at_ns = ms * 1000000;
    options->at_given = true;
    return OPTIONS_RUN;
}

static enum options_result accept_version(const char *word, struct options *options)
{
    (void)word;
    (void)options;
    printf("wsconsole " WEBSERVERD_VERSION "\n");
    return OPTIONS_DONE;
}

static enum options_result accept_help(const char *word, struct options *options)
{
    (void)word;
    (void)options;
    print_options_help();
    return OPTIONS_DONE;
}

static enum options_result accept_alert(const char *word, struct options *options)
{
    struct alerts alerts = {.count = 0};
    char why[OPTIONS_WHY];

    if (alerts_add_list(&alerts, word, why, sizeof(why)) != 0)
        return option_wrong(options, "alert: %s", why);
    alerts_write(&alerts, options->alerts, sizeof(options->alerts));
    return OPTIONS_RUN;
}

static enum options_result accept_alert_command(const char *word, struct options *options)
{
    if (word[0] != '/' || strlen(word) >= sizeof(options->alert_command))
        return option_wrong(options, "invalid program '%.80s' (an absolute path)", word);
    snprintf(options->alert_command, sizeof(options->alert_command), "%s", word);
    return OPTIONS_RUN;
}

/* The table */

const struct option_info option_table[OPTION_COUNT] = {
#define FILE true
#define LINE false
#define OPTION(name, letter, argument, place, help)                                                \
    {#name, argument, help, letter, place, accept_##name},
#include "console/app/options.def"
#undef OPTION
#undef LINE
#undef FILE
};

const int options_spans_s[OPTIONS_SPANS] = {60, 300, 900, 3600, 6 * 3600, HISTORY_SPAN_S};

const char *option_name(const struct option_info *option)
{
    static char names[OPTION_COUNT][OPTION_NAME_BYTES];
    char *name = names[option - option_table];

    snprintf(name, OPTION_NAME_BYTES, "%s", option->name);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return name;
}

static void show_text(char *text, size_t size, bool given, const char *value)
{
    snprintf(text, size, "%s", given ? value : "");
}

void option_show(const struct options *options, size_t option, char *text, size_t size)
{
    text[0] = '\0';
    switch (option) {
    case OPTION_name:
        show_text(text, size, strcmp(options->name, INSTANCE_DEFAULT_NAME) != 0, options->name);
        break;
    case OPTION_wait:
        if (options->wait_given && options->wait_s > 0)
            units_format_time_ms(text, size, options->wait_s * 1000);
        else
            show_text(text, size, options->wait_given, "off");
        break;
    case OPTION_fps:
        if (options->rate_given)
            snprintf(text, size, "%u", options->rate_hz);
        break;
    case OPTION_theme:
        if (options->theme_setting != THEME_COUNT)
            snprintf(text, size, "%s", theme_names[options->theme_setting]);
        break;
    case OPTION_ascii:
        show_text(text, size, options->ascii, "on");
        break;
    case OPTION_no_mouse:
        show_text(text, size, options->no_mouse, "on");
        break;
    case OPTION_readonly:
        show_text(text, size, options->readonly, "on");
        break;
    case OPTION_log_scale:
        show_text(text, size, options->log_scale, "on");
        break;
    case OPTION_view:
        if (options->view_setting != NULL)
            snprintf(text, size, "%s", options->view_setting->name);
        break;
    case OPTION_span:
        if (options->span_s != options_spans_s[0])
            units_format_time_ms(text, size, (uint64_t)options->span_s * 1000);
        break;
    case OPTION_hide_columns:
        snprintf(text, size, "%s", options->hide_columns);
        break;
    case OPTION_alert:
        snprintf(text, size, "%s", options->alerts);
        break;
    case OPTION_alert_command:
        snprintf(text, size, "%s", options->alert_command);
        break;
    default:
        break;
    }
}

/* Defaults and help */

/*
 * NO_COLOR; COLORFGBG, in which some terminals publish their background colour; others are asked.
 */
static enum theme theme_of_environment(void)
{
    const char *no_color = getenv("NO_COLOR"), *colours = getenv("COLORFGBG");
    const char *back = colours != NULL ? strrchr(colours, ';') : NULL;

    if (no_color != NULL && no_color[0] != '\0')
        return THEME_MONO;
    if (back == NULL)
        return THEME_ASK;
    return strcmp(back, ";7") == 0 || strcmp(back, ";15") == 0 ? THEME_LIGHT : THEME_DARK;
}

/* sshd sets it in the sessions that it starts. */
static bool is_remote(void)
{
    const char *connection = getenv("SSH_CONNECTION");

    return connection != NULL && connection[0] != '\0';
}

void options_init(struct options *options)
{
    bool remote = is_remote();

    *options = (struct options){.name = INSTANCE_DEFAULT_NAME,
                                .theme = theme_of_environment(),
                                .theme_setting = THEME_COUNT,
                                .span_s = options_spans_s[0],
                                .remote = remote,
                                .rate_hz = remote ? RATE_REMOTE : RATE_DEFAULT,
                                .replay_speed = 1,
                                .step_ms = LAB_STEP_MS};
}

static const char usage[] =
    "usage: wsconsole [-n NAME] [option ...] [VIEW]\n"
    "       wsconsole --replay FILE [--speed X] [--at TIME] [--html FILE] [VIEW]\n"
    "       wsconsole [-n NAME] --once VIEW | --json [VIEW] | --csv VIEW [--batch]\n"
    "       wsconsole --lab NAME\n"
    "       wsconsole -a | -l\n";

static void print_options_help(void)
{
    printf("%s\nShows a running webserverd live and changes it.\n\n", usage);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char letter[8] = "    ", left[80];

        if (option_table[i].letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", option_table[i].letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, option_name(&option_table[i]),
                 option_table[i].argument[0] != '\0' ? " " : "", option_table[i].argument);
        printf("  %-22s %s\n", left, option_table[i].help);
    }
    printf("\nViews:");
    for (size_t i = 0; i < VIEW_COUNT; i++)
        printf(" %s", view_table[i]->name);
    printf("\n\nExit status: 0 done, 1 failed, 2 usage error, 3 no daemon.\n");
}

/* The command line */

enum { LONG_FROM = 256 /* above all character codes */ };

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
    if (options->html != NULL && options->replay == NULL)
        return option_wrong(options, "--html requires --replay");
    if (options->html != NULL && options->once)
        return option_wrong(options, "--html cannot be combined with --once, --json or --csv");
    if (options->rows > 0 && options->html == NULL)
        return option_wrong(options, "--size requires --html");
    return OPTIONS_RUN;
}

static enum options_result read_arguments(int argc, char **argv, struct options *options)
{
    struct option longs[OPTION_COUNT + 1] = {0};
    char letters[2 * OPTION_COUNT + 1];
    size_t used = 0;
    int code;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        bool argument = option_table[i].argument[0] != '\0';

        longs[i] = (struct option){.name = option_name(&option_table[i]),
                                   .has_arg = argument ? required_argument : no_argument,
                                   .val = LONG_FROM + (int)i};
        if (option_table[i].letter != 0)
            letters[used++] = option_table[i].letter;
        if (option_table[i].letter != 0 && argument)
            letters[used++] = ':';
    }
    letters[used] = '\0';
    while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        size_t i = code >= LONG_FROM ? (size_t)(code - LONG_FROM) : 0;
        enum options_result result;

        while (code < LONG_FROM && i < OPTION_COUNT && code != option_table[i].letter)
            i++;
        if (i == OPTION_COUNT) { /* getopt_long() has printed why */
            fputs(usage, stderr);
            return OPTIONS_WRONG;
        }
        result = option_table[i].accept(optarg, options);
        if (result != OPTIONS_RUN)
            return result;
    }
    if (optind < argc && option_table[OPTION_view].accept(argv[optind], options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (optind + 1 < argc)
        return option_wrong(options, "unexpected argument '%s'", argv[optind + 1]);
    return OPTIONS_RUN;
}

static enum options_result list_instances(struct options *options)
{
    if (!options->json)
        instances_print(stdout);
    else if (instances_print_json(stdout) != 0)
        return option_wrong(options, "out of memory");
    return OPTIONS_DONE;
}

enum options_result options_read(int argc, char **argv, struct options *options)
{
    enum options_result result;
    bool no_color;

    options_init(options);
    no_color = options->theme == THEME_MONO;
    if (settings_read(options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (no_color)
        options->theme = THEME_MONO; /* NO_COLOR takes precedence over the file */
    options->name_given = false;
    result = read_arguments(argc, argv, options);
    if (!options->batch)
        options->print_count = 1;
    if (result == OPTIONS_RUN)
        result = check_together(options);
    if (result == OPTIONS_RUN && options->list)
        result = list_instances(options);
    if (result == OPTIONS_WRONG && options->why[0] != '\0')
        escape_report("wsconsole", options->why);
    return result;
}
