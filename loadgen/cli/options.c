#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/cli/internal.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Values that several options share ---- */

bool option_fail(struct option_reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why, reader->size, format, arguments);
    va_end(arguments);
    reader->result = OPTIONS_WRONG;
    return false;
}

bool option_read_time(struct option_reader *reader, struct option_value value, uint64_t min_ms,
                      uint64_t *out)
{
    uint64_t ms;

    if (units_parse_time_ms(value.text, &ms) != 0)
        return option_fail(reader, "%s %s: invalid time (examples: 500ms, 30s, 5m, 1h)",
                           value.spelling, value.text);
    if (ms < min_ms || ms > OPTION_TIME_MAX_MS)
        return option_fail(reader, "%s %s: out of range (%llums to 360h)", value.spelling,
                           value.text, (unsigned long long)min_ms);
    *out = ms;
    return true;
}

bool option_read_number(struct option_reader *reader, struct option_value value, uint64_t max,
                        uint32_t *out)
{
    uint64_t number;

    if (strchr(value.text, ',') != NULL)
        return option_fail(reader,
                           "%s %s: takes one number; a list needs a sweep: wsload sweep %s %s",
                           value.spelling, value.text, value.spelling, value.text);
    if (units_parse_count(value.text, &number) != 0 || number < 1 || number > max)
        return option_fail(reader, "%s %s: invalid number (1-%llu)", value.spelling, value.text,
                           (unsigned long long)max);
    *out = (uint32_t)number;
    return true;
}

static int compare_numbers(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return (a > b) - (a < b);
}

static bool add_list_number(struct plan_numbers *numbers, const char *word, uint64_t max)
{
    uint64_t number;

    if (units_parse_count(word, &number) != 0 || number < 1 || number > max)
        return false;
    for (size_t i = 0; i < numbers->count; i++)
        if (numbers->value[i] == number)
            return true;
    if (numbers->count == PLAN_NUMBERS_MAX)
        return false;
    numbers->value[numbers->count++] = (uint32_t)number;
    return true;
}

bool option_read_numbers(struct option_reader *reader, struct option_value value, uint64_t max,
                         struct plan_numbers *out)
{
    char text[512], *rest = NULL;
    bool good = strlen(value.text) < sizeof(text);

    out->count = 0;
    snprintf(text, sizeof(text), "%s", value.text);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest))
        good = add_list_number(out, word, max);
    if (!good || out->count == 0)
        return option_fail(reader,
                           "%s %s: invalid list of numbers (up to %d, 1-%llu; example: 1,2,5)",
                           value.spelling, value.text, PLAN_NUMBERS_MAX, (unsigned long long)max);
    qsort(out->value, out->count, sizeof(out->value[0]), compare_numbers);
    return true;
}

enum {
    DEFAULT_DURATION_MS = 10000,
    DEFAULT_ROUNDS = 5,
    DEFAULT_POINT_MS = 2000,
    DEFAULT_WARMUP_MS = 300,
    FIND_RATE_MS = 3000, /* of a trial */
    FIND_NUMBER_MS = 1000,
    FIND_CONNECTIONS = 200,
    FIND_CONNECTIONS_MAX = 1024, /* of wsload find --connections */
};

/* Results of getopt_long(), besides letters. */
enum { OPERAND = 1, LONG_NAME = 256 };

static const uint32_t default_connections[] = {1, 2, 5, 10, 20, 50, 100, 200};

enum option_id {
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help) OPTION_##name,
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
};

struct option_info {
    char letter;
    const char *spelling; /* without the dashes */
    const char *argument;
    const char *help;
    bool (*take)(struct option_reader *reader, struct option_value value);
};

