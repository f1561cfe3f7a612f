#include "common/units.h"

#include "common/clock.h"
#include "common/macros.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    double factor;
};

#define KIB 1024.0
static const struct unit size_units[] = {{"", 1},
                                         {"k", KIB},
                                         {"kb", KIB},
                                         {"m", KIB *KIB},
                                         {"mb", KIB *KIB},
                                         {"g", KIB *KIB *KIB},
                                         {"gb", KIB *KIB *KIB},
                                         {"t", KIB *KIB *KIB *KIB},
                                         {"tb", KIB *KIB *KIB *KIB}};
static const struct unit time_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
static const struct unit count_units[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}};

static const struct unit *find_unit(const char *name, const struct unit *units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, units[i].name) == 0)
            return &units[i];
    return NULL;
}

/*
 * Parses a decimal number (digits and a point, no exponent, no hexadecimal) followed by one of
 * UNITS. The product must be an integer below 2^63.
 */
static int parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *out)
{
    char *rest;
    double product;
    const struct unit *unit;

    if (!isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    product = strtod(text, &rest);
    unit = find_unit(rest, units, count);
    if (errno != 0 || rest != text + strspn(text, "0123456789.") || unit == NULL)
        return -1;
    product *= unit->factor;
    if (product >= 9.2e18 || product != floor(product))
        return -1;
    *out = (uint64_t)product;
    return 0;
}

int units_parse_size(const char *text, uint64_t *out_bytes)
{
    return parse_with_unit(text, size_units, ARRAY_LENGTH(size_units), out_bytes);
}

int units_parse_time_ms(const char *text, uint64_t *out_ms)
{
    return parse_with_unit(text, time_units, ARRAY_LENGTH(time_units), out_ms);
}

int units_parse_count(const char *text, uint64_t *out)
{
    return parse_with_unit(text, count_units, ARRAY_LENGTH(count_units), out);
}

int units_parse_number(const char *text, uint64_t *out)
{
    char *rest;
    unsigned long long number;

    if (!isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    number = strtoull(text, &rest, 10);
    if (errno != 0 || *rest != '\0')
        return -1;
    *out = number;
    return 0;
}

/* VALUE with three significant digits in the largest of UNITS that keeps it at least 1. */
static char *format_scaled(char *buffer, size_t size, double value, double step,
                           const char *const *units, size_t count)
{
    size_t unit = 0;

    while (unit + 1 < count && value >= step - 0.5) {
        value /= step;
        unit++;
    }
    if (value == 0)
        snprintf(buffer, size, "0");
    else
        snprintf(buffer, size, "%.*f%s",
                 unit == 0 || value >= 99.95 ? 0
                 : value >= 9.995            ? 1
                                             : 2,
                 value, units[unit]);
    return buffer;
}

char *units_format_bytes(char *buffer, size_t size, double bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};

    return format_scaled(buffer, size, bytes, 1024, units, ARRAY_LENGTH(units));
}

char *units_format_count(char *buffer, size_t size, double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};

    return format_scaled(buffer, size, count, 1000, units, ARRAY_LENGTH(units));
}

char *units_format_ns(char *buffer, size_t size, double ns)
{
    static const char *const units[] = {" ns", " us", " ms", " s"};

    if (ns >= 59.95e9 && ns < (double)INT64_MAX) /* 59.96 s would be "60.0 s" */
        return units_format_age(buffer, size, (uint64_t)round(ns / (double)NS_PER_S) * NS_PER_S);
    return format_scaled(buffer, size, ns, 1000, units, ARRAY_LENGTH(units));
}

char *units_format_percent(char *buffer, size_t size, double ratio)
{
    snprintf(buffer, size, fabs(ratio) >= 0.9995 ? "%.0f%%" : "%.1f%%", 100 * ratio);
    return buffer;
}

char *units_format_age(char *buffer, size_t size, uint64_t ns)
{
    uint64_t s = ns / NS_PER_S;

    if (s < 60)
        snprintf(buffer, size, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(buffer, size, "%" PRIu64 "m %02" PRIu64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buffer, size, "%" PRIu64 "h %02" PRIu64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(buffer, size, "%" PRIu64 "d %02" PRIu64 "h", s / 86400, s / 3600 % 24);
    return buffer;
}

char *units_format_utc(char *buffer, size_t size, int64_t time_s)
{
    time_t when = (time_t)time_s;
    struct tm fields;

    if (gmtime_r(&when, &fields) == NULL || strftime(buffer, size, "%F %T UTC", &fields) == 0)
        snprintf(buffer, size, "?");
    return buffer;
}

/* VALUE in the largest of UNITS (largest first) that divides it. */
static char *format_exact(char *buffer, size_t size, uint64_t value, const struct unit *units,
                          size_t count)
{
    size_t unit = 0;

    while (unit + 1 < count && (value == 0 || value % (uint64_t)units[unit].factor != 0))
        unit++;
    snprintf(buffer, size, "%" PRIu64 "%s", value / (uint64_t)units[unit].factor,
             value == 0 ? "" : units[unit].name);
    return buffer;
}

char *units_format_size(char *buffer, size_t size, uint64_t bytes)
{
    static const struct unit units[] = {
        {"T", 1099511627776.0}, {"G", 1073741824.0}, {"M", 1048576.0}, {"K", 1024.0}, {"", 1}};

    return format_exact(buffer, size, bytes, units, ARRAY_LENGTH(units));
}

char *units_format_time_ms(char *buffer, size_t size, uint64_t ms)
{
    static const struct unit units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

    return format_exact(buffer, size, ms, units, ARRAY_LENGTH(units));
}
