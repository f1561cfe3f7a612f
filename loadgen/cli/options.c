#include "loadgen/cli/options_take.h"

#include "common/tables.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_DURATION_MS = 10000 };

enum option_id {
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help) OPTION_##name,
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
};

bool options_refuse(struct reading *reading, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reading->why, reading->size, format, arguments);
    va_end(arguments);
    reading->result = OPTIONS_WRONG;
    return false;
}

struct option_info {
    char letter;
    const char *spelling; /* without the dashes */
    const char *argument;
    const char *help;
    bool (*take)(struct reading *reading, struct typed typed);
};

static const struct option_info option_table[] = {
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help)                                             \
    [OPTION_##name] = {letter, spelling, argument, help, take_##name},
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
};

/* Every spelling there is, and whose it is. */
static const struct {
    enum option_id id;
    char letter;
    const char *spelling;
} spelling_table[] = {
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help) {OPTION_##name, letter, spelling},
#define ALIAS(name, letter, spelling)                  {OPTION_##name, letter, spelling},
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
};

/* What other load generators have, and what to say instead. */
static const struct {
    const char *spelling, *advice;
} strange_options[] = {
#define STRANGE(spelling, advice) {spelling, advice},
#include "loadgen/cli/strange_options.def"
#undef STRANGE
};

static const char *find_advice(const char *spelling)
{
    for (size_t i = 0; i < ARRAY_LENGTH(strange_options); i++)
        if (strcmp(strange_options[i].spelling, spelling) == 0)
            return strange_options[i].advice;
    return NULL;
}

/* The known spelling that is nearest to SPELLING, which begins with two dashes; or NULL. */
static const char *nearest_spelling(const char *spelling)
{
    const char *known[ARRAY_LENGTH(spelling_table)];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(spelling_table); i++)
        if (spelling_table[i].spelling != NULL)
            known[count++] = spelling_table[i].spelling;
    return nearest_word(spelling + 2, known, count);
}

static bool refuse_unknown(struct reading *reading, const char *spelling)
{
    const char *nearest = spelling[1] == '-' ? nearest_spelling(spelling) : NULL;
    const char *advice = find_advice(spelling);

    if (advice != NULL)
        return options_refuse(reading, "%s is not an option here: %s", spelling, advice);
    if (nearest != NULL)
        return options_refuse(reading, "unknown option %s; did you mean --%s?", spelling, nearest);
    return options_refuse(reading, "unknown option %s; wsload -h lists the options", spelling);
}

static const struct option_info *find_letter(char letter)
{
    for (size_t i = 0; i < ARRAY_LENGTH(spelling_table); i++)
        if (spelling_table[i].letter == letter)
            return &option_table[spelling_table[i].id];
    return NULL;
}

static const struct option_info *find_spelling(const char *spelling)
{
    for (size_t i = 0; i < ARRAY_LENGTH(spelling_table); i++)
        if (spelling_table[i].spelling != NULL && strcmp(spelling_table[i].spelling, spelling) == 0)
            return &option_table[spelling_table[i].id];
    return NULL;
}

/* The argument is the rest of the word where there is one, else the next word. */
static bool take_option(struct reading *reading, const struct option_info *option,
                        const char *spelling, const char *rest)
{
    struct typed typed = {spelling, rest};

    if (option->argument == NULL)
        return option->take(reading, (struct typed){spelling, NULL});
    if (rest == NULL && reading->next == reading->argc)
        return options_refuse(reading, "%s needs a value behind it: %s %s", spelling, spelling,
                              option->argument);
    if (rest == NULL)
        typed.value = reading->argv[reading->next++];
    return option->take(reading, typed);
}

/* "--name", "--name VALUE" or "--name=VALUE". */
static bool read_long(struct reading *reading, const char *word)
{
    char spelling[64];
    size_t length = strcspn(word, "=");
    const char *rest = word[length] == '=' ? word + length + 1 : NULL;
    const struct option_info *option;

    snprintf(spelling, sizeof(spelling), "%.*s", (int)length, word);
    option = find_spelling(spelling + 2);
    if (option == NULL)
        return refuse_unknown(reading, spelling);
    if (option->argument == NULL && rest != NULL)
        return options_refuse(reading, "%s takes no value", spelling);
    return take_option(reading, option, spelling, rest);
}