static const struct option_info option_table[] = {
#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help)                                             \
    [OPTION_##name] = {letter, spelling, argument, help, option_set_##name},
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
};

/* All names, including aliases. */
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

/* What the short help lists. */
static const enum option_id first_options[] = {
    OPTION_connections, OPTION_requests, OPTION_duration, OPTION_rate,
    OPTION_method,      OPTION_header,   OPTION_body,     OPTION_http2,
    OPTION_insecure,    OPTION_output,   OPTION_json,     OPTION_help,
};

/* What wsload merge has: the checks and the output of a report. */
static const enum option_id merge_options[] = {
    OPTION_max_errors,  OPTION_fail_if, OPTION_baseline, OPTION_format, OPTION_output,
    OPTION_percentiles, OPTION_json,    OPTION_version,  OPTION_help,
};

/* Options of other load generators, and what to use instead. */
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

/* The spelling of an unknown option, with its dashes. */
static bool fail_unknown(struct option_reader *reader, const char *spelling)
{
    const char *advice = find_advice(spelling);
    const char *known[ARRAY_LENGTH(spelling_table)];
    char near[DID_YOU_MEAN_SIZE];
    size_t count = 0;

    if (advice != NULL)
        return option_fail(reader, "%s is not an option of wsload: %s", spelling, advice);
    for (size_t i = 0; i < ARRAY_LENGTH(spelling_table); i++)
        if (spelling_table[i].spelling != NULL)
            known[count++] = spelling_table[i].spelling;
    return option_fail(reader, "unknown option %s%s", spelling,
                       did_you_mean(near, spelling, WORD_LIST(known, count), "; see wsload -h"));
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

static bool merge_has(const struct option_info *option)
{
    for (size_t i = 0; i < ARRAY_LENGTH(merge_options); i++)
        if (option == &option_table[merge_options[i]])
            return true;
    return false;
}

/* Sets what wsload find varies. WORD is the operand or the option that says so. */
static bool set_goal(struct option_reader *reader, enum plan_find_what what, const char *word)
{
    struct plan *plan = reader->plan;
    char why[256];

    if (plan->find.what != PLAN_FIND_NOTHING)
        return option_fail(reader, "%s: find takes one of a condition, --connections and --threads",
                           word);
    plan->find.what = what;
    if (what != PLAN_FIND_RATE)
        return true;
    if (condition_parse(&plan->find.condition, word, why, sizeof(why)) != 0)
        return option_fail(reader, "find: %s", why);
    if (plan->find.condition.relative)
        return option_fail(reader, "find %s: needs a limit, not a multiple", word);
    if (plan->find.condition.metric == CONDITION_RATE || plan->find.condition.above)
        return option_fail(reader,
                           "find %s: the condition must be one that a lower rate meets "
                           "(examples: 'p99 < 20ms', 'errors < 0.1%%')",
                           word);
    return true;
}

static bool read_url(struct option_reader *reader, const char *word)
{
    struct plan *plan = reader->plan;
    bool first = plan->url_count == 0 && plan->command == PLAN_RUN && plan->compare == NULL;

    if (first && strcmp(word, "help") == 0) {
        reader->result = OPTIONS_HELP;
        return false;
    }
    if (first && (strcmp(word, "run") == 0 || strcmp(word, "attack") == 0)) /* k6, vegeta */
        return option_fail(reader,
                           "'%s' is not a command: wsload [option ...] URL; a host of that name is "
                           "http://%s/",
                           word, word);
    if (plan->command == PLAN_FIND && strpbrk(word, "<>") != NULL)
        return set_goal(reader, PLAN_FIND_RATE, word);
    if (plan->url_count == PLAN_URLS_MAX)
        return option_fail(reader, "more than %d URLs; use a file: -f FILE", PLAN_URLS_MAX);
    plan->urls[plan->url_count++] = word;
    return true;
}

/* WORD has letters of options: "-c5", "-jV". Other programs have long names after one dash. */
static bool check_letters(struct option_reader *reader, const char *word)
{
    char name[64];

    if (find_advice(word) != NULL)
        return fail_unknown(reader, word);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 1, "="), word + 1);
    if (strlen(name) > 1 && find_spelling(name) != NULL)
        return option_fail(reader, "%s: a long option needs two dashes: -%s", word, word);
    return true;
}

