#include "loadgen/lab/command_options.h"

#include "common/tables.h"
#include "common/units.h"

#include "loadgen/lab/points.h"

#include <stdarg.h>
#include <string.h>

enum { DURATION_MOST_S = 24 * 3600, NAMES_MAX = 32 };

static const struct option_line {
    char letter;
    const char *spelling, *argument, *help;
} option_lines[] = {
#define OPTION(letter, spelling, argument, help) {letter, spelling, argument, help},
#include "loadgen/lab/options.def"
#undef OPTION
};

struct words {
    int argc, next;
    char *const *argv;
    char *why;
    size_t size;
};

PRINTF_LIKE(2, 3)
static int refuse(const struct words *words, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words->why, words->size, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- Values ---- */

static int read_duration(struct lab_orders *orders, const struct words *words, const char *value)
{
    if (units_parse_time_ms(value, &orders->duration_ms) != 0 || orders->duration_ms == 0 ||
        orders->duration_ms > DURATION_MOST_S * UINT64_C(1000))
        return refuse(words, "--duration %s: needs a time such as 500ms, 3s or 10m", value);
    return 0;
}

static int read_rounds(struct lab_orders *orders, const struct words *words, const char *value)
{
    uint64_t rounds;

    if (units_parse_number(value, &rounds) != 0 || rounds < 1 || rounds > POINT_ROUNDS)
        return refuse(words, "--rounds %s: needs a number from 1 to %d", value, POINT_ROUNDS);
    orders->rounds = (uint32_t)rounds;
    return 0;
}

static int take(struct lab_orders *orders, const struct words *words, const char *option,
                const char *value)
{
    if (value != NULL && value[0] == '\0')
        return refuse(words, "--%s: its value is empty", option);
    if (strcmp(option, "output") == 0)
        orders->folder = value;
    else if (strcmp(option, "server") == 0)
        orders->program = value;
    else if (strcmp(option, "duration") == 0)
        return read_duration(orders, words, value);
    else if (strcmp(option, "rounds") == 0)
        return read_rounds(orders, words, value);
    else if (strcmp(option, "quick") == 0)
        orders->quick = true;
    else if (strcmp(option, "quiet") == 0)
        orders->quiet = true;
    else
        orders->help = true;
    return 0;
}

/* ---- Words ---- */

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

static int refuse_option(const struct words *words, const char *word, size_t length)
{
    const char *known[ARRAY_LENGTH(option_lines)], *nearest;
    char typed[64];

    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++)
        known[i] = option_lines[i].spelling;
    snprintf(typed, sizeof(typed), "%.*s", (int)length, word);
    nearest = word[1] == '-' ? nearest_word(typed + 2, known, ARRAY_LENGTH(known)) : NULL;
    if (nearest != NULL)
        return refuse(words, "lab: unknown option %s; did you mean --%s?", typed, nearest);
    return refuse(words, "lab: unknown option %s; wsload lab -h lists the options", typed);
}

/* "--name", "--name VALUE", "--name=VALUE", "-x VALUE" or "-xVALUE". */
static int read_option(struct lab_orders *orders, struct words *words, const char *word)
{
    size_t length = word[1] == '-' ? strcspn(word, "=") : 2;
    const struct option_line *option = find_option(word, length);
    const char *value = word[length] != '\0' ? word + length + (word[1] == '-') : NULL;

    if (option == NULL)
        return refuse_option(words, word, length);
    if (option->argument == NULL)
        return value == NULL ? take(orders, words, option->spelling, NULL)
                             : refuse(words, "--%s takes no value", option->spelling);
    if (value == NULL && words->next == words->argc)
        return refuse(words, "--%s needs a value behind it: --%s %s", option->spelling,
                      option->spelling, option->argument);
    return take(orders, words, option->spelling,
                value != NULL ? value : words->argv[words->next++]);
}

static int refuse_name(const struct words *words, const char *word)
{
    const char *known[NAMES_MAX], *nearest;
    size_t count = 0;

    for (size_t i = 0; i < lab_experiment_count && count < NAMES_MAX; i++)
        known[count++] = lab_experiments[i].name;
    nearest = nearest_word(word, known, count);
    if (nearest != NULL)
        return refuse(words, "there is no experiment '%s'; did you mean %s?", word, nearest);
    return refuse(words, "there is no experiment '%s'; wsload lab lists them", word);
}

static int choose(struct lab_orders *orders, const struct words *words, const char *word)
{
    bool all = strcmp(word, "all") == 0;

    if (!all && lab_find(word) == NULL)
        return refuse_name(words, word);
    for (size_t i = 0; i < lab_experiment_count; i++)
        if ((all || strcmp(lab_experiments[i].name, word) == 0) && orders->count < LAB_CHOSEN_MAX)
            orders->chosen[orders->count++] = &lab_experiments[i];
    return 0;
}

int lab_orders_read(struct lab_orders *orders, int argc, char *const *argv, char *why, size_t size)
{
    struct words words = {argc, 1, argv, why, size};
    int result = 0;

    *orders = (struct lab_orders){.folder = "wsload-lab"};
    while (result == 0 && words.next < argc) {
        const char *word = argv[words.next++];

        if (word[0] == '-' && word[1] != '\0')
            result = read_option(orders, &words, word);
        else
            result = choose(orders, &words, word);
    }
    return result;
}

static void put_option(FILE *out, const struct option_line *line)
{
    char left[48];

    snprintf(left, sizeof(left), "%c%c%c --%s %s", line->letter != 0 ? '-' : ' ',
             line->letter != 0 ? line->letter : ' ', line->letter != 0 ? ',' : ' ', line->spelling,
             line->argument != NULL ? line->argument : "");
    fprintf(out, "  %-24s%s\n", left, line->help);
}

void lab_help(FILE *out)
{
    fputs("usage: wsload lab [option ...] NAME ... | all\n\n"
          "Experiments with a private webserverd: each starts its own, measures, and says\n"
          "what was seen. Pages go to FOLDER/NAME.html.\n\n",
          out);
    for (size_t i = 0; i < lab_experiment_count; i++)
        fprintf(out, "  %-13s%s\n", lab_experiments[i].name, lab_experiments[i].question);
    fputc('\n', out);
    for (size_t i = 0; i < ARRAY_LENGTH(option_lines); i++)
        put_option(out, &option_lines[i]);
    fputs("\nExit status: 0 good, 1 wrong use or an experiment failed, 130 interrupted.\n", out);
}
