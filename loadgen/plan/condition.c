#include "loadgen/plan/condition.h"

#include "common/macros.h"
#include "common/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const series_names[] = {
    [CONDITION_LATENCY] = "latency",
    [CONDITION_SERVICE] = "service",
    [CONDITION_FIRST_BYTE] = "first_byte",
    [CONDITION_CONNECT] = "connect",
    [CONDITION_FULL_HANDSHAKE] = "full_handshake",
    [CONDITION_RESUMED_HANDSHAKE] = "resumed_handshake",
};

static int fail(const char *text, const char *reason, char *why, size_t size)
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
static bool read_number(const char *text, double *out)
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
    else if (name[0] == 'p' && read_number(name + 1, &condition->percent) &&
             condition->percent > 0 && condition->percent < 100)
        condition->metric = CONDITION_PERCENTILE;
    else if (read_number(name, &number) && strlen(name) == 3 && number >= 100)
        condition->metric = CONDITION_STATUS, condition->status = (uint32_t)number;
    else
        return false;
    return true;
}

static bool is_time(enum condition_metric metric)
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
    if (!read_number(number, out))
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
        return read_number(number, &condition->limit);
    }
    if (is_time(condition->metric))
        return read_time(text, &condition->limit);
    if (condition->metric == CONDITION_ERRORS && length > 1 && text[length - 1] == '%') {
        condition->metric = CONDITION_ERROR_PERCENT;
        snprintf(number, sizeof(number), "%.*s", (int)(length - 1), text);
        return length <= sizeof(number) && read_number(number, &condition->limit);
    }
    if (units_parse_count(text, &count) == 0) {
        condition->limit = (double)count;
        return true;
    }
    return read_number(text, &condition->limit);
}

void condition_set_baseline(struct condition *condition, double value)
{
    condition->limit *= value;
    condition->relative = false;
}

int condition_parse(struct condition *condition, const char *text, char *why, size_t size)
{
    size_t name_length = strcspn(text, "<>");
    const char *sign = text + name_length;
    char name[32];

    *condition = (struct condition){.text = text, .above = *sign == '>'};
    if (*sign == '\0')
        return fail(text, "no < or >", why, size);
    if (name_length >= sizeof(name))
        return fail(text, "unknown metric", why, size);
    snprintf(name, sizeof(name), "%.*s", (int)name_length, text);
    if (!read_metric(condition, name))
        return fail(text, "unknown metric", why, size);
    condition->or_equal = sign[1] == '=';
    if (!read_limit(condition, sign + (condition->or_equal ? 2 : 1)))
        return fail(text,
                    is_time(condition->metric) ? "no time with a unit after the operator"
                                               : "no number after the operator",
                    why, size);
    return 0;
}