/* The long names of these options say what wsload find varies; the letters have a value. */
static bool option_is_goal(const struct option_reader *reader, const struct option_info *option,
                           bool is_long)
{
    return reader->plan->command == PLAN_FIND && is_long &&
           (option == &option_table[OPTION_connections] || option == &option_table[OPTION_threads]);
}

/* getopt_long() returned CODE for WORD, which begins with a dash. */
static bool take_option(struct option_reader *reader, const char *word, int code)
{
    bool is_long = word[1] == '-';
    const struct option_info *option;
    char spelling[64];

    if (is_long)
        snprintf(spelling, sizeof(spelling), "%.*s", (int)strcspn(word, "="), word);
    else if (check_letters(reader, word))
        snprintf(spelling, sizeof(spelling), "-%c", code == '?' || code == ':' ? optopt : code);
    else
        return false;
    option = is_long ? find_spelling(spelling + 2) : find_letter(spelling[1]);
    if (option == NULL) /* also if it is the beginning of a name */
        return fail_unknown(reader, spelling);
    if (code == '?')
        return option_fail(reader, "%s takes no value%s", spelling,
                           option_is_goal(reader, option, is_long) ? ": that of find is -c or -t"
                                                                   : "");
    if (option_is_goal(reader, option, is_long))
        return set_goal(reader,
                        option == &option_table[OPTION_threads] ? PLAN_FIND_THREADS
                                                                : PLAN_FIND_CONNECTIONS,
                        spelling);
    if (reader->plan->command == PLAN_MERGE && !merge_has(option))
        return option_fail(reader, "%s conflicts with merge, which sends no requests", spelling);
    if (code == ':')
        return option_fail(reader, "%s needs a value: %s %s", spelling, spelling, option->argument);
    return option->take(reader, (struct option_value){spelling, optarg});
}

/* Reads ARGV from its second word on. */
static bool read_arguments(struct option_reader *reader, int argc, char *const *argv)
{
    struct option names[ARRAY_LENGTH(spelling_table) + 1] = {{NULL, 0, NULL, 0}};
    char letters[2 * ARRAY_LENGTH(spelling_table) + 3] = "-:"; /* operands in order; no messages */
    size_t count = 0, length = strlen(letters);
    bool good = true;

    for (size_t i = 0; i < ARRAY_LENGTH(spelling_table); i++) {
        const struct option_info *option = &option_table[spelling_table[i].id];
        bool has_value = option->argument != NULL;

        if (spelling_table[i].spelling != NULL)
            names[count++] = (struct option){spelling_table[i].spelling,
                                             has_value && !option_is_goal(reader, option, true),
                                             NULL, LONG_NAME};
        if (spelling_table[i].letter != 0)
            length += (size_t)snprintf(letters + length, sizeof(letters) - length, "%c%s",
                                       spelling_table[i].letter, has_value ? ":" : "");
    }
    optind = 0; /* begin again */
    while (good) {
        const char *word = argv[optind > 0 ? optind : 1];
        int code = getopt_long(argc, argv, letters, names, NULL);

        if (code == -1)
            break;
        good = code == OPERAND ? read_url(reader, optarg) : take_option(reader, word, code);
    }
    if (reader->result == OPTIONS_HELP && optind < argc && strcmp(argv[optind], "all") == 0)
        reader->result = OPTIONS_HELP_ALL;
    while (good && optind < argc) /* after "--" */
        good = read_url(reader, argv[optind++]);
    return good;
}

/* ---- Dependencies between options ---- */

static const char *format_name(enum plan_format format)
{
    static const char *const names[] = {
#define FORMAT(id, name, ending) [PLAN_FORMAT_##id] = (name),
#include "loadgen/plan/formats.def"
#undef FORMAT
    };

    return names[format];
}

