#include "loadgen/options.h"

#include "common/macros.h"
#include "common/nearest.h"
#include "common/units.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* tchar of RFC 9110 section 5.6.2: what methods and header names are made of. */
#define TOKEN_CHARACTERS                                                                           \
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

enum {
    DEFAULT_CONNECTIONS = 50,
    DEFAULT_DURATION_MS = 10000,
    LONGEST_TIME_MS = 15 * 24 * 3600 * 1000, /* 15 days: what libcurl takes as a 32-bit long */
};

enum option_id {
#define OPTION(name, letter, spelling, argument, help) OPTION_##name,
#define ALIAS(name, letter, spelling)
#include "loadgen/options.def"
#undef OPTION
#undef ALIAS
};

/* The words of a command line as they are read, and where the first mistake is described. */
struct reading {
    int argc, next; /* next: index of the word that is read next */
    char *const *argv;
    struct plan *plan;
    enum options_result result;
    char *why;
    size_t size;
};

/* An option as it was typed: "-c" or "--connections", with what follows it. */
struct typed {
    const char *spelling;
    const char *value; /* NULL: a switch */
};

PRINTF_LIKE(2, 3) static bool refuse(struct reading *reading, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reading->why, reading->size, format, arguments);
    va_end(arguments);
    reading->result = OPTIONS_WRONG;
    return false;
}

/* A whole number from 1 to MOST. */
static bool take_number(struct reading *reading, struct typed typed, uint64_t most, uint32_t *out)
{
    uint64_t number;

    if (units_parse_count(typed.value, &number) != 0 || number < 1 || number > most)
        return refuse(reading, "%s %s: needs a whole number from 1 to %llu", typed.spelling,
                      typed.value, (unsigned long long)most);
    *out = (uint32_t)number;
    return true;
}

static bool take_time(struct reading *reading, struct typed typed, uint64_t least_ms, uint64_t *out)
{
    uint64_t ms;

    if (units_parse_time_ms(typed.value, &ms) != 0)
        return refuse(reading, "%s %s: needs a time, such as 500ms, 30s, 5m or 1h", typed.spelling,
                      typed.value);
    if (ms < least_ms || ms > LONGEST_TIME_MS)
        return refuse(reading, "%s %s: needs a time from %llums to 15 days (360h)", typed.spelling,
                      typed.value, (unsigned long long)least_ms);
    *out = ms;
    return true;
}

static bool take_connections(struct reading *reading, struct typed typed)
{
    return take_number(reading, typed, PLAN_CONNECTIONS_MAX, &reading->plan->connections_asked);
}

static bool take_requests(struct reading *reading, struct typed typed)
{
    uint64_t number;

    if (units_parse_count(typed.value, &number) != 0 || number < 1)
        return refuse(reading, "%s %s: needs a number of requests, such as 1000, 50k or 2m",
                      typed.spelling, typed.value);
    reading->plan->requests = number;
    return true;
}

static bool take_duration(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 1, &reading->plan->duration_ms);
}

/* Some load generators take a time limit after -t. */
static bool take_threads(struct reading *reading, struct typed typed)
{
    uint64_t number, ms;

    if (units_parse_number(typed.value, &number) != 0 && units_parse_time_ms(typed.value, &ms) == 0)
        return refuse(reading,
                      "%s %s: takes the number of client threads, not a time; say -d %s for the "
                      "length of the run, or --timeout %s for the longest time of one request",
                      typed.spelling, typed.value, typed.value, typed.value);
    return take_number(reading, typed, PLAN_THREADS_MAX, &reading->plan->threads);
}

static bool take_method(struct reading *reading, struct typed typed)
{
    size_t length = strlen(typed.value);

    if (length == 0 || strspn(typed.value, TOKEN_CHARACTERS) != length)
        return refuse(reading, "%s '%s': is not a request method; say for example GET or HEAD",
                      typed.spelling, typed.value);
    if (strcmp(typed.value, "CONNECT") == 0)
        return refuse(reading,
                      "%s CONNECT: asks for a tunnel, which is not load; use another method",
                      typed.spelling);
    reading->plan->method = typed.value;
    return true;
}

/* Fields that say where a message ends: requests carry no body, so these could only lie. */
static bool is_framing_field(const char *header, size_t name_length)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strlen(names[i]) == name_length && strncasecmp(header, names[i], name_length) == 0)
            return true;
    return false;
}

static bool take_header(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;
    size_t name_length = strspn(typed.value, TOKEN_CHARACTERS);

    if (name_length == 0 || typed.value[name_length] != ':')
        return refuse(reading, "%s '%s': needs a name, a colon and a value: 'Accept: text/html'",
                      typed.spelling, typed.value);
    if (strpbrk(typed.value, "\r\n") != NULL)
        return refuse(reading, "%s: a header field has no line break in it", typed.spelling);
    if (is_framing_field(typed.value, name_length))
        return refuse(reading, "%s '%s': is set by wsload itself, which sends no body",
                      typed.spelling, typed.value);
    if (plan->header_count == PLAN_HEADERS_MAX)
        return refuse(reading, "%s '%s': more than %d header fields", typed.spelling, typed.value,
                      PLAN_HEADERS_MAX);
    plan->headers[plan->header_count++] = typed.value;
    return true;
}

static bool take_no_keepalive(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->keepalive = false;
    return true;
}

static bool take_timeout(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 1, &reading->plan->timeout_ms);
}