/* "-duration=30s": some load generators have one dash before a long name. */
static bool has_one_dash_too_few(const char *word)
{
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 1, "="), word + 1);
    return strlen(name) > 1 && find_spelling(name) != NULL;
}

/* "-c 5", "-c5", and switches in a row: "-jV". */
static bool read_letters(struct reading *reading, const char *word)
{
    if (find_advice(word) != NULL)
        return refuse_unknown(reading, word);
    if (has_one_dash_too_few(word))
        return options_refuse(reading, "%s: a long name has two dashes before it: -%s", word, word);
    for (const char *at = word + 1; *at != '\0'; at++) {
        const struct option_info *option = find_letter(*at);
        char spelling[3] = {'-', *at, '\0'};

        if (option == NULL)
            return refuse_unknown(reading, spelling);
        if (option->argument != NULL)
            return take_option(reading, option, spelling, at[1] != '\0' ? at + 1 : NULL);
        if (!take_option(reading, option, spelling, NULL))
            return false;
    }
    return true;
}

static bool read_url(struct reading *reading, const char *word)
{
    struct plan *plan = reading->plan;

    if (plan->url_count == PLAN_URLS_MAX)
        return options_refuse(reading, "more than %d URLs; put them into a file: -f FILE",
                              PLAN_URLS_MAX);
    plan->urls[plan->url_count++] = word;
    return true;
}

static bool read_words(struct reading *reading)
{
    bool only_urls = false;

    while (reading->next < reading->argc) {
        const char *word = reading->argv[reading->next++];
        bool good;

        if (!only_urls && strcmp(word, "--") == 0) {
            only_urls = true;
            continue;
        }
        if (only_urls || word[0] != '-' || word[1] == '\0')
            good = read_url(reading, word);
        else
            good = word[1] == '-' ? read_long(reading, word) : read_letters(reading, word);
        if (!good)
            return false;
    }
    return true;
}

/* ---- What one option means for another ---- */

/* The largest number of connections that the stages ask for, or that of -c. */
static uint32_t most_connections(const struct plan *plan)
{
    double most = 0;

    if (!plan->stages_of_connections)
        return plan->connections_requested;
    for (size_t i = 0; i < plan->stage_count; i++)
        most = plan->stages[i].value > most ? plan->stages[i].value : most;
    return (uint32_t)most;
}

/* Of a file's name, its ending says the format. */
static enum plan_format format_of_output(const char *output)
{
    static const char *const endings[] = {
#define FORMAT(id, name, ending) [PLAN_FORMAT_##id] = (ending),
#include "loadgen/plan/formats.def"
#undef FORMAT
    };
    const char *ending = output != NULL ? strrchr(output, '.') : NULL;

    for (size_t i = 0; ending != NULL && i < ARRAY_LENGTH(endings); i++)
        if (strcmp(ending, endings[i]) == 0)
            return (enum plan_format)i;
    return PLAN_FORMAT_TEXT;
}

/* What the command line left open, and what cannot be more than something else. */
static void complete(struct plan *plan)
{
    if (plan->command == PLAN_SWEEP)
        options_complete_sweep(plan);
    if (plan->rounds == 0)
        plan->rounds = 1;
    if (plan->url_count == 0)
        plan->urls[plan->url_count++] = OPTIONS_DEFAULT_URL;
    if (plan->method == NULL)
        plan->method = plan->body != NULL || plan->body_file != NULL ? "POST" : "GET";
    if (plan->duration_ms == 0)
        for (size_t i = 0; i < plan->stage_count; i++)
            plan->duration_ms += plan->stages[i].duration_ms;
    if (plan->requests == 0 && plan->duration_ms == 0 && plan->replay_file == NULL)
        plan->duration_ms = DEFAULT_DURATION_MS;
    plan_set_connections(plan, most_connections(plan));
}