/* Whether a condition is relative to a baseline. */
static bool is_relative(const struct plan *plan)
{
    for (size_t i = 0; i < plan->fail_if_count; i++)
        if (plan->fail_if[i].relative)
            return true;
    for (size_t i = 0; i < plan->abort_on_count; i++)
        if (plan->abort_on[i].relative)
            return true;
    return false;
}

static bool check_sweep(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan_is_open(plan) || plan->ramp_ms > 0 || plan->stage_count > 0)
        return option_fail(
            reader,
            "a sweep conflicts with --rate, --ramp, --stages and --replay: it is a closed loop");
    if (plan->once || plan->rows == PLAN_ROWS_ONCE)
        return option_fail(reader, "a sweep conflicts with %s once: each point needs requests",
                           plan->once ? "--order" : "--rows");
    if (plan->control_fd >= 0)
        return option_fail(reader, "--control-fd conflicts with sweep");
    if (plan->format == PLAN_FORMAT_HDR || plan->format == PLAN_FORMAT_JUNIT)
        return option_fail(reader,
                           "--format %s is not available for sweeps (text, json, csv, html)",
                           format_name(plan->format));
    return true;
}

static void complete_sweep(struct plan *plan)
{
    struct plan_numbers *connections = &plan->sweep.connections;

    if (connections->count == 0) {
        connections->count = ARRAY_LENGTH(default_connections);
        memcpy(connections->value, default_connections, sizeof(default_connections));
    }
    if (!plan->keepalive)
        plan->sweep.keepalive = PLAN_KEEPALIVE_OFF;
    if (plan->rounds == 0)
        plan->rounds = DEFAULT_ROUNDS;
    if (plan->requests == 0 && plan->duration_ms == 0) {
        plan->duration_ms = DEFAULT_POINT_MS;
        plan->warmup_ms = plan->warmup_given ? plan->warmup_ms : DEFAULT_WARMUP_MS;
    }
    plan->connections_requested = connections->value[connections->count - 1];
}

static bool check_find(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan->find.what == PLAN_FIND_NOTHING)
        return option_fail(reader, "find needs a condition, --connections or --threads (example: "
                                   "wsload find 'p99 < 20ms')");
    if (plan->requests > 0 || plan->rounds > 0)
        return option_fail(reader,
                           "find conflicts with -n and --repeat: each trial has the time of -d");
    if (plan_is_open(plan) || plan->ramp_ms > 0 || plan->stage_count > 0)
        return option_fail(
            reader,
            "find conflicts with --rate, --ramp, --stages and --replay: it varies the load");
    if (plan->find.what == PLAN_FIND_RATE && (plan->think_max_ms > 0 || plan->think_recorded))
        return option_fail(reader, "find with a condition conflicts with --think: it has a rate");
    if (plan->once || plan->rows == PLAN_ROWS_ONCE)
        return option_fail(reader, "find conflicts with %s once: each trial needs requests",
                           plan->once ? "--order" : "--rows");
    if (plan->fail_if_count > 0 || plan->abort_on_count > 0 || plan->control_fd >= 0)
        return option_fail(reader, "find conflicts with --fail-if, --abort-on and --control-fd");
    if (plan->format == PLAN_FORMAT_HDR || plan->format == PLAN_FORMAT_JUNIT)
        return option_fail(reader, "--format %s is not available for find (text, json, csv, html)",
                           format_name(plan->format));
    return true;
}

static void complete_find(struct plan *plan)
{
    bool of_rate = plan->find.what == PLAN_FIND_RATE;

    if (plan->connections_requested == 0)
        plan->connections_requested =
            plan->find.what == PLAN_FIND_CONNECTIONS ? FIND_CONNECTIONS_MAX : FIND_CONNECTIONS;
    if (plan->duration_ms == 0)
        plan->duration_ms = of_rate ? FIND_RATE_MS : FIND_NUMBER_MS;
    if (!plan->warmup_given)
        plan->warmup_ms = DEFAULT_WARMUP_MS;
}

