#include "loadgen/lab/command.h"

#include "common/tables.h"
#include "common/units.h"

#include "loadgen/lab/points.h"

#include <stdarg.h>
#include <string.h>

enum {
    UNTIL_DEFAULT_MS = 5 * 60 * 1000,
    DURATION_MAX_S = 24 * 3600,
    NAMES_MAX = 32,
    RATE_MAX = 10000000
};

const struct experiment lab_experiments[] = {
#define EXPERIMENT(name, title, question) {#name, title, question, experiment_##name},
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT
};

const size_t lab_experiment_count = ARRAY_LENGTH(lab_experiments);

const struct experiment *lab_find(const char *name)
{
    for (size_t i = 0; i < lab_experiment_count; i++)
        if (strcmp(lab_experiments[i].name, name) == 0)
            return &lab_experiments[i];
    return NULL;
}

/* ---- The command line ---- */

static const struct option_line {
    char letter;
    const char *spelling, *argument, *help;
} option_lines[] = {
#define OPTION(letter, spelling, argument, help) {letter, spelling, argument, help},
#include "loadgen/lab/options.def"
#undef OPTION
};

struct arguments {
    int argc, next;
    char *const *argv;
    char *why;
    size_t size;
};

PRINTF_LIKE(2, 3)
static int reject(const struct arguments *arguments, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(arguments->why, arguments->size, format, values);
    va_end(values);
    return -1;
}

static int set_time(uint64_t *ms, const struct arguments *arguments, const char *option,
                    const char *value)
{
    if (units_parse_time_ms(value, ms) != 0 || *ms == 0 || *ms > DURATION_MAX_S * UINT64_C(1000))
        return reject(arguments, "--%s: invalid time '%s' (examples: 500ms, 3s, 10m)", option,
                      value);
    return 0;
}

static int set_option(struct lab_options *options, const struct arguments *arguments,
                      const char *option, const char *value)
{
    uint64_t rounds;

    if (value != NULL && value[0] == '\0')
        return reject(arguments, "--%s: the value is empty", option);
    if (strcmp(option, "output") == 0) {
        options->directory = value;
    } else if (strcmp(option, "server") == 0) {
        options->program = value;
    } else if (strcmp(option, "quick") == 0) {
        options->quick = true;
    } else if (strcmp(option, "quiet") == 0) {
        options->quiet = true;
    } else if (strcmp(option, "resume") == 0) {
        options->resume = true;
    } else if (strcmp(option, "help") == 0) {
        options->help = true;
    } else if (strcmp(option, "until-decided") == 0) {
        options->until_ms = UNTIL_DEFAULT_MS;
        return value != NULL ? set_time(&options->until_ms, arguments, option, value) : 0;
    } else if (strcmp(option, "duration") == 0) {
        return set_time(&options->duration_ms, arguments, option, value);
    } else if (strcmp(option, "rounds") == 0) {
        if (units_parse_number(value, &rounds) != 0 || rounds < 1 || rounds > POINT_ROUNDS)
            return reject(arguments, "--rounds: '%s' is out of range (1-%d)", value, POINT_ROUNDS);
        options->rounds = (uint32_t)rounds;
    } else if (strcmp(option, "rate") == 0) {
        if (units_parse_count(value, &options->rate) != 0 || options->rate == 0 ||
            options->rate > RATE_MAX)
            return reject(arguments, "--rate: '%s' is out of range (1-%d)", value, RATE_MAX);
    }
    return 0;
}

/* WORD begins with "-"; its option takes LENGTH bytes. */
static const struct option_line *find_option(const char *word, size_t length)
{
    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++) {
        const struct option_line *line = &option_lines[i];

        if (word[1] == '-' ? strlen(line->spelling) == length - 2 &&
                                 strncmp(line->spelling, word + 2, length - 2) == 0
                           : line->letter == word[1])
            return line;
    }
    return NULL;
}

static int reject_option(const struct arguments *arguments, const char *word, size_t length)
{
    const char *known[ARRAY_LENGTH(option_lines)], *nearest;
    char typed[64];

    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++)
        known[i] = option_lines[i].spelling;
    snprintf(typed, sizeof(typed), "%.*s", (int)length, word);
    nearest = word[1] == '-' ? nearest_word(typed + 2, known, ARRAY_LENGTH(known)) : NULL;
    if (nearest != NULL)
        return reject(arguments, "lab: unknown option %s; did you mean --%s?", typed, nearest);
    return reject(arguments, "lab: unknown option %s; wsload lab -h lists the options", typed);
}