/* Options that say no to each other. */
static bool check(struct reading *reading)
{
    const struct plan *plan = reading->plan;
    bool open = plan_is_open(plan);

    if (plan->compare != NULL && plan->url_count != 1)
        return options_refuse(reading, "--compare needs two reports: --compare A.json B.json");
    if (plan->compare != NULL && plan->format != PLAN_FORMAT_TEXT)
        return options_refuse(reading, "--compare writes text only: leave the format out");
    if (plan->stage_count > 0 && (plan->rate > 0 || plan->ramp_ms > 0))
        return options_refuse(reading, "--stages says the load; --rate and --ramp say it too");
    if (plan->replay_file != NULL && (open && plan->rate > 0))
        return options_refuse(reading, "--replay keeps the times of the log; for another rate say "
                                       "-f FILE --rate N");
    if (plan->replay_file != NULL && (plan->urls_file != NULL || plan->ramp_ms > 0 ||
                                      plan->stage_count > 0 || plan->warmup_ms > 0))
        return options_refuse(reading, "--replay says all that is sent, and when: -f, --ramp, "
                                       "--stages and --warmup do not go with it");
    if (plan->poisson && (!open || plan->replay_file != NULL))
        return options_refuse(reading, "--arrivals poisson needs a rate: -r N");
    if (plan->replay_speed != 1 && plan->replay_file == NULL)
        return options_refuse(reading, "--speed is that of a replay: --replay FILE");
    if (open && plan->think_max_ms > 0)
        return options_refuse(reading, "--think is for a closed loop: a rate says when requests "
                                       "are sent");
    if (plan->body != NULL && plan->body_file != NULL)
        return options_refuse(reading, "--body and --body-file are two bodies for one request");
    if (plan->engine == PLAN_ENGINE_RAW && plan->http == PLAN_HTTP_2)
        return options_refuse(reading, "--engine raw speaks HTTP/1 only; leave it out for --http2");
    if ((plan->certificate == NULL) != (plan->key == NULL))
        return options_refuse(reading, "--cert and --key belong together");
    if (plan->rounds > 1 && plan->control_fd >= 0)
        return options_refuse(reading, "--control-fd changes one run; --repeat makes several");
    return plan->command != PLAN_SWEEP || options_check_sweep(reading);
}

enum options_result options_parse(int argc, char *const *argv, uint32_t cores, struct plan *plan,
                                  char *why, size_t size)
{
    struct reading reading = {argc, 1, argv, plan, OPTIONS_RUN, why, size};

    plan_begin(plan, cores);
    if (argc > 1 && strcmp(argv[1], "sweep") == 0) {
        plan->command = PLAN_SWEEP;
        reading.next++;
    }
    if (read_words(&reading)) {
        if (plan->format == PLAN_FORMAT_COUNT)
            plan->format = format_of_output(plan->output);
        if (check(&reading))
            complete(plan);
    }
    return reading.result;
}

static void put_option(FILE *out, char letter, const char *spelling, const char *argument,
                       const char *help)
{
    char left[64];

    snprintf(left, sizeof(left), "%c%c%c --%s %s", letter != 0 ? '-' : ' ',
             letter != 0 ? letter : ' ', letter != 0 ? ',' : ' ', spelling,
             argument != NULL ? argument : "");
    fprintf(out, "  %-29s%s\n", left, help);
}

void options_help(FILE *out)
{
    fprintf(out,
            "usage: wsload [option ...] [URL ...]\n"
            "       wsload sweep [option ...] [URL ...]\n"
            "       wsload lab [option ...] NAME ... | all\n\n"
            "Loads a web server (%s unless given) and says how it did.\n"
            "A sweep does so with few and with many connections, and says what limits it.\n"
            "The lab conducts experiments with a server of its own: wsload lab -h.\n",
            OPTIONS_DEFAULT_URL);
#define GROUP(title) fprintf(out, "\n%s\n", title);
#define OPTION(name, letter, spelling, argument, help)                                             \
    put_option(out, letter, spelling, argument, help);
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
    fprintf(out, "\nExit status: 0 good, 1 wrong use, 2 nothing was answered, 3 more errors than\n"
                 "--max-errors, 99 a condition of --fail-if or --abort-on, 130 interrupted.\n");
}