static bool check_merge(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan->url_count < 2)
        return option_fail(reader, "merge needs two reports or more: wsload merge A.json B.json");
    for (size_t i = 0; i < plan->url_count && plan->output != NULL; i++)
        if (strcmp(plan->urls[i], plan->output) == 0)
            return option_fail(reader, "-o %s would overwrite a report that is merged",
                               plan->output);
    return true;
}

/* The maximum number of connections over all stages or points, or the number of -c. */
static uint32_t max_connections(const struct plan *plan)
{
    double max = 0;

    if (plan->command == PLAN_SWEEP && plan->sweep.connections.count > 0)
        return plan->sweep.connections.value[plan->sweep.connections.count - 1];
    if (!plan->stages_of_connections)
        return plan->connections_requested;
    for (size_t i = 0; i < plan->stage_count; i++)
        max = plan->stages[i].value > max ? plan->stages[i].value : max;
    return (uint32_t)max;
}

/* The format that the suffix of the file name selects. */
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

/* Sets defaults and limits that depend on other options. */
/* The requests that a browser has in flight, unless --streams is given. */
static uint32_t page_streams(const struct plan *plan)
{
    return plan->http == PLAN_HTTP_2 ? PLAN_PAGE_STREAMS : PLAN_PAGE_CONNECTIONS;
}

static void complete(struct plan *plan)
{
    if (plan->command == PLAN_SWEEP)
        complete_sweep(plan);
    if (plan->command == PLAN_FIND)
        complete_find(plan);
    if (plan->rounds == 0)
        plan->rounds = 1;
    if (plan->url_count == 0)
        plan->urls[plan->url_count++] = OPTIONS_DEFAULT_URL;
    if (plan->once)
        plan->rows = PLAN_ROWS_ONCE;
    if (plan->zipf > 0)
        plan->order = PLAN_ORDER_RANDOM;
    if (plan->har_file != NULL && !plan->order_given)
        plan->order = PLAN_ORDER_EACH;
    plan->cookies = plan->cookies || plan->scenario_file != NULL;
    if (plan->page_loads)
        plan->engine = PLAN_ENGINE_RAW;
    if (plan->page_loads && plan->streams == 1)
        plan->streams = page_streams(plan);
    if (plan->method == NULL)
        plan->method = plan->body != NULL || plan->body_file != NULL ? "POST" : "GET";
    if (plan->duration_ms == 0)
        for (size_t i = 0; i < plan->stage_count; i++)
            plan->duration_ms += plan->stages[i].duration_ms;
    if (plan->requests == 0 && plan->duration_ms == 0 && plan->replay_file == NULL &&
        plan->rows != PLAN_ROWS_ONCE)
        plan->duration_ms = DEFAULT_DURATION_MS;
    plan_set_connections(plan, max_connections(plan));
}

/* At most one option says what to send. Names the first two that are given. */
static bool check_sources(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;
    const struct {
        const char *option, *file;
    } sources[] = {{"--scenarios", plan->scenario_file},
                   {"--har", plan->har_file},
                   {"--replay", plan->replay_file},
                   {"-f", plan->urls_file}};
    const char *first = NULL;

    for (size_t i = 0; i < ARRAY_LENGTH(sources); i++) {
        if (sources[i].file == NULL)
            continue;
        if (first != NULL)
            return option_fail(reader,
                               "%s conflicts with %s: only one of --scenarios, --har, "
                               "--replay and -f can be given",
                               first, sources[i].option);
        first = sources[i].option;
    }
    return true;
}

