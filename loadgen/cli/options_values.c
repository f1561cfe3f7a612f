/* How much, how long, what is good. */
#include "loadgen/cli/options_take.h"

#include "common/units.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_TIME_MS = 15 * 24 * 3600 * 1000 }; /* 15 days: what libcurl takes as a 32-bit long */

static bool take_time(struct reading *reading, struct typed typed, uint64_t least_ms, uint64_t *out)
{
    uint64_t ms;

    if (units_parse_time_ms(typed.value, &ms) != 0)
        return options_refuse(reading, "%s %s: needs a time, such as 500ms, 30s, 5m or 1h",
                              typed.spelling, typed.value);
    if (ms < least_ms || ms > LONGEST_TIME_MS)
        return options_refuse(reading, "%s %s: needs a time from %llums to 15 days (360h)",
                              typed.spelling, typed.value, (unsigned long long)least_ms);
    *out = ms;
    return true;
}

bool take_connections(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;

    if (plan->command == PLAN_SWEEP)
        return options_take_numbers(reading, typed, PLAN_CONNECTIONS_MAX, &plan->sweep.connections);
    return options_take_number(reading, typed, PLAN_CONNECTIONS_MAX, &plan->connections_requested);
}

bool take_requests(struct reading *reading, struct typed typed)
{
    uint64_t number;

    if (units_parse_count(typed.value, &number) != 0 || number < 1)
        return options_refuse(reading, "%s %s: needs a number of requests, such as 1000, 50k or 2m",
                              typed.spelling, typed.value);
    reading->plan->requests = number;
    return true;
}

/* Some load generators, and curl, take a body after -d. */
bool take_duration(struct reading *reading, struct typed typed)
{
    if (strpbrk(typed.value, "{}[]=&@\"<") != NULL)
        return options_refuse(
            reading,
            "%s %s: takes the length of the run, such as 30s; a body is sent with "
            "-b TEXT or --body-file FILE",
            typed.spelling, typed.value);
    return take_time(reading, typed, 1, &reading->plan->duration_ms);
}

/* Some load generators take a time limit after -t. */
bool take_threads(struct reading *reading, struct typed typed)
{
    uint64_t number, ms;

    if (units_parse_number(typed.value, &number) != 0 && units_parse_time_ms(typed.value, &ms) == 0)
        return options_refuse(
            reading,
            "%s %s: takes the number of client threads, not a time; say -d %s for the "
            "length of the run, or --timeout %s for the longest time of one request",
            typed.spelling, typed.value, typed.value, typed.value);
    return options_take_number(reading, typed, PLAN_THREADS_MAX, &reading->plan->threads_requested);
}

bool take_timeout(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 1, &reading->plan->timeout_ms);
}

bool take_connect_timeout(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 1, &reading->plan->connect_timeout_ms);
}

bool take_grace(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 0, &reading->plan->grace_ms);
}

bool take_max_errors(struct reading *reading, struct typed typed)
{
    size_t digits = strspn(typed.value, "0123456789.");
    char *end;
    double percent = strtod(typed.value, &end);

    if (digits == 0 || end != typed.value + digits || percent > 100 ||
        (strcmp(end, "%") != 0 && (percent != 0 || *end != '\0')))
        return options_refuse(reading, "%s %s: needs a percentage from 0%% to 100%%, such as 0.1%%",
                              typed.spelling, typed.value);
    reading->plan->max_errors = percent;
    return true;
}

/* Help and version are answered at once: what stands behind them is not read. */
bool take_version(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->result = OPTIONS_VERSION;
    return false;
}

bool take_help(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->result = OPTIONS_HELP;
    return false;
}

/* ---- The course of the load ---- */

/* A decimal number above 0 at the front of TEXT, perhaps with k or m; *end is behind it. */
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

/* Other load generators mean quiet by -q, and a URL is what follows. */
bool take_rate(struct reading *reading, struct typed typed)
{
    const char *end;

    if (strstr(typed.value, "://") != NULL)
        return options_refuse(reading,
                              "%s %s: takes the rate of all requests, not a URL; say --quiet for "
                              "no live view",
                              typed.spelling, typed.value);
    if (!read_positive(typed.value, &reading->plan->rate, &end) ||
        (*end != '\0' && strcmp(end, "/s") != 0))
        return options_refuse(reading, "%s %s: needs requests a second, such as 100, 0.5 or 20k",
                              typed.spelling, typed.value);
    return true;
}

bool take_arrivals(struct reading *reading, struct typed typed)
{
    reading->plan->poisson = strcmp(typed.value, "poisson") == 0;
    if (!reading->plan->poisson && strcmp(typed.value, "constant") != 0)
        return options_refuse(reading, "%s %s: is either constant or poisson", typed.spelling,
                              typed.value);
    return true;
}

