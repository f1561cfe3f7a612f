#include "console/options.h"

#include "common/instance.h"
#include "common/macros.h"
#include "common/nearest.h"
#include "common/units.h"
#include "console/instances.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_DEFAULT = 10, RATE_MOST = 60 };

#define SPEED_LEAST 0.1
#define SPEED_MOST  100

static const char usage[] =
    "usage: wsconsole [-n NAME] [option ...] [VIEW]\n"
    "       wsconsole --replay FILE [--speed X] [--at TIME] [VIEW]\n"
    "       wsconsole [-n NAME] --once VIEW | --json [VIEW] | --csv VIEW [--batch]\n"
    "       wsconsole -l\n";

/* What is wrong, and where: nothing before it on the command line, file and line in console.ini. */

static char place[PATH_MAX + 16];

static PRINTF_LIKE(1, 2) enum options_result wrong(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "wsconsole: %s", place);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    return OPTIONS_WRONG;
}

/* One function an option. WORD is its argument; NULL where there is none. */

static enum options_result read_name(const char *word, struct options *options)
{
    if (!instance_name_valid(word))
        return wrong("'%s' is no instance name: letters, digits, '.', '_' and '-' only", word);
    snprintf(options->name, sizeof(options->name), "%s", word);
    options->name_given = true;
    return OPTIONS_RUN;
}

static enum options_result read_socket(const char *word, struct options *options)
{
    options->socket = word;
    return OPTIONS_RUN;
}

static enum options_result read_list(const char *word, struct options *options)
{
    (void)word;
    (void)options;
    instances_print(stdout);
    return OPTIONS_DONE;
}

static enum options_result read_wait(const char *word, struct options *options)
{
    uint64_t ms = 0;

    if (strcmp(word, "off") != 0 && units_parse_time_ms(word, &ms) != 0)
        return wrong("'%s' is no time to wait: off, 10, 2m", word);
    options->wait_given = true;
    options->wait_s = (ms + 999) / 1000;
    return OPTIONS_RUN;
}

static enum options_result read_fps(const char *word, struct options *options)
{
    uint64_t rate;

    if (units_parse_number(word, &rate) != 0 || rate < 1 || rate > RATE_MOST)
        return wrong("'%s' is no rate: 1 to %d pictures a second", word, RATE_MOST);
    options->rate_hz = (unsigned)rate;
    options->rate_given = true;
    return OPTIONS_RUN;
}

static enum options_result read_theme(const char *word, struct options *options)
{
    enum theme theme = theme_named(word);

    if (theme == THEME_COUNT)
        return wrong("there is no theme '%s': dark, light or mono", word);
    options->theme = theme;
    return OPTIONS_RUN;
}

static enum options_result read_no_color(const char *word, struct options *options)
{
    (void)word;
    options->theme = THEME_MONO;
    return OPTIONS_RUN;
}

static enum options_result read_ascii(const char *word, struct options *options)
{
    (void)word;
    options->ascii = true;
    return OPTIONS_RUN;
}

static enum options_result read_no_mouse(const char *word, struct options *options)
{
    (void)word;
    options->mouse = false;
    return OPTIONS_RUN;
}

static enum options_result read_readonly(const char *word, struct options *options)
{
    (void)word;
    options->readonly = true;
    return OPTIONS_RUN;
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

static enum options_result read_filter(const char *word, struct options *options)
{
    static struct filter filter;
    char why[128];