static bool check_har(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan->har_file == NULL && plan->think_recorded)
        return option_fail(reader, "--think recorded requires --har FILE");
    if (plan->har_file == NULL)
        return true;
    if (plan->method != NULL || plan->body != NULL || plan->body_file != NULL)
        return option_fail(reader, "--har conflicts with -m, -b and --body-file: the recording has "
                                   "methods and bodies");
    if (plan->url_count > 1)
        return option_fail(reader, "--har takes one URL: the server that gets the requests");
    if (plan->think_recorded && plan->order_given && plan->order != PLAN_ORDER_EACH)
        return option_fail(reader, "--think recorded requires --order each");
    return true;
}

static bool check_page_loads(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (!plan->page_loads)
        return true;
    if (plan->har_file == NULL)
        return option_fail(reader, "--page-loads requires --har FILE");
    if (plan->order_given || plan->csv_file != NULL || plan->think_recorded)
        return option_fail(reader, "--page-loads conflicts with --order, --csv and --think "
                                   "recorded: responses decide when a request begins");
    if (plan->cookies)
        return option_fail(reader, "--page-loads conflicts with --cookies: the recording has them");
    if (plan->engine_given && plan->engine != PLAN_ENGINE_RAW)
        return option_fail(reader, "--page-loads requires --engine raw, the default with it");
    if (!plan->keepalive || plan->requests_per_connection > 0 || plan->http == PLAN_HTTP_1_0)
        return option_fail(reader, "--page-loads conflicts with --no-keepalive, "
                                   "--max-reqs-per-conn and --http1.0: browsers keep connections");
    if ((uint64_t)max_connections(plan) * page_streams(plan) > PLAN_CONNECTIONS_MAX)
        return option_fail(reader, "--page-loads with %u browsers: more than %d requests at a time",
                           max_connections(plan), PLAN_CONNECTIONS_MAX);
    return true;
}

static bool check_scenarios(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan->scenario_file == NULL)
        return true;
    if (plan->method != NULL || plan->body != NULL || plan->body_file != NULL)
        return option_fail(reader, "--scenarios conflicts with -m, -b and --body-file: the steps "
                                   "have methods and bodies");
    if (plan->order_given)
        return option_fail(reader, "--scenarios conflicts with --order: the weights of the "
                                   "scenarios decide");
    if (plan->checks.size_known || plan->checks.digest_known)
        return option_fail(reader, "--scenarios conflicts with --expect-size and --expect-sha256: "
                                   "the steps have different bodies");
    if (plan_is_open(plan) && plan->rows == PLAN_ROWS_ONCE)
        return option_fail(reader, "--rows once with --scenarios conflicts with --rate: scenarios "
                                   "without a row would be due; use -n");
    return true;
}

static bool check_csv(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    if (plan->csv_file == NULL && plan->rows_given)
        return option_fail(reader, "--rows requires --csv FILE; for a list use --order");
    if (plan->csv_file != NULL && plan->replay_file != NULL)
        return option_fail(reader, "--csv conflicts with --replay: a log has no variables");
    if (plan->once && plan->rows_given && plan->rows != PLAN_ROWS_ONCE)
        return option_fail(reader, "--order once conflicts with --rows seq and random");
    if (plan_is_open(plan) && plan->order == PLAN_ORDER_EACH && plan->rows == PLAN_ROWS_ONCE)
        return option_fail(reader, "--rows once with --order each conflicts with --rate: a "
                                   "connection without a row would leave requests unsent");
    return true;
}

static bool check_cookies(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;

    bool keeps = plan->cookies || plan->scenario_file != NULL;

    for (size_t i = 0; keeps && i < plan->header_count; i++)
        if (strncasecmp(plan->headers[i], "Cookie:", strlen("Cookie:")) == 0)
            return option_fail(reader, "%s conflicts with -H '%s': the server sets them",
                               plan->cookies ? "--cookies" : "--scenarios", plan->headers[i]);
    return true;
}