bool take_warmup(struct reading *reading, struct typed typed)
{
    reading->plan->warmup_given = true;
    return take_time(reading, typed, 0, &reading->plan->warmup_ms);
}

bool take_ramp(struct reading *reading, struct typed typed)
{
    return take_time(reading, typed, 0, &reading->plan->ramp_ms);
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
        stage->duration_ms > LONGEST_TIME_MS || !read_positive(colon + 1, &stage->value, &end))
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

bool take_stages(struct reading *reading, struct typed typed)
{
    char text[2048], *rest = NULL;

    reading->plan->stage_count = 0;
    snprintf(text, sizeof(text), "%s", typed.value);
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (reading->plan->stage_count == PLAN_STAGES_MAX || !read_stage(reading->plan, word))
            return options_refuse(reading,
                                  "%s %s: needs up to %d stages of time and rate, such as "
                                  "10s:100,30s:1000, or all with connections: 10s:5c,10s:50c",
                                  typed.spelling, typed.value, PLAN_STAGES_MAX);
    if (reading->plan->stage_count == 0)
        return options_refuse(reading, "%s: needs at least one stage, such as 10s:100",
                              typed.spelling);
    return true;
}

/* "1s" or "500ms-2s". */
bool take_think(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;
    char text[64], *dash;

    snprintf(text, sizeof(text), "%s", typed.value);
    dash = strchr(text, '-');
    if (dash != NULL)
        *dash = '\0';
    if (units_parse_time_ms(text, &plan->think_min_ms) != 0 ||
        units_parse_time_ms(dash != NULL ? dash + 1 : text, &plan->think_max_ms) != 0 ||
        plan->think_min_ms > plan->think_max_ms || plan->think_max_ms > LONGEST_TIME_MS)
        return options_refuse(reading, "%s %s: needs a time, such as 1s, or a range: 500ms-2s",
                              typed.spelling, typed.value);
    return true;
}

/* ---- What is good ---- */

bool take_expect_status(struct reading *reading, struct typed typed)
{
    struct plan_checks *checks = &reading->plan->checks;
    char text[256], *rest = NULL;

    snprintf(text, sizeof(text), "%s", typed.value);
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        uint64_t status;

        if (checks->status_count == PLAN_STATUSES_MAX || units_parse_number(word, &status) != 0 ||
            status < 100 || status > 999)
            return options_refuse(reading, "%s %s: needs up to %d statuses, such as 200,304",
                                  typed.spelling, typed.value, PLAN_STATUSES_MAX);
        checks->statuses[checks->status_count++] = (uint16_t)status;
    }
    if (checks->status_count == 0)
        return options_refuse(reading, "%s: needs a status, such as 200", typed.spelling);
    return true;
}

bool take_expect_size(struct reading *reading, struct typed typed)
{
    struct plan_checks *checks = &reading->plan->checks;

    checks->size_known = units_parse_number(typed.value, &checks->size) == 0;
    if (!checks->size_known)
        return options_refuse(reading, "%s %s: needs a number of bytes, in digits", typed.spelling,
                              typed.value);
    return true;
}

bool take_expect_sha256(struct reading *reading, struct typed typed)
{
    struct plan_checks *checks = &reading->plan->checks;
    bool good = strlen(typed.value) == 2 * (size_t)PLAN_DIGEST_BYTES &&
                strspn(typed.value, "0123456789abcdefABCDEF") == strlen(typed.value);

    if (!good)
        return options_refuse(reading, "%s %s: needs 64 hexadecimal digits, as sha256sum prints",
                              typed.spelling, typed.value);
    for (size_t i = 0; i < PLAN_DIGEST_BYTES; i++) {
        const char digits[3] = {typed.value[2 * i], typed.value[2 * i + 1], '\0'};

        checks->digest[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    checks->digest_known = true;
    return true;
}

static bool take_condition(struct reading *reading, struct typed typed, struct condition *list,
                           size_t *count)
{
    char why[256];

    if (*count == PLAN_CONDITIONS_MAX)
        return options_refuse(reading, "%s: more than %d conditions", typed.spelling,
                              PLAN_CONDITIONS_MAX);
    if (condition_parse(&list[*count], typed.value, why, sizeof(why)) != 0)
        return options_refuse(reading, "%s: %s", typed.spelling, why);
    ++*count;
    return true;
}

bool take_fail_if(struct reading *reading, struct typed typed)
{
    return take_condition(reading, typed, reading->plan->fail_if, &reading->plan->fail_if_count);
}

bool take_abort_on(struct reading *reading, struct typed typed)
{
    return take_condition(reading, typed, reading->plan->abort_on, &reading->plan->abort_on_count);
}
