#include "loadgen/report/report_part.h"

#include "loadgen/plan/plan.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The highest time that is read; 32 years in seconds. */
#define TIME_MAX_S 1e9

void part_fail(const struct report_part *part, const char *name, const char *format, ...)
{
    struct report_reader *reader = part->reader;
    va_list arguments;
    int used;

    if (reader->failed)
        return;
    reader->failed = true;
    used = snprintf(reader->why, reader->size, "%s: %s%s%s", reader->file, part->place, name,
                    name[0] != '\0' ? " " : "");
    va_start(arguments, format);
    if (used >= 0 && (size_t)used < reader->size)
        vsnprintf(reader->why + used, reader->size - (size_t)used, format, arguments);
    va_end(arguments);
}

/* ---- Members ---- */

static const json_t *part_member(const struct report_part *part, const char *name)
{
    const json_t *value = json_object_get(part->object, name);

    if (value == NULL)
        part_fail(part, name, "is missing: an older wsload wrote the report, or it is not one");
    return value;
}

struct report_part part_of(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);
    struct report_part inner = {part->reader, value, ""};

    snprintf(inner.place, sizeof(inner.place), "%.60s%.60s.", part->place, name);
    if (value != NULL && !json_is_object(value))
        part_fail(part, name, "is not an object");
    return inner;
}

uint64_t part_up_to(const struct report_part *part, const char *name, uint64_t max)
{
    const json_t *value = part_member(part, name);

    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        (uint64_t)json_integer_value(value) <= max)
        return (uint64_t)json_integer_value(value);
    part_fail(part, name, "is not an integer from 0 to %" PRIu64, max);
    return 0;
}

uint64_t part_count(const struct report_part *part, const char *name)
{
    return part_up_to(part, name, INT64_MAX / 1000);
}

uint32_t part_small(const struct report_part *part, const char *name)
{
    return (uint32_t)part_up_to(part, name, PLAN_CONNECTIONS_MAX);
}

double part_number(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (json_is_number(value) && json_number_value(value) >= 0)
        return json_number_value(value);
    part_fail(part, name, "is not a number of 0 or more");
    return 0;
}

uint64_t part_time(const struct report_part *part, const char *name, double unit_ns)
{
    double value = part_number(part, name) * unit_ns;

    if (value <= TIME_MAX_S * 1e9)
        return (uint64_t)llround(value);
    part_fail(part, name, "is too long a time");
    return 0;
}

bool part_is_null(const struct report_part *part, const char *name)
{
    return json_is_null(part_member(part, name));
}

bool part_switch(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (!json_is_boolean(value))
        part_fail(part, name, "is not true or false");
    return json_is_true(value);
}

const char *part_text(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (json_is_string(value))
        return json_string_value(value);
    part_fail(part, name, "is not a string");
    return "";
}

size_t part_choice(const struct report_part *part, const char *name, const char *const *names,
                   size_t count)
{
    const char *text = part_text(part, name);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    part_fail(part, name, "has the unknown value '%.40s'", text);
    return 0;
}

/* ---- Histograms ---- */

/* Reads a number up to MAX at *at. */
static bool take_digits(const char **at, uint64_t max, uint64_t *number)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0 && *number <= max;
}

/* "150:3,1": 3 values in bucket 150, 1 in 151. Returns the bucket after them; 0 if it is invalid. */
static uint64_t take_run(const char **at, struct histogram *times)
{
    uint64_t bucket, count;
    char before = ':';

    if (!take_digits(at, HISTOGRAM_BUCKETS - 1, &bucket))
        return 0;
    do {
        if (bucket == HISTOGRAM_BUCKETS || *(*at)++ != before ||
            !take_digits(at, INT64_MAX / HISTOGRAM_BUCKETS, &count))
            return 0;
        histogram_restore_bucket(times, (uint32_t)bucket++, count);
        before = ',';
    } while (**at == ',');
    return bucket;
}

/* Runs of buckets in rising order, separated by spaces. */
static bool take_counts(const char *text, struct histogram *times)
{
    uint64_t next = 0;

    while (*text != '\0') {
        if (next > 0 && *text++ != ' ')
            return false;
        if (strtoull(text, NULL, 10) < next)
            return false;
        next = take_run(&text, times);
        if (next == 0)
            return false;
    }
    return true;
}

static void check_buckets(const struct report_part *part, const char *name, uint64_t wanted)
{
    uint64_t found = part_count(part, name);

    if (found != wanted)
        part_fail(part, name,
                  "is %" PRIu64 ", but this wsload has %" PRIu64
                  ": histograms of different ranges cannot be merged",
                  found, wanted);
}

void part_times(const struct report_part *part, const char *name, struct histogram *times)
{
    struct report_part distribution = part_of(part, name);
    struct report_part histogram = part_of(&distribution, "histogram");

    check_buckets(&histogram, "sub_buckets", HISTOGRAM_SUB_BUCKETS);
    check_buckets(&histogram, "buckets", HISTOGRAM_BUCKETS);
    if (!take_counts(part_text(&histogram, "counts"), times))
        part_fail(&histogram, "counts", "is not a list of buckets");
    histogram_restore_sum(times, part_up_to(&histogram, "sum_ns", INT64_MAX),
                          part_up_to(&histogram, "max_ns", INT64_MAX));
    if (histogram_count(times) != part_count(&distribution, "count"))
        part_fail(&distribution, "count", "differs from the sum of the histogram");
}

/* ---- Lists ---- */

struct report_part part_item(const struct report_part *part, const char *name, const json_t *array,
                             size_t i)
{
    struct report_part item = {part->reader, json_array_get(array, i), ""};

    snprintf(item.place, sizeof(item.place), "%.60s%.40s[%zu].", part->place, name, i);
    return item;
}

const json_t *part_array(const struct report_part *part, const char *name)
{
    const json_t *array = part_member(part, name);

    if (!json_is_array(array))
        part_fail(part, name, "is not an array");
    return array;
}