    if (filter_set(&filter, word, why, sizeof(why)) != 0)
        return wrong("%s", why);
    options->filter = &filter;
    return OPTIONS_RUN;
}

static enum options_result read_once(const char *word, struct options *options)
{
    options->once = true;
    return read_view(word, options);
}

static enum options_result read_json(const char *word, struct options *options)
{
    (void)word;
    options->once = options->json = true;
    options->view = NULL;
    return OPTIONS_RUN;
}

static enum options_result read_csv(const char *word, struct options *options)
{
    options->once = options->csv = true;
    if (read_view(word, options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    return options->view->list != NULL ? OPTIONS_RUN
                                       : wrong("the view '%s' has no list to print as CSV", word);
}

static enum options_result read_batch(const char *word, struct options *options)
{
    (void)word;
    options->batch = true;
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

static enum options_result read_record(const char *word, struct options *options)
{
    options->record = word;
    return OPTIONS_RUN;
}

static enum options_result read_replay(const char *word, struct options *options)
{
    options->replay = word;
    return OPTIONS_RUN;
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

static enum options_result read_version(const char *word, struct options *options)
{
    (void)word;
    (void)options;
    printf("wsconsole " WEBSERVERD_VERSION "\n");
    return OPTIONS_DONE;
}

static enum options_result read_help(const char *word, struct options *options);

/* The options as a table. */

enum option_place { FILE_AND_LINE, LINE_ONLY };

static const struct option_info {
    const char *name, *argument, *help;
    char letter;
    enum option_place place;
    enum options_result (*read)(const char *word, struct options *options);
} table[] = {
#define FILE FILE_AND_LINE
#define LINE LINE_ONLY
#define OPTION(name, letter, argument, place, help)                                                \
    {#name, argument, help, letter, place, read_##name},
#include "console/options.def"
#undef OPTION
#undef LINE
#undef FILE
};

enum { OPTIONS_COUNT = ARRAY_LENGTH(table), NAME_BYTES = 32, LONG_FROM = 256 };

/* The name as typed: "no-color". */
static const char *typed_name(const struct option_info *option, char *buffer)
{
    size_t i;

    for (i = 0; option->name[i] != '\0' && i < NAME_BYTES - 1; i++)
        buffer[i] = option->name[i] == '_' ? '-' : option->name[i];
    buffer[i] = '\0';
    return buffer;
}

static enum options_result read_help(const char *word, struct options *options)
{
    (void)word;
    (void)options;
    printf("%s\nShows a running webserverd live, from its shared memory, and changes it.\n\n",
           usage);
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        char name[NAME_BYTES], left[80];
        char letter[8] = "    ";

        if (table[i].letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", table[i].letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, typed_name(&table[i], name),
                 table[i].argument[0] != '\0' ? " " : "", table[i].argument);
        printf("  %-22s %s\n", left, table[i].help);
    }
    printf("\nViews:");
    for (size_t i = 0; i < VIEW_COUNT; i++)
        printf(" %s", view_table[i]->name);
    printf("\n\nExit status: 0 done, 1 failed, 2 wrong use, 3 no daemon.\n");
    return OPTIONS_DONE;
}

/* console.ini: lines of "key = value", after the options that may stand there. */

static bool is_on(const char *value)
{
    return strcmp(value, "on") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "true") == 0;
}

static bool is_off(const char *value)
{
    return strcmp(value, "off") == 0 || strcmp(value, "no") == 0 || strcmp(value, "false") == 0;
}

static enum options_result take_setting(const struct option_info *option, const char *value,
                                        struct options *options)
{
    if (option->argument[0] != '\0')
        return option->read(value, options);
    if (is_off(value))
        return OPTIONS_RUN;
    return is_on(value) ? option->read(NULL, options) : wrong("'%s' is neither on nor off", value);
}

static enum options_result read_setting(const char *key, const char *value, struct options *options)
{
    char names[OPTIONS_COUNT][NAME_BYTES];
    const char *known[OPTIONS_COUNT], *nearest;
    size_t count = 0;

    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (table[i].place != FILE_AND_LINE)
            continue;
        known[count] = typed_name(&table[i], names[count]);
        if (strcmp(known[count++], key) == 0)
            return take_setting(&table[i], value, options);
    }
    nearest = nearest_word(key, known, count);
    if (nearest != NULL)
        return wrong("there is no setting '%s'; did you mean '%s'?", key, nearest);
    return wrong("there is no setting '%s'; wsconsole(1) lists them", key);
}

static char *trim(char *text)
{
    size_t length;

    text += strspn(text, " \t\r\n");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

static enum options_result read_line(char *line, struct options *options)
{
    char *start = trim(line), *equals = strchr(start, '=');

    if (*start == '\0' || *start == '#' || *start == ';' || *start == '[')
        return OPTIONS_RUN;
    if (equals == NULL)
        return wrong("'%s' is no setting: key = value", start);
    *equals = '\0';
    return read_setting(trim(start), trim(equals + 1), options);
}

const char *options_file(char *buffer, size_t size)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config != NULL && config[0] == '/')
        snprintf(buffer, size, "%s/webserverd/console.ini", config);
    else
        snprintf(buffer, size, "%s/.config/webserverd/console.ini", home != NULL ? home : "");
    return buffer;
}

static enum options_result read_file(struct options *options)
{
    char path[PATH_MAX], line[512];
    enum options_result result = OPTIONS_RUN;
    FILE *file = fopen(options_file(path, sizeof(path)), "re");

