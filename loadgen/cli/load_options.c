/* Setters of the options for load, duration, repetitions and expectations. */
#include "loadgen/cli/internal.h"

#include "common/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_NUMBER_MAX = 4096 };

bool option_set_connections(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;

    if (plan->command == PLAN_SWEEP)
        return option_read_numbers(reader, value, PLAN_CONNECTIONS_MAX, &plan->sweep.connections);
    return option_read_number(reader, value, PLAN_CONNECTIONS_MAX, &plan->connections_requested);
}

bool option_set_requests(struct option_reader *reader, struct option_value value)
{
    uint64_t number;

    if (units_parse_count(value.text, &number) != 0 || number < 1)
        return option_fail(reader, "%s %s: invalid number of requests (examples: 1000, 50k, 2m)",
                           value.spelling, value.text);
    reader->plan->requests = number;
    return true;
}

/* Suggests -b: in curl and some load generators -d takes a body. */
bool option_set_duration(struct option_reader *reader, struct option_value value)
{
    if (strpbrk(value.text, "{}[]=&@\"<") != NULL)
        return option_fail(
            reader,
            "%s %s: not a duration (example: 30s); use -b TEXT or --body-file FILE for a body",
            value.spelling, value.text);
    return option_read_time(reader, value, 1, &reader->plan->duration_ms);
}

/* Suggests -d and --timeout: in some load generators -t takes a time. */
bool option_set_threads(struct option_reader *reader, struct option_value value)
{
    uint64_t number, ms;

    if (units_parse_number(value.text, &number) != 0 && units_parse_time_ms(value.text, &ms) == 0)
        return option_fail(reader,
                           "%s %s: not a number of client threads; use -d %s for the duration of "
                           "the run or --timeout %s for the timeout of a request",
                           value.spelling, value.text, value.text, value.text);
    return option_read_number(reader, value, PLAN_THREADS_MAX, &reader->plan->threads_requested);
}

bool option_set_timeout(struct option_reader *reader, struct option_value value)
{
    return option_read_time(reader, value, 1, &reader->plan->timeout_ms);
}

bool option_set_connect_timeout(struct option_reader *reader, struct option_value value)
{
    return option_read_time(reader, value, 1, &reader->plan->connect_timeout_ms);
}

bool option_set_wait_for_server(struct option_reader *reader, struct option_value value)
{
    return option_read_time(reader, value, 1, &reader->plan->wait_ms);
}

bool option_set_grace(struct option_reader *reader, struct option_value value)
{
    return option_read_time(reader, value, 0, &reader->plan->grace_ms);
}

bool option_set_max_errors(struct option_reader *reader, struct option_value value)
{
    size_t digits = strspn(value.text, "0123456789.");
    char *end;
    double percent = strtod(value.text, &end);

    if (digits == 0 || end != value.text + digits || percent > 100 ||
        (strcmp(end, "%") != 0 && (percent != 0 || *end != '\0')))
        return option_fail(reader, "%s %s: invalid percentage (0%%-100%%; example: 0.1%%)",
                           value.spelling, value.text);
    reader->plan->max_errors = percent;
    return true;
}

/* Help and version end the parsing: later arguments are ignored. */
bool option_set_version(struct option_reader *reader, struct option_value value)
{
    (void)value;
    reader->result = OPTIONS_VERSION;
    return false;
}

bool option_set_help(struct option_reader *reader, struct option_value value)
{
    (void)value;
    reader->result = OPTIONS_HELP;
    return false;
}

/* ---- Open loop, ramps, stages, think time ---- */

/*
 * Parses a decimal number above 0 at the start of TEXT, with an optional k or m; *end points after
 * it.
 */
static bool read_positive(const char *text, double *out, const char **end)
{
    size_t digits = strspn(text, "0123456789.");
    char *stop;

    *out = strtod(text, &stop);
    if (digits == 0 || stop != text + digits || *out <= 0 || *out > 1e9)
        return false;
    if (*stop == 'k' || *stop == 'K')
        *out *= 1e3, stop++;
    else if (*stop == 'm' || *stop == 'M')
        *out *= 1e6, stop++;
    *end = stop;
    return true;
}

