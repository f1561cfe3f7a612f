#include "loadgen/lab/points.h"

#include "common/clock.h"
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/stats/measures.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * The client counts as the limit if its threads use at least this much CPU time, as in the notes of
 * a run.
 */
#define BUSY_CLIENT_PERCENT 85.0

/* Spreads of the rounds above this get a note, in percent. */
#define WIDE_SPREAD 15

/*
 * The warm-up: 1/WARM_PART of the trial up to WARM_MOST_MS, plus time to open the connections, at
 * most OPENING_TRIALS times the trial.
 */
enum { WARM_PART = 5, WARM_MOST_MS = 500, WARM_CONNECTIONS_A_MS = 10, OPENING_TRIALS = 2 };

/* On a machine that pauses a program for seconds, late connections and responses are not errors. */
enum { LATE_MS = 30000 };

/* How long a trial waits at its end for responses that clients may not get. */
enum { STARVED_MS = 50 };

struct point *points_create(struct lab *lab, size_t count)
{
    return lab_allocate(lab, count, sizeof(struct point));
}

void point_init(struct lab *lab, struct point *point, struct private_server *server,
                const char *path, uint32_t connections, const char *label, ...)
{
    uint64_t warm_ms = lab->trial_ms / WARM_PART;
    uint64_t opening_ms = connections / WARM_CONNECTIONS_A_MS;
    va_list arguments;

    point->server = server;
    va_start(arguments, label);
    vsnprintf(point->label, sizeof(point->label), label, arguments);
    va_end(arguments);
    snprintf(point->url, sizeof(point->url), "http://127.0.0.1:%u%s",
             server != NULL ? private_server_port(server) : 0, path);
    plan_begin(&point->plan, lab->cores);
    point->plan.engine = PLAN_ENGINE_RAW;
    point->plan.urls[point->plan.url_count++] = point->url;
    point->plan.method = "GET";
    point->plan.duration_ms = lab->trial_ms;
    point->plan.grace_ms = LATE_MS;
    point->plan.connect_timeout_ms = LATE_MS;
    if (opening_ms > OPENING_TRIALS * lab->trial_ms)
        opening_ms = OPENING_TRIALS * lab->trial_ms;
    point->plan.warmup_ms = (warm_ms < WARM_MOST_MS ? warm_ms : WARM_MOST_MS) + opening_ms;
    point->plan.format = PLAN_FORMAT_TEXT;
    point->plan.quiet = true;
    plan_set_connections(&point->plan, connections);
}

void point_let_starve(struct point *point)
{
    point->starves = true;
    point->plan.grace_ms = STARVED_MS;
}

void point_use_bare(struct point *point, const struct bare_server *bare)
{
    const char *path = strchr(point->url + strlen("http://"), '/');
    char url[POINT_URL];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u%.*s", bare_server_port(bare), POINT_URL / 2,
             path);
    memcpy(point->url, url, sizeof(url));
    point->plan.urls[0] = point->url;
    point->bare = bare;
}

/* ---- Results ---- */

double point_rate(const struct point *point, uint32_t round)
{
    return trials_get(point->trials, point->index, round)->value[MEASURE_RATE];
}

struct interval point_interval(const struct point *point, enum measure measure)
{
    return trials_interval(point->trials, point->index, measure);
}

double point_median(const struct point *point, enum measure measure)
{
    return point_interval(point, measure).median;
}

double point_own_median(const struct point *point, enum point_measure measure)
{
    double values[POINT_ROUNDS];
    size_t count = 0;

    for (uint32_t i = 0; i < point->rounds; i++)
        if (!isnan(point->value[measure][i]))
            values[count++] = point->value[measure][i];
    return statistics_median(values, count);
}

struct interval point_cpu_ratio(const struct point *over, const struct point *under)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < over->rounds; i++)
        ratios[i] = figure_quotient(over->value[POINT_CPU][i], under->value[POINT_CPU][i]);
    return statistics_interval(ratios, over->rounds);
}

struct interval point_ratio(const struct point *over, const struct point *under,
                            enum measure measure)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < over->rounds; i++)
        ratios[i] = figure_quotient(trials_get(over->trials, over->index, i)->value[measure],
                                    trials_get(under->trials, under->index, i)->value[measure]);
    return statistics_interval(ratios, over->rounds);
}

struct interval point_rate_ratio(const struct point *over, const struct point *under)
{
    return point_ratio(over, under, MEASURE_RATE);
}

enum findings_kind comparison_verdict(const struct comparison *comparison)
{
    struct interval ratio = point_cpu_ratio(comparison->over, comparison->under);

    return ratio.low > 1 || ratio.high < 1 ? FINDINGS_LESSON : FINDINGS_UNDECIDED;
}

void point_record(struct lab *lab, const struct point *point, const char *name, ...)
{
    struct published_own *own = &lab->own;
    va_list arguments;

    if (own->count == PUBLISHED_OWN_MAX)
        return;
    va_start(arguments, name);
    vsnprintf(own->of[own->count].point, PUBLISHED_POINT, name, arguments);
    va_end(arguments);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        own->of[own->count].medians.value[i] = point_median(point, (enum measure)i);
    own->count++;
}