/* Rejects conflicting options. */
static bool check(struct option_reader *reader)
{
    const struct plan *plan = reader->plan;
    bool open = plan_is_open(plan);

    if (plan->compare != NULL && plan->url_count != 1)
        return option_fail(reader, "--compare needs two reports: --compare A.json B.json");
    if (plan->compare != NULL && plan->format != PLAN_FORMAT_TEXT)
        return option_fail(reader, "--compare supports text only");
    if (!check_sources(reader))
        return false;
    if (plan->stage_count > 0 && (plan->rate > 0 || plan->ramp_ms > 0))
        return option_fail(reader, "--stages conflicts with --rate and --ramp");
    if (plan->replay_file != NULL && (open && plan->rate > 0))
        return option_fail(reader, "--replay conflicts with --rate; use -f FILE --rate N");
    if (plan->replay_file != NULL &&
        (plan->ramp_ms > 0 || plan->stage_count > 0 || plan->warmup_ms > 0))
        return option_fail(reader, "--replay conflicts with --ramp, --stages and --warmup");
    if (plan->replay_file != NULL && plan->order_given)
        return option_fail(reader, "--replay conflicts with --order: the log has times");
    if ((plan->once || plan->rows == PLAN_ROWS_ONCE) && plan->warmup_ms > 0)
        return option_fail(reader, "%s once conflicts with --warmup, which would use it up",
                           plan->once ? "--order" : "--rows");
    if (plan->poisson && plan->find.what != PLAN_FIND_RATE && (!open || plan->replay_file != NULL))
        return option_fail(reader, "--arrivals poisson requires a rate: -r N");
    if (plan->replay_speed != 1 && plan->replay_file == NULL && !plan->think_recorded)
        return option_fail(reader, "--speed requires --replay FILE or --think recorded");
    if (open && (plan->think_max_ms > 0 || plan->think_recorded))
        return option_fail(reader, "--think conflicts with --rate: it applies to closed loops");
    if (plan->body != NULL && plan->body_file != NULL)
        return option_fail(reader, "--body conflicts with --body-file");
    if (plan->streams > 1 && plan->http != PLAN_HTTP_2)
        return option_fail(reader, "--streams requires --http2");
    if (plan->streams > 1 && (!plan->keepalive || plan->requests_per_connection > 0))
        return option_fail(reader,
                           "--streams conflicts with --no-keepalive and --max-reqs-per-conn");
    if ((uint64_t)max_connections(plan) * plan->streams > PLAN_CONNECTIONS_MAX)
        return option_fail(reader, "--streams %u with %u connections: more than %d streams",
                           plan->streams, max_connections(plan), PLAN_CONNECTIONS_MAX);
    if ((plan->certificate == NULL) != (plan->key == NULL))
        return option_fail(reader, "--cert requires --key and vice versa");
    if (plan->baseline == NULL && is_relative(plan))
        return option_fail(reader, "a condition on a multiple, such as p99>1.1x, requires "
                                   "--baseline A.json");
    if (plan_hostile_clients(plan) > 0 && plan->http != PLAN_HTTP_1_1)
        return option_fail(reader, "hostile clients (--slow-head and others) speak HTTP/1.1 only");
    if (plan_hostile_clients(plan) > 0 && (plan->once || plan->rows == PLAN_ROWS_ONCE))
        return option_fail(reader,
                           "%s once conflicts with hostile clients: a run without them "
                           "comes first",
                           plan->once ? "--order" : "--rows");
    if (plan_hostile_clients(plan) > PLAN_CONNECTIONS_MAX)
        return option_fail(reader, "%u hostile clients: more than %d", plan_hostile_clients(plan),
                           PLAN_CONNECTIONS_MAX);
    if (plan_hostile_clients(plan) > 0 && plan->control_fd >= 0)
        return option_fail(reader, "--control-fd conflicts with hostile clients");
    if (plan->log_file != NULL && (plan->rounds > 1 || plan->command != PLAN_RUN))
        return option_fail(reader,
                           "--log conflicts with --repeat, sweep and find: it is of one run");
    if (plan->zipf > 0 && (plan->order_given || plan->har_file != NULL ||
                           plan->replay_file != NULL || plan->scenario_file != NULL))
        return option_fail(reader,
                           "--zipf conflicts with --order, --har, --replay and --scenarios: "
                           "it is a random order of a list");
    if (plan->zipf > 0 && plan->urls_file == NULL && plan->url_count < 2)
        return option_fail(reader, "--zipf needs a list of requests: -f FILE, or several URLs");
    if (plan->rounds > 1 && plan->control_fd >= 0)
        return option_fail(reader, "--control-fd conflicts with --repeat");
    if (plan->command == PLAN_MERGE)
        return check_merge(reader);
    return check_har(reader) && check_page_loads(reader) && check_scenarios(reader) &&
           check_csv(reader) && check_cookies(reader) &&
           (plan->command != PLAN_SWEEP || check_sweep(reader)) &&
           (plan->command != PLAN_FIND || check_find(reader));
}