/* Suggests --quiet: in other load generators -q means quiet. */
bool option_set_rate(struct option_reader *reader, struct option_value value)
{
    const char *end;

    if (strstr(value.text, "://") != NULL)
        return option_fail(reader, "%s %s: not a request rate; use --quiet for no live view",
                           value.spelling, value.text);
    if (!read_positive(value.text, &reader->plan->rate, &end) ||
        (*end != '\0' && strcmp(end, "/s") != 0))
        return option_fail(reader,
                           "%s %s: invalid rate (requests per second; examples: 100, 0.5, 20k)",
                           value.spelling, value.text);
    return true;
}

bool option_set_arrivals(struct option_reader *reader, struct option_value value)
{
    reader->plan->poisson = strcmp(value.text, "poisson") == 0;
    if (!reader->plan->poisson && strcmp(value.text, "constant") != 0)
        return option_fail(reader, "%s %s: unknown (constant, poisson)", value.spelling,
                           value.text);
    return true;
}

bool option_set_seed(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;

    plan->seed_given = true;
    if (units_parse_number(value.text, &plan->seed) == 0 && plan->seed <= PLAN_SEED_MAX)
        return true;
    return option_fail(reader, "%s %s: invalid seed (0-%llu)", value.spelling, value.text,
                       (unsigned long long)PLAN_SEED_MAX);
}

bool option_set_warmup(struct option_reader *reader, struct option_value value)
{
    reader->plan->warmup_given = true;
    return option_read_time(reader, value, 0, &reader->plan->warmup_ms);
}

bool option_set_ramp(struct option_reader *reader, struct option_value value)
{
    return option_read_time(reader, value, 0, &reader->plan->ramp_ms);
}

/* "10s:100" or "10s:100c". */
static bool read_stage(struct plan *plan, char *text)
{
    struct plan_stage *stage = &plan->stages[plan->stage_count];
    char *colon = strchr(text, ':');
    const char *end;
    bool of_connections;

    if (colon == NULL)
        return false;
    *colon = '\0';
    if (units_parse_time_ms(text, &stage->duration_ms) != 0 || stage->duration_ms == 0 ||
        stage->duration_ms > OPTION_TIME_MAX_MS || !read_positive(colon + 1, &stage->value, &end))
        return false;
    of_connections = *end == 'c';
    if (end[of_connections ? 1 : 0] != '\0' ||
        (of_connections && (stage->value < 1 || stage->value > PLAN_CONNECTIONS_MAX)) ||
        (plan->stage_count > 0 && of_connections != plan->stages_of_connections))
        return false;
    plan->stages_of_connections = of_connections;
    plan->stage_count++;
    return true;
}

bool option_set_stages(struct option_reader *reader, struct option_value value)
{
    char text[2048], *rest = NULL;

    reader->plan->stage_count = 0;
    snprintf(text, sizeof(text), "%s", value.text);
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (reader->plan->stage_count == PLAN_STAGES_MAX || !read_stage(reader->plan, word))
            return option_fail(
                reader,
                "%s %s: invalid stages (up to %d; examples: 10s:100,30s:1000 or 10s:5c,10s:50c)",
                value.spelling, value.text, PLAN_STAGES_MAX);
    if (reader->plan->stage_count == 0)
        return option_fail(reader, "%s: needs a stage (example: 10s:100)", value.spelling);
    return true;
}

/* "1s" or "500ms-2s". */
bool option_set_think(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;

    plan->think_recorded = strcmp(value.text, "recorded") == 0;
    plan->think_min_ms = plan->think_max_ms = 0;
    if (!plan->think_recorded &&
        !plan_parse_think(value.text, &plan->think_min_ms, &plan->think_max_ms))
        return option_fail(reader, "%s %s: invalid think time (examples: 1s, 500ms-2s, recorded)",
                           value.spelling, value.text);
    return true;
}

/* ---- Hostile clients ---- */

static bool set_hostile(struct option_reader *reader, struct option_value value,
                        enum plan_hostile kind)
{
    return option_read_number(reader, value, PLAN_CONNECTIONS_MAX, &reader->plan->hostile[kind]);
}

bool option_set_slow_head(struct option_reader *reader, struct option_value value)
{
    return set_hostile(reader, value, PLAN_HOSTILE_SLOW_HEAD);
}

bool option_set_slow_body(struct option_reader *reader, struct option_value value)
{
    return set_hostile(reader, value, PLAN_HOSTILE_SLOW_BODY);
}

bool option_set_slow_read(struct option_reader *reader, struct option_value value)
{
    return set_hostile(reader, value, PLAN_HOSTILE_SLOW_READ);
}

bool option_set_reset(struct option_reader *reader, struct option_value value)
{
    return set_hostile(reader, value, PLAN_HOSTILE_RESET);
}