/* Whether the client was the limit: its threads used nearly all of their CPU time. */
static bool point_is_client_bound(const struct point *point)
{
    return point_median(point, MEASURE_CLIENT_SHARE) >= BUSY_CLIENT_PERCENT;
}

static struct contention points_contention(const struct point *points, size_t count)
{
    struct contention sum = {0};

    for (size_t i = 0; i < count; i++)
        contention_join(&sum, &points[i].contention);
    return sum;
}

static const char *busy_text(const struct contention *sum)
{
    return contention_is_high(sum) ? " (The machine was busy.)" : "";
}

const char *points_busy(const struct point *points, size_t count)
{
    struct contention sum = points_contention(points, count);

    return busy_text(&sum);
}

const char *comparison_busy(const struct comparison *comparison)
{
    struct contention sum = comparison->over->contention;

    contention_join(&sum, &comparison->under->contention);
    return busy_text(&sum);
}

void points_add_cautions(struct document *findings, const struct point *points, size_t count)
{
    struct contention sum = points_contention(points, count);
    double errors = 0, spread = 0; /* half the range of the rates, in percent of their median */
    char text[CONTENTION_TEXT];
    bool bound = false;

    for (size_t i = 0; i < count; i++) {
        const struct point *point = &points[i];
        double least = INFINITY, most = 0;

        for (uint32_t k = 0; k < trials_done(point->trials, point->index); k++) {
            least = fmin(least, point_rate(point, k));
            most = fmax(most, point_rate(point, k));
        }
        if (point_median(point, MEASURE_RATE) > 0)
            spread = fmax(spread, (most - least) / 2 / point_median(point, MEASURE_RATE) * 100);
        if (!point->starves)
            errors = fmax(errors, point_median(point, MEASURE_ERRORS));
        bound = bound || point_is_client_bound(point);
    }
    if (contention_is_high(&sum))
        findings_add(findings, FINDINGS_CAUTION,
                     "The machine was busy (%s): rates are lower and intervals wider than on an "
                     "idle one.",
                     contention_describe(text, &sum));
    if (errors > 0)
        findings_add(findings, FINDINGS_CAUTION,
                     "There were errors: up to %.3g%% of the requests of a point.", errors);
    if (spread > WIDE_SPREAD)
        findings_add(findings, FINDINGS_CAUTION,
                     "Noise: the rates of a point differ by up to %.0f%% from their median.",
                     spread);
    if (bound)
        findings_add(
            findings, FINDINGS_CAUTION,
            "Rates marked with *: the client was the limit (its threads used %.0f%% of a core "
            "or more), so the server may be faster.",
            BUSY_CLIENT_PERCENT);
}

char *lab_time(char *buffer, size_t size, double us)
{
    if (isnan(us)) {
        snprintf(buffer, size, "-");
        return buffer;
    }
    return units_format_ns(buffer, size, us * (double)NS_PER_US);
}

char *point_between(char *buffer, const struct point *point, enum measure measure)
{
    struct interval interval = point_interval(point, measure);
    char median[MEASURE_TEXT], low[MEASURE_TEXT], high[MEASURE_TEXT];

    measure_format(median, measure, interval.median);
    if (isnan(interval.low) || isnan(interval.high))
        snprintf(buffer, LAB_BETWEEN, "%s", median);
    else
        snprintf(buffer, LAB_BETWEEN, "%s (%s to %s with 95%% confidence)", median,
                 measure_format(low, measure, interval.low),
                 measure_format(high, measure, interval.high));
    return buffer;
}

static char *write_between(char *buffer, const struct interval *interval, lab_format *format,
                           const char *end)
{
    char median[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT];

    format(median, sizeof(median), interval->median);
    if (isnan(interval->median))
        snprintf(buffer, LAB_BETWEEN, "unknown");
    else if (isnan(interval->low) || !(interval->high > interval->low))
        snprintf(buffer, LAB_BETWEEN, "%s", median);
    else
        snprintf(buffer, LAB_BETWEEN, "%s (%s to %s%s)", median,
                 format(low, sizeof(low), fmax(interval->low, 0)),
                 format(high, sizeof(high), interval->high), end);
    return buffer;
}

char *lab_between(char *buffer, const struct interval *interval, lab_format *format)
{
    return write_between(buffer, interval, format, " with 95% confidence");
}

char *lab_range(char *buffer, const struct interval *interval, lab_format *format)
{
    return write_between(buffer, interval, format, "");
}

void lab_cell_interval(struct document *findings, const struct interval *interval,
                       lab_format *format)
{
    double width = interval_percent(interval);
    char text[UNITS_TEXT];

    if (isnan(interval->median))
        document_cell(findings, "-");
    else if (isnan(width))
        document_cell(findings, "%s", format(text, sizeof(text), interval->median));
    else
        document_cell(findings, "%s ±%.0f%%", format(text, sizeof(text), interval->median), width);
}

static char *format_share(char *buffer, size_t size, double ratio)
{
    snprintf(buffer, size, "%.0f%%", ratio * 100);
    return buffer;
}

