#include "loadgen/plan/plan.h"

#include "common/macros.h"
#include "common/units.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CONNECTIONS = 50 };

void plan_begin(struct plan *plan, uint32_t cores)
{
    *plan = (struct plan){
        .replay_speed = 1,
        .streams = 1,
        .keepalive = true,
        .resume = true,
        .family = AF_UNSPEC,
        .connections_requested = DEFAULT_CONNECTIONS,
        .threads_requested = cores,
        .timeout_ms = 30000,
        .connect_timeout_ms = 5000,
        .grace_ms = 1000,
        .control_fd = -1,
        .format = PLAN_FORMAT_COUNT,
    };
}

void plan_set_connections(struct plan *plan, uint32_t connections)
{
    plan->connections_requested = connections;
    plan->connections = connections;
    if (plan->requests != 0 && plan->requests < connections && !plan_is_open(plan))
        plan->connections = (uint32_t)plan->requests;
    plan->threads =
        plan->threads_requested < plan->connections ? plan->threads_requested : plan->connections;
}

bool plan_accepts_status(const struct plan_checks *checks, uint32_t status)
{
    for (size_t i = 0; i < checks->status_count; i++)
        if (checks->statuses[i] == status)
            return true;
    return checks->status_count == 0 && status >= 200 && status <= 399;
}

bool plan_parse_statuses(struct plan_checks *checks, const char *list)
{
    char text[256], *rest = NULL;
    bool good = strlen(list) < sizeof(text);

    snprintf(text, sizeof(text), "%s", list);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest)) {
        uint64_t status;

        good = checks->status_count < PLAN_STATUSES_MAX && units_parse_number(word, &status) == 0 &&
               status >= 100 && status <= 999;
        if (good)
            checks->statuses[checks->status_count++] = (uint16_t)status;
    }
    return good && checks->status_count > 0;
}

bool plan_parse_think(const char *think, uint64_t *min_ms, uint64_t *max_ms)
{
    char text[64], *dash;

    snprintf(text, sizeof(text), "%s", think);
    dash = strchr(text, '-');
    if (dash != NULL)
        *dash = '\0';
    return units_parse_time_ms(text, min_ms) == 0 &&
           units_parse_time_ms(dash != NULL ? dash + 1 : text, max_ms) == 0 && *min_ms <= *max_ms &&
           *max_ms <= PLAN_TIME_MAX_MS;
}

/* ---- Conditions ---- */

static const char *const series_names[] = {
    [CONDITION_LATENCY] = "latency",
    [CONDITION_SERVICE] = "service",
    [CONDITION_FIRST_BYTE] = "first_byte",
    [CONDITION_CONNECT] = "connect",
    [CONDITION_FULL_HANDSHAKE] = "full_handshake",
    [CONDITION_RESUMED_HANDSHAKE] = "resumed_handshake",
};

static int fail_condition(const char *text, const char *reason, char *why, size_t size)
{
    snprintf(why, size, "invalid condition '%s': %s (examples: p99>20ms, rate<1000, errors>0.1%%)",
             text, reason);
    return -1;
}

/* Skips the series that *NAME begins with, such as "service.". */
static enum condition_series take_series(const char **name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(series_names); i++) {
        size_t length = strlen(series_names[i]);

        if (strncmp(*name, series_names[i], length) == 0 && (*name)[length] == '.') {
            *name += length + 1;
            return (enum condition_series)i;
        }
    }
    return CONDITION_LATENCY;
}

/* TEXT is one decimal number. */
static bool read_limit_number(const char *text, double *out)
{
    size_t digits = strspn(text, "0123456789.");
    char *end;

    *out = strtod(text, &end);
    return digits > 0 && text[digits] == '\0' && *end == '\0';
}

static bool read_metric(struct condition *condition, const char *name)
{
    double number;

    condition->series = take_series(&name);
    if (strcmp(name, "mean") == 0)
        condition->metric = CONDITION_MEAN;
    else if (strcmp(name, "max") == 0)
        condition->metric = CONDITION_MAX;
    else if (strcmp(name, "rate") == 0)
        condition->metric = CONDITION_RATE;
    else if (strcmp(name, "errors") == 0)
        condition->metric = CONDITION_ERRORS;
    else if (name[0] == 'p' && read_limit_number(name + 1, &condition->percent) &&
             condition->percent > 0 && condition->percent < 100)
        condition->metric = CONDITION_PERCENTILE;
    else if (read_limit_number(name, &number) && strlen(name) == 3 && number >= 100)
        condition->metric = CONDITION_STATUS, condition->status = (uint32_t)number;
    else
        return false;
    return true;
}

static bool metric_is_time(enum condition_metric metric)
{
    return metric == CONDITION_PERCENTILE || metric == CONDITION_MEAN || metric == CONDITION_MAX;
}

/* "20ms", "1.5s", "800us", as ns. The unit is mandatory. */
static bool read_time(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 6e10}};
    size_t digits = strspn(text, "0123456789.");
    char number[32];

    if (digits == 0 || digits >= sizeof(number))
        return false;
    snprintf(number, sizeof(number), "%.*s", (int)digits, text);
    if (!read_limit_number(number, out))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
        if (strcmp(text + digits, units[i].unit) == 0) {
            *out *= units[i].ns;
            return true;
        }
    return false;
}

static bool read_limit(struct condition *condition, const char *text)
{
    char number[32];
    size_t length = strlen(text);
    uint64_t count;

    if (length > 1 && length < sizeof(number) && text[length - 1] == 'x') {
        condition->relative = true;
        snprintf(number, sizeof(number), "%.*s", (int)(length - 1), text);
        return read_limit_number(number, &condition->limit);
    }
    if (metric_is_time(condition->metric))
        return read_time(text, &condition->limit);
    if (condition->metric == CONDITION_ERRORS && length > 1 && text[length - 1] == '%') {
        condition->metric = CONDITION_ERROR_PERCENT;
        snprintf(number, sizeof(number), "%.*s", (int)(length - 1), text);
        return length <= sizeof(number) && read_limit_number(number, &condition->limit);
    }
    if (units_parse_count(text, &count) == 0) {
        condition->limit = (double)count;
        return true;
    }
    return read_limit_number(text, &condition->limit);
}

void condition_set_baseline(struct condition *condition, double value)
{
    condition->limit *= value;
    condition->relative = false;
}

int condition_parse(struct condition *condition, const char *text, char *why, size_t size)
{
    const char *start = text + strspn(text, " "), *sign = text + strcspn(text, "<>"), *limit;
    size_t name_length = (size_t)(sign - start);
    char name[32];

    *condition = (struct condition){.text = text, .above = *sign == '>'};
    if (*sign == '\0')
        return fail_condition(text, "no < or >", why, size);
    while (name_length > 0 && start[name_length - 1] == ' ')
        name_length--;
    if (name_length >= sizeof(name))
        return fail_condition(text, "unknown metric", why, size);
    snprintf(name, sizeof(name), "%.*s", (int)name_length, start);
    if (!read_metric(condition, name))
        return fail_condition(text, "unknown metric", why, size);
    condition->or_equal = sign[1] == '=';
    limit = sign + (condition->or_equal ? 2 : 1);
    if (!read_limit(condition, limit + strspn(limit, " ")))
        return fail_condition(text,
                              metric_is_time(condition->metric)
                                  ? "no time with a unit after the operator"
                                  : "no number after the operator",
                              why, size);
    return 0;
}