bool option_set_idle(struct option_reader *reader, struct option_value value)
{
    return set_hostile(reader, value, PLAN_HOSTILE_IDLE);
}

/* ---- Checks ---- */

bool option_set_expect_status(struct option_reader *reader, struct option_value value)
{
    if (value.text[0] == '\0')
        return option_fail(reader, "%s: needs a status (example: 200)", value.spelling);
    if (!plan_parse_statuses(&reader->plan->checks, value.text))
        return option_fail(reader, "%s %s: invalid statuses (up to %d; example: 200,304)",
                           value.spelling, value.text, PLAN_STATUSES_MAX);
    return true;
}

bool option_set_expect_size(struct option_reader *reader, struct option_value value)
{
    struct plan_checks *checks = &reader->plan->checks;

    checks->size_known = units_parse_number(value.text, &checks->size) == 0;
    if (!checks->size_known)
        return option_fail(reader, "%s %s: invalid number of bytes", value.spelling, value.text);
    return true;
}

bool option_set_expect_sha256(struct option_reader *reader, struct option_value value)
{
    struct plan_checks *checks = &reader->plan->checks;
    bool good = strlen(value.text) == 2 * (size_t)PLAN_DIGEST_BYTES &&
                strspn(value.text, "0123456789abcdefABCDEF") == strlen(value.text);

    if (!good)
        return option_fail(reader, "%s %s: invalid SHA-256 (64 hexadecimal digits)", value.spelling,
                           value.text);
    for (size_t i = 0; i < PLAN_DIGEST_BYTES; i++) {
        const char digits[3] = {value.text[2 * i], value.text[2 * i + 1], '\0'};

        checks->digest[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    checks->digest_known = true;
    return true;
}

static bool add_option_condition(struct option_reader *reader, struct option_value value,
                                 struct condition *list, size_t *count)
{
    char why[256];

    if (*count == PLAN_CONDITIONS_MAX)
        return option_fail(reader, "%s: too many conditions (up to %d)", value.spelling,
                           PLAN_CONDITIONS_MAX);
    if (condition_parse(&list[*count], value.text, why, sizeof(why)) != 0)
        return option_fail(reader, "%s: %s", value.spelling, why);
    ++*count;
    return true;
}

bool option_set_fail_if(struct option_reader *reader, struct option_value value)
{
    return add_option_condition(reader, value, reader->plan->fail_if, &reader->plan->fail_if_count);
}

bool option_set_abort_on(struct option_reader *reader, struct option_value value)
{
    return add_option_condition(reader, value, reader->plan->abort_on,
                                &reader->plan->abort_on_count);
}

/* ---- Repetitions and sweeps ---- */

bool option_set_repeat(struct option_reader *reader, struct option_value value)
{
    return option_read_number(reader, value, PLAN_ROUNDS_MAX, &reader->plan->rounds);
}

static bool is_sweep(struct option_reader *reader, struct option_value value)
{
    if (reader->plan->command == PLAN_SWEEP)
        return true;
    return option_fail(reader, "%s applies to sweeps: wsload sweep %s %s", value.spelling,
                       value.spelling, value.text);
}

bool option_set_keepalive(struct option_reader *reader, struct option_value value)
{
    static const char *const names[] = {
        [PLAN_KEEPALIVE_ON] = "on", [PLAN_KEEPALIVE_OFF] = "off", [PLAN_KEEPALIVE_BOTH] = "both"};

    if (reader->plan->command != PLAN_SWEEP)
        return option_fail(reader,
                           "%s applies to sweeps (wsload sweep %s both): keep-alive is the "
                           "default; --no-keepalive disables it",
                           value.spelling, value.spelling);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(value.text, names[i]) == 0) {
            reader->plan->sweep.keepalive = (enum plan_keepalive)i;
            return true;
        }
    return option_fail(reader, "%s %s: unknown (on, off, both)", value.spelling, value.text);
}

bool option_set_server_threads(struct option_reader *reader, struct option_value value)
{
    return is_sweep(reader, value) && option_read_numbers(reader, value, SERVER_NUMBER_MAX,
                                                          &reader->plan->sweep.server_threads);
}

bool option_set_server_workers(struct option_reader *reader, struct option_value value)
{
    return is_sweep(reader, value) && option_read_numbers(reader, value, SERVER_NUMBER_MAX,
                                                          &reader->plan->sweep.server_workers);
}