static char *format_change(char *buffer, size_t size, double ratio)
{
    snprintf(buffer, size, "%+.1f%%", (ratio - 1) * 100);
    return buffer;
}

static char *write_ratio(char *buffer, const struct interval *ratio, lab_format *format,
                         const char *unit)
{
    char median[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT];

    format(median, sizeof(median), ratio->median);
    if (isnan(ratio->median))
        snprintf(buffer, LAB_RATIO, "unknown");
    else if (isnan(ratio->low) || isnan(ratio->high))
        snprintf(buffer, LAB_RATIO, "%s%s (too few rounds for a confidence interval)", median,
                 unit);
    else
        snprintf(buffer, LAB_RATIO, "%s%s (%s to %s with 95%% confidence)", median, unit,
                 format(low, sizeof(low), fmax(ratio->low, 0)),
                 format(high, sizeof(high), ratio->high));
    return buffer;
}

char *lab_times(char *buffer, const struct interval *ratio)
{
    return write_ratio(buffer, ratio, format_number, " times");
}

char *lab_share(char *buffer, const struct interval *ratio)
{
    return write_ratio(buffer, ratio, format_share, "");
}

char *lab_change(char *buffer, const struct interval *ratio)
{
    return write_ratio(buffer, ratio, format_change, "");
}

char *lab_times_alone(char *buffer, const struct interval *ratio)
{
    char median[UNITS_TEXT];

    if (isnan(ratio->median))
        snprintf(buffer, LAB_RATIO, "an unknown multiple");
    else
        snprintf(buffer, LAB_RATIO, "%s times",
                 format_number(median, sizeof(median), ratio->median));
    return buffer;
}

char *lab_percent(char *buffer, double percent)
{
    if (isnan(percent))
        snprintf(buffer, UNITS_TEXT, "unknown");
    else
        snprintf(buffer, UNITS_TEXT, "%.0f%%", percent);
    return buffer;
}

void lab_put_ratios(struct document *findings, const struct named_ratio *ratios, size_t count)
{
    static const char *const heads[] = {
        "ratio of the rounds", "median", "95% from", "to", "rounds", NULL};

    findings_table(findings, "Ratios", heads);
    for (size_t i = 0; i < count; i++) {
        const double values[] = {ratios[i].ratio.median, ratios[i].ratio.low, ratios[i].ratio.high};

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", ratios[i].name);
        for (size_t k = 0; k < ARRAY_LENGTH(values); k++) {
            char text[UNITS_TEXT];

            document_cell(findings, "%s",
                          isnan(values[k]) ? "-" : format_number(text, sizeof(text), values[k]));
        }
        document_cell(findings, "%zu", ratios[i].ratio.count);
    }
}

bool point_has_connections(const struct point *point)
{
    return !isnan(point_own_median(point, POINT_LEAST));
}

char *point_connections_text(char *buffer, const struct point *point)
{
    if (point_has_connections(point))
        snprintf(buffer, LAB_SPREAD, "%.0f to %.0f", point_own_median(point, POINT_LEAST),
                 point_own_median(point, POINT_MOST));
    else
        snprintf(buffer, LAB_SPREAD, "-");
    return buffer;
}

void point_explain_no_connections(struct document *findings, const char *name)
{
    findings_add(findings, FINDINGS_CAUTION,
                 "%s: the trials were too short to sample the connections of the threads; use a "
                 "longer --duration.",
                 name);
}

void point_cell_rate(struct document *findings, const struct point *point)
{
    struct interval rate = point_interval(point, MEASURE_RATE);
    char text[UNITS_TEXT], width[16] = "";

    if (!isnan(interval_percent(&rate)))
        snprintf(width, sizeof(width), " ±%.0f%%", interval_percent(&rate));
    document_cell(findings, "%s%s%s", format_number(text, sizeof(text), rate.median), width,
                  point_is_client_bound(point) ? " *" : "");
}

void point_cell(struct document *findings, const struct point *point, enum measure measure)
{
    char text[MEASURE_TEXT];

    document_cell(findings, "%s", measure_format(text, measure, point_median(point, measure)));
}

void point_cell_cpu(struct document *findings, const struct point *point)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s", lab_time(text, sizeof(text), point_own_median(point, POINT_CPU)));
}

/* ---- Plots by round ---- */

void points_plot_rounds(struct document *findings, const char *title, bool logarithmic)
{
    document_plot(findings, title, (struct plot_axis){false, axis_count},
                  (struct plot_axis){logarithmic, axis_time});
}

void point_line(struct document *findings, const struct point *point, const char *name,
                enum measure measure)
{
    document_line(findings, name, false);
    for (uint32_t round = 0; round < point->rounds; round++)
        document_point(findings, round + 1,
                       trials_get(point->trials, point->index, round)->value[measure] *
                           (double)NS_PER_US);
}

void point_line_cpu(struct document *findings, const struct point *point, const char *name)
{
    document_line(findings, name, false);
    for (uint32_t round = 0; round < point->rounds; round++)
        document_point(findings, round + 1, point->value[POINT_CPU][round] * (double)NS_PER_US);
}