enum options_result options_parse(int argc, char *const *argv, uint32_t cores, struct plan *plan,
                                  char *why, size_t size)
{
    struct option_reader reader = {plan, OPTIONS_RUN, why, size};
    int words = 0;

    plan_begin(plan, cores);
    if (argc > 1 && strcmp(argv[1], "sweep") == 0)
        plan->command = PLAN_SWEEP;
    else if (argc > 1 && strcmp(argv[1], "merge") == 0)
        plan->command = PLAN_MERGE;
    else if (argc > 1 && strcmp(argv[1], "find") == 0)
        plan->command = PLAN_FIND;
    if (plan->command != PLAN_RUN)
        words = 1;
    if (plan->command == PLAN_FIND)
        plan->connections_requested = 0; /* not given */
    if (read_arguments(&reader, argc - words, argv + words)) {
        if (plan->format == PLAN_FORMAT_COUNT)
            plan->format = format_of_output(plan->output);
        if (check(&reader))
            complete(plan);
    }
    return reader.result;
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

static void put_first_options(FILE *out)
{
    fprintf(out, "\n");
    for (size_t i = 0; i < ARRAY_LENGTH(first_options); i++) {
        const struct option_info *option = &option_table[first_options[i]];

        put_option(out, option->letter, option->spelling, option->argument, option->help);
    }
    fprintf(out,
            "\nwsload --help all lists the other options: TLS, scenarios, checks, formats, ...\n"
            "An open loop at a rate (-r) measures what users experience.\n");
}

static void put_all_options(FILE *out)
{
#define GROUP(title) fprintf(out, "\n%s\n", title);
#define OPTION(name, letter, spelling, argument, help)                                             \
    put_option(out, letter, spelling, argument, help);
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS
    fprintf(out, "\nExit status: 0 success, 1 usage error, 2 no response, 3 more errors than\n"
                 "--max-errors, 99 a condition of --fail-if or --abort-on, or find without an\n"
                 "answer, 130 interrupted.\n");
}

void options_help(FILE *out, bool all)
{
    fprintf(out,
            "usage: wsload [option ...] [URL ...]\n"
            "       wsload find CONDITION | --connections | --threads [option ...] [URL ...]\n"
            "       wsload sweep [option ...] [URL ...]\n"
            "       wsload merge [option ...] A.json B.json ...\n"
            "       wsload lab [option ...] NAME ... | all\n\n"
            "Loads a web server (default: %s) and reports rate, latency\n"
            "and errors. find searches for the highest rate that meets a condition, such as\n"
            "'p99 < 20ms'. A sweep measures over a range of connections and finds the limit.\n"
            "merge makes one report of runs on several machines (options: Checks, Output).\n"
            "The lab runs experiments with a server of its own: wsload lab -h.\n",
            OPTIONS_DEFAULT_URL);
    if (all)
        put_all_options(out);
    else
        put_first_options(out);
}