/* "--name", "--name VALUE", "--name=VALUE", "-x VALUE" or "-xVALUE". */
static int read_option(struct lab_options *options, struct arguments *arguments, const char *word)
{
    size_t length = word[1] == '-' ? strcspn(word, "=") : 2;
    const struct option_line *option = find_option(word, length);
    const char *value = word[length] != '\0' ? word + length + (word[1] == '-') : NULL;

    if (option == NULL)
        return reject_option(arguments, word, length);
    if (option->argument == NULL)
        return value == NULL ? set_option(options, arguments, option->spelling, NULL)
                             : reject(arguments, "--%s takes no value", option->spelling);
    if (value == NULL && option->argument[0] == '[')
        return set_option(options, arguments, option->spelling, NULL);
    if (value == NULL && arguments->next == arguments->argc)
        return reject(arguments, "--%s needs a value: --%s %s", option->spelling, option->spelling,
                      option->argument);
    return set_option(options, arguments, option->spelling,
                      value != NULL ? value : arguments->argv[arguments->next++]);
}

/* Each experiment runs once, even if it is named twice. */
static void add_chosen(struct lab_options *options, const struct experiment *experiment)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->chosen[i] == experiment)
            return;
    if (options->count < LAB_CHOSEN_MAX)
        options->chosen[options->count++] = experiment;
}

static int choose(struct lab_options *options, const struct arguments *arguments, const char *word)
{
    bool all = strcmp(word, "all") == 0;
    const char *known[NAMES_MAX], *nearest;
    size_t count = 0;

    if (!all && lab_find(word) == NULL) {
        for (size_t i = 0; i < lab_experiment_count && count < NAMES_MAX; i++)
            known[count++] = lab_experiments[i].name;
        nearest = nearest_word(word, known, count);
        if (nearest != NULL)
            return reject(arguments, "unknown experiment '%s'; did you mean %s?", word, nearest);
        return reject(arguments, "unknown experiment '%s'; wsload lab lists them", word);
    }
    for (size_t i = 0; i < lab_experiment_count; i++)
        if (all || strcmp(lab_experiments[i].name, word) == 0)
            add_chosen(options, &lab_experiments[i]);
    return 0;
}

int lab_options_parse(struct lab_options *options, int argc, char *const *argv, char *why,
                      size_t size)
{
    struct arguments arguments = {argc, 1, argv, why, size};
    int result = 0;

    *options = (struct lab_options){.directory = "wsload-lab"};
    while (result == 0 && arguments.next < argc) {
        const char *word = argv[arguments.next++];

        if (word[0] == '-' && word[1] != '\0')
            result = read_option(options, &arguments, word);
        else
            result = choose(options, &arguments, word);
    }
    if (result == 0 && options->resume && options->count == 0 && !options->help)
        return reject(&arguments, "--resume needs the names of the experiments, or all");
    return result;
}

void lab_help(FILE *out)
{
    fputs("usage: wsload lab [option ...] NAME ... | all\n\n"
          "Experiments with webserverd: each starts its own servers, measures, and explains\n"
          "the results. Pages are written to DIRECTORY/NAME.html.\n\n",
          out);
    for (size_t i = 0; i < lab_experiment_count; i++)
        fprintf(out, "  %-13s%s\n", lab_experiments[i].name, lab_experiments[i].question);
    fputc('\n', out);
    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++) {
        const struct option_line *line = &option_lines[i];
        bool has_letter = line->letter != 0;
        const char *argument = line->argument != NULL ? line->argument : "";
        char left[48];

        snprintf(left, sizeof(left), "%c%c%c --%s%s%s", has_letter ? '-' : ' ',
                 has_letter ? line->letter : ' ', has_letter ? ',' : ' ', line->spelling,
                 argument[0] == '[' ? "" : " ", argument);
        fprintf(out, "  %-28s%s\n", left, line->help);
    }
    fputs("\nExit status: 0 success, 1 usage error or a failed experiment, 130 interrupted.\n",
          out);
}
