#include "loadgen/compare.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/report_facts.h"
#include "loadgen/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGNIFICANT 0.01

enum { ENOUGH_SECONDS = 20 };

static const struct measure {
    const char *label;
    const char *member; /* of a second; NULL: answers a second */
} measures[] = {
    {"requests/s", NULL},
    {"p50", "p50_us"},
    {"p90", "p90_us"},
    {"p99", "p99_us"},
};

json_t *compare_read(const char *file, char *why, size_t size)
{
    json_error_t error;
    json_t *report = json_load_file(file, 0, &error);

    if (report == NULL) {
        snprintf(why, size, "%s: line %d: %s", file, error.line, error.text);
        return NULL;
    }
    if (!json_is_array(json_object_get(report, "seconds")) ||
        !json_is_object(json_object_get(report, "plan"))) {
        snprintf(why, size, "%s is no report of wsload: make one with --format json -o FILE", file);
        json_decref(report);
        return NULL;
    }
    return report;
}

static double number(const json_t *second, const char *member)
{
    return json_number_value(json_object_get(second, member));
}

/* The warm-up, a scrap of a second at the end, and a second without answers say nothing. */
static bool counts(const json_t *second)
{
    return !json_is_true(json_object_get(second, "warmup")) &&
           number(second, "end_s") - number(second, "begin_s") >= 0.2 &&
           number(second, "answered") > 0;
}

/* Returns how many VALUES were filled; there is room for one of each second. */
static size_t collect(const json_t *seconds, const struct measure *measure, double *values)
{
    size_t count = 0, i;
    const json_t *second;

    json_array_foreach(seconds, i, second)
    {
        if (!counts(second))
            continue;
        values[count++] = measure->member != NULL
                              ? number(second, measure->member)
                              : number(second, "answered") /
                                    (number(second, "end_s") - number(second, "begin_s"));
    }
    return count;
}

static void format(char *text, size_t size, const struct measure *measure, double value)
{
    if (isnan(value))
        snprintf(text, size, "-");
    else if (measure->member == NULL)
        report_group_digits(text, size, (uint64_t)(value + 0.5));
    else
        units_format_ns(text, size, value * 1e3);
}

/* How A and B differ in one measure. */
struct difference {
    double a, b; /* medians */
    double p;    /* NAN: too few seconds */
};

static bool is_significant(const struct difference *difference)
{
    return difference->p < SIGNIFICANT &&
           (difference->a < difference->b || difference->a > difference->b);
}

static bool is_better(const struct measure *measure, const struct difference *difference)
{
    return (difference->b > difference->a) == (measure->member == NULL);
}

static void put_difference(FILE *out, const struct measure *measure,
                           const struct difference *difference)
{
    char a[UNITS_TEXT], b[UNITS_TEXT], change[32] = "-", p[32] = "-";
    const char *verdict = "no difference found";

    format(a, sizeof(a), measure, difference->a);
    format(b, sizeof(b), measure, difference->b);
    if (difference->a > 0 && !isnan(difference->b))
        snprintf(change, sizeof(change), "%+.1f%%", 100 * (difference->b / difference->a - 1));
    if (isnan(difference->p))
        verdict = "too few seconds";
    else
        snprintf(p, sizeof(p), difference->p < 0.001 ? "<0.001" : "%.3f", difference->p);
    if (is_significant(difference))
        verdict = is_better(measure, difference) ? "B is better" : "B is worse";
    fprintf(out, "  %-12s%12s%12s%10s%10s  %s\n", measure->label, a, b, change, p, verdict);
}

/* Changes are ratios, and slow seconds lie far out: logarithms are compared. */
static void take_logarithms(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = log(fmax(values[i], 1e-3));
}

static bool compare_measure(FILE *out, const struct measure *measure, const json_t *a,
                            const json_t *b)
{
    size_t a_most = json_array_size(a), b_most = json_array_size(b), a_count, b_count;
    double *values = calloc(a_most + b_most + 1, sizeof(*values)), *of_b;
    struct difference difference = {NAN, NAN, NAN};

    if (values != NULL) {
        of_b = values + a_most;
        a_count = collect(a, measure, values);
        b_count = collect(b, measure, of_b);
        take_logarithms(values, a_count);
        take_logarithms(of_b, b_count);
        difference.p = statistics_difference(values, a_count, of_b, b_count);
        difference.a = exp(statistics_median(values, a_count));
        difference.b = exp(statistics_median(of_b, b_count));
    }
    put_difference(out, measure, &difference);
    free(values);
    return is_significant(&difference) && !is_better(measure, &difference);
}

/* Members of the plans that are not the same: what is compared may be that. */
static void put_plans(FILE *out, const json_t *a, const json_t *b)
{
    const json_t *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        if (!json_equal(value, json_object_get(b, key)))
            fprintf(out, "  ! The runs differ in their %s.\n", key);
    }
}

static size_t count_seconds(const json_t *report)
{
    size_t count = 0, i;
    const json_t *second;

    json_array_foreach(json_object_get(report, "seconds"), i, second)
    {
        count += counts(second);
    }
    return count;
}

static void put_caution(FILE *out, size_t seconds)
{
    if (seconds < ENOUGH_SECONDS)
        fprintf(
            out,
            "  ! Only %zu seconds are compared: %d or more of each run tell more from chance.\n",
            seconds, ENOUGH_SECONDS);
    fputs("  ! Two runs also differ by what the machine did meanwhile. Make more of them, in\n"
          "    turns, before you believe a small difference.\n",
          out);
}

bool compare_write(FILE *out, const json_t *a, const json_t *b)
{
    size_t a_seconds = count_seconds(a), b_seconds = count_seconds(b);
    bool worse = false;

    fprintf(out, "  %-12s%12s%12s%10s%10s\n", "By second", "median A", "median B", "change",
            "p-value");
    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++)
        worse = compare_measure(out, &measures[i], json_object_get(a, "seconds"),
                                json_object_get(b, "seconds")) ||
                worse;
    fputc('\n', out);
    put_plans(out, json_object_get(a, "plan"), json_object_get(b, "plan"));
    put_caution(out, a_seconds < b_seconds ? a_seconds : b_seconds);
    return worse;
}