static bool take_connect_timeout(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 1, &reading->plan->connect_timeout_ms);
}

static bool take_grace(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 0, &reading->plan->grace_ms);
}

static bool take_max_errors(struct reading *reading, struct typed typed)
{
    size_t digits = strspn(typed.value, "0123456789.");
    char *end;
    double percent = strtod(typed.value, &end);

    if (digits == 0 || end != typed.value + digits || percent > 100 ||
        (strcmp(end, "%") != 0 && (percent != 0 || *end != '\0')))
        return refuse(reading, "%s %s: needs a percentage from 0%% to 100%%, such as 0.1%%",
                      typed.spelling, typed.value);
    reading->plan->max_errors = percent;
    return true;
}

static bool take_json(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->json = true;
    return true;
}

static bool take_progress(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->progress_lines = true;
    return true;
}

static bool take_quiet(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->quiet = true;
    return true;
}

/* Help and version are answered at once: what stands behind them is not read. */
static bool take_version(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->result = OPTIONS_VERSION;
    return false;
}

static bool take_help(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->result = OPTIONS_HELP;
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
#define OPTION(name, letter, spelling, argument, help)                                             \
    [OPTION_##name] = {letter, spelling, argument, help, take_##name},
#define ALIAS(name, letter, spelling)
#include "loadgen/options.def"
#undef OPTION
#undef ALIAS
};

/* Every spelling there is, and whose it is. */
static const struct {
    enum option_id id;
    char letter;
    const char *spelling;
} spelling_table[] = {
#define OPTION(name, letter, spelling, argument, help) {OPTION_##name, letter, spelling},
#define ALIAS(name, letter, spelling)                  {OPTION_##name, letter, spelling},
#include "loadgen/options.def"
#undef OPTION
#undef ALIAS
};

/* What other load generators have or mean otherwise, and what to say instead. */
#define KEPT_ALIVE_ANYWAY "connections are kept alive anyway; --no-keepalive turns that off"

static const struct {
    const char *spelling, *advice;
} strange_options[] = {
    {"-q",
     "some load generators take a rate there, others mean quiet; say --quiet for no live line"},
    {"-k", KEPT_ALIVE_ANYWAY},
    {"--keepalive", KEPT_ALIVE_ANYWAY},
    {"--keep-alive", KEPT_ALIVE_ANYWAY},
};

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

    for (size_t i = 0; i < ARRAY_LENGTH(strange_options); i++)
        if (strcmp(strange_options[i].spelling, spelling) == 0)
            return refuse(reading, "%s is not an option here: %s", spelling,
                          strange_options[i].advice);
    if (nearest != NULL)
        return refuse(reading, "unknown option %s; did you mean --%s?", spelling, nearest);
    return refuse(reading, "unknown option %s; wsload -h lists the options", spelling);
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
        return refuse(reading, "%s needs a value behind it: %s %s", spelling, spelling,
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
        return refuse(reading, "%s takes no value", spelling);
    return take_option(reading, option, spelling, rest);
}

/* "-c 5", "-c5", and switches in a row: "-jV". */
static bool read_letters(struct reading *reading, const char *word)
{
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
    if (reading->plan->url != NULL)
        return refuse(reading, "takes one URL, but '%s' and '%s' were given", reading->plan->url,
                      word);
    reading->plan->url = word;
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

/* What the command line left open, and what cannot be more than something else. */
static void complete(struct plan *plan)
{
    if (plan->url == NULL)
        plan->url = OPTIONS_DEFAULT_URL;
    if (plan->requests == 0 && plan->duration_ms == 0)
        plan->duration_ms = DEFAULT_DURATION_MS;
    plan->connections = plan->connections_asked;
    if (plan->requests != 0 && plan->requests < plan->connections)
        plan->connections = (uint32_t)plan->requests;
    if (plan->threads > plan->connections)
        plan->threads = plan->connections;
}

enum options_result options_parse(int argc, char *const *argv, uint32_t cores, struct plan *plan,
                                  char *why, size_t size)
{
    struct reading reading = {argc, 1, argv, plan, OPTIONS_RUN, why, size};

    *plan = (struct plan){
        .method = "GET",
        .connections_asked = DEFAULT_CONNECTIONS,
        .threads = cores,
        .timeout_ms = 30000,
        .connect_timeout_ms = 5000,
        .grace_ms = 1000,
        .keepalive = true,
    };
    if (read_words(&reading))
        complete(plan);
    return reading.result;
}

void options_help(FILE *out)
{
    fprintf(out,
            "usage: wsload [option ...] [URL]\n\n"
            "Loads a web server (%s unless given) and says how it did.\n\n",
            OPTIONS_DEFAULT_URL);
    for (size_t i = 0; i < ARRAY_LENGTH(option_table); i++) {
        const struct option_info *option = &option_table[i];
        char left[64];

        snprintf(left, sizeof(left), "%c%c%c --%s %s", option->letter != 0 ? '-' : ' ',
                 option->letter != 0 ? option->letter : ' ', option->letter != 0 ? ',' : ' ',
                 option->spelling, option->argument != NULL ? option->argument : "");
        fprintf(out, "  %-27s%s\n", left, option->help);
    }
    fprintf(out, "\nExit status: 0 good, 1 wrong use, 2 nothing was answered,\n"
                 "3 more errors than --max-errors, 130 interrupted.\n");
}