    if (file == NULL)
        return errno == ENOENT || errno == ENOTDIR
                   ? OPTIONS_RUN
                   : wrong("cannot read %s: %s", path, strerror(errno));
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        snprintf(place, sizeof(place), "%s:%d: ", path, number);
        if (read_line(line, options) != OPTIONS_RUN)
            result = OPTIONS_WRONG; /* all that is wrong is said, not only the first */
    }
    place[0] = '\0';
    fclose(file);
    return result;
}

/* The command line */

static void make_getopt(struct option *longs, char names[][NAME_BYTES], char *letters)
{
    size_t used = 0;

    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        bool argument = table[i].argument[0] != '\0';

        longs[i] = (struct option){.name = typed_name(&table[i], names[i]),
                                   .has_arg = argument ? required_argument : no_argument,
                                   .val = LONG_FROM + (int)i};
        if (table[i].letter == 0)
            continue;
        letters[used++] = table[i].letter;
        if (argument)
            letters[used++] = ':';
    }
    longs[OPTIONS_COUNT] = (struct option){0};
    letters[used] = '\0';
}

static const struct option_info *option_of(int code)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (code == LONG_FROM + (int)i || (table[i].letter != 0 && code == table[i].letter))
            return &table[i];
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

static enum options_result check_together(const struct options *options)
{
    if (options->batch && !options->once)
        return wrong("--batch goes with --once, --json or --csv");
    if (options->record != NULL && options->replay != NULL)
        return wrong("--record and --replay do not go together");
    if (options->at_given && options->replay == NULL)
        return wrong("--at goes with --replay");
    return OPTIONS_RUN;
}

static enum options_result read_arguments(int argc, char **argv, struct options *options)
{
    struct option longs[OPTIONS_COUNT + 1];
    char names[OPTIONS_COUNT][NAME_BYTES], letters[2 * OPTIONS_COUNT + 1];
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
    if (optind < argc && read_view(argv[optind], options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (optind + 1 < argc)
        return wrong("'%s' is one argument too many", argv[optind + 1]);
    return OPTIONS_RUN;
}

enum options_result options_read(int argc, char **argv, struct options *options)
{
    enum theme theme = theme_of_environment();
    enum options_result result;

    *options = (struct options){.name = INSTANCE_DEFAULT_NAME,
                                .theme = theme,
                                .mouse = true,
                                .rate_hz = RATE_DEFAULT,
                                .speed = 1,
                                .every_s = 2};
    if (read_file(options) != OPTIONS_RUN)
        return OPTIONS_WRONG;
    if (theme == THEME_MONO)
        options->theme = theme; /* NO_COLOR is above the file */
    options->name_given = false;
    result = read_arguments(argc, argv, options);
    if (!options->batch)
        options->count = 1;
    return result == OPTIONS_RUN ? check_together(options) : result;
}
