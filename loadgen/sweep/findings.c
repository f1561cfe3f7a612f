#include "loadgen/sweep/sweep.h"

#include "common/macros.h"
#include "common/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Cores or threads count as fully busy from this share on: measurements do not reach 100 %. */
#define BUSY_SERVER_SHARE  0.85
#define BUSY_MACHINE_SHARE 0.95

/* A rate is noisy if half its confidence interval is wider than this, in percent of the median. */
enum { NOISE_PERCENT = 30 };

PRINTF_LIKE(5, 0)
static void add_finding(struct sweep_finding *findings, size_t *count, size_t most,
                        const char *name, const char *format, va_list arguments)
{
    if (*count == most)
        return;
    findings[*count].name = name;
    vsnprintf(findings[*count].text, sizeof(findings->text), format, arguments);
    ++*count;
}

PRINTF_LIKE(3, 4)
static void add_to_curve(struct sweep_curve *curve, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_finding(curve->finding, &curve->finding_count, SWEEP_FINDINGS_MAX, name, format, arguments);
    va_end(arguments);
}

PRINTF_LIKE(3, 4)
static void add_note(struct sweep *sweep, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_finding(sweep->note, &sweep->note_count, SWEEP_NOTES_MAX, name, format, arguments);
    va_end(arguments);
}

static double median(const struct sweep_point *point, enum measure measure)
{
    return point->over_rounds[measure].median;
}

static uint32_t connections(const struct sweep_point *point)
{
    return point->plan.connections_requested;
}

/* ---- Points ---- */

static void conclude_points(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->point_count; i++) {
        struct sweep_point *point = &sweep->points[i];

        for (size_t m = 0; m < MEASURE_COUNT; m++)
            point->over_rounds[m] = trials_interval(sweep->trials, i, (enum measure)m);
        point->client_bound = median(point, MEASURE_CLIENT_SHARE) >= 100 * RESULT_BUSY_CLIENT_SHARE;
    }
}

/* ---- Noise ---- */

/* A curve is noisy if at least half of its points are. */
static void find_noise(struct sweep_curve *curve)
{
    size_t noisy = 0;

    for (size_t i = 0; i < curve->measured; i++)
        noisy += interval_percent(&curve->points[i].over_rounds[MEASURE_RATE]) > NOISE_PERCENT;
    curve->noisy = 2 * noisy >= curve->measured;
}

/* ---- Shape ---- */

static void find_curve_zones(struct sweep_curve *curve)
{
    struct zone_point points[PLAN_NUMBERS_MAX];
    enum zone of[PLAN_NUMBERS_MAX];

    for (size_t i = 0; i < curve->measured; i++)
        points[i] = (struct zone_point){connections(&curve->points[i]),
                                        median(&curve->points[i], MEASURE_RATE),
                                        median(&curve->points[i], MEASURE_ERRORS),
                                        curve->points[i].over_rounds[MEASURE_RATE].high};
    curve->zones = zones_find(points, curve->measured, of);
    for (size_t i = 0; i < curve->measured; i++)
        curve->points[i].zone = curve->noisy ? ZONE_UNKNOWN : of[i];
}

/* Finds the first and the last point of ZONE. Returns false if there is none. */
static bool range_of(const struct sweep_curve *curve, enum zone zone, size_t *first, size_t *last)
{
    bool found = false;

    for (size_t i = 0; i < curve->measured; i++) {
        if (curve->points[i].zone != zone)
            continue;
        if (!found)
            *first = i;
        *last = i;
        found = true;
    }
    return found;
}

static void report_best(struct sweep_curve *curve)
{
    const struct sweep_point *best = &curve->points[curve->zones.best];
    const struct interval *rate = &best->over_rounds[MEASURE_RATE];
    char most[MEASURE_TEXT], low[MEASURE_TEXT], high[MEASURE_TEXT], p99[MEASURE_TEXT];
    char sure[2 * MEASURE_TEXT + 32] = "";

    if (!isnan(rate->low))
        snprintf(sure, sizeof(sure), " (95 %% confidence: %s to %s)",
                 measure_format(low, MEASURE_RATE, rate->low),
                 measure_format(high, MEASURE_RATE, rate->high));
    add_to_curve(curve, "best",
                 "Maximum: %s requests/s with %" PRIu32 " connection%s%s; p99 there is %s.",
                 measure_format(most, MEASURE_RATE, rate->median), connections(best),
                 connections(best) == 1 ? "" : "s", sure,
                 measure_format(p99, MEASURE_P99, median(best, MEASURE_P99)));
}

static void report_knee(struct sweep_curve *curve)
{
    size_t first = 0, last = 0;
    double knee = round(curve->zones.knee);
    char text[UNITS_TEXT];

    if (!curve->zones.reached) {
        if (curve->measured > 1)
            add_to_curve(curve, "no_knee",
                         "No knee: the throughput still grows at %" PRIu32
                         " connections. Extend the sweep to more connections.",
                         connections(&curve->points[curve->measured - 1]));
        return;
    }
    range_of(curve, ZONE_PLATEAU, &first, &last);
    units_format_count(text, sizeof(text), knee);
    if (first == 0)
        add_to_curve(curve, "knee",
                     "The knee is at or below %" PRIu32
                     " connections, the lowest number of the sweep. "
                     "Begin the sweep with fewer connections to find it.",
                     connections(&curve->points[0]));
    else
        add_to_curve(
            curve, "knee",
            "The knee is at about %s connection%s: below it the throughput grows (linear); above "
            "it "
            "additional connections mostly add waiting time (plateau from %" PRIu32 " on).",
            text, knee > 1 ? "s" : "", connections(&curve->points[first]));
}

static void report_overload(struct sweep_curve *curve)
{
    size_t first = 0, last = 0;
    const struct sweep_point *end;
    double part, errors;

    if (!range_of(curve, ZONE_OVERLOAD, &first, &last))
        return;
    end = &curve->points[last];
    part = 1 - median(end, MEASURE_RATE) / median(&curve->points[curve->zones.best], MEASURE_RATE);
    errors = median(end, MEASURE_ERRORS);
    if (errors > ZONES_ERRORS)
        add_to_curve(curve, "overload",
                     "Overload from %" PRIu32 " connections on: at %" PRIu32
                     ", %.3g %% of the requests fail.",
                     connections(&curve->points[first]), connections(end), errors);
    else
        add_to_curve(curve, "overload",
                     "Overload from %" PRIu32 " connections on: at %" PRIu32
                     ", the throughput is %.0f %% below the maximum.",
                     connections(&curve->points[first]), connections(end), 100 * part);
}

/* ---- Universal Scalability Law ---- */

/* Ignores the points at which the client was the limit. */
static void fit_usl(struct sweep_curve *curve)
{
    struct usl_point points[PLAN_NUMBERS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < curve->measured; i++) {
        const struct sweep_point *point = &curve->points[i];

        if (!point->client_bound && median(point, MEASURE_RATE) > 0)
            points[count++] = (struct usl_point){connections(point), median(point, MEASURE_RATE)};
    }
    curve->has_usl = usl_fit(points, count, &curve->usl) && usl_is_good(&curve->usl);
}

/* Adds the predicted maximum, unless the law predicts unlimited growth. */
static void report_usl(struct sweep_curve *curve)
{
    const struct usl *usl = &curve->usl;
    double best = round(usl_peak_n(usl)), most = usl_peak_throughput(usl);
    char prediction[160] = "", rate[MEASURE_TEXT], at[UNITS_TEXT];

    if (!curve->has_usl)
        return;
    measure_format(rate, MEASURE_RATE, most);
    units_format_count(at, sizeof(at), best);
    if (!isinf(most) && isinf(best))
        snprintf(prediction, sizeof(prediction),
                 " It predicts at most %s requests/s for any number of connections.", rate);
    else if (!isinf(most))
        snprintf(prediction, sizeof(prediction),
                 " It predicts a maximum of %s requests/s at %s connection%s.", rate, at,
                 best > 1 ? "s" : "");
    add_to_curve(
        curve, "usl",
        "Universal Scalability Law: contention sigma %.3g, coherency kappa %.3g; mean error of "
        "the fit over %zu points: %.1f %%.%s",
        usl->sigma, usl->kappa, usl->points, 100 * usl->error, prediction);
}

/* ---- Limits ---- */

enum sweep_limit sweep_limit_of(const struct sweep_load *load)
{
    double cores = load->machine_cores;
    double usable = load->server_threads > 0 ? fmin(load->server_threads, cores) : cores;

    if (load->client_percent >= 100 * RESULT_BUSY_CLIENT_SHARE)
        return SWEEP_LIMIT_CLIENT;
    if (load->server_cores >= BUSY_SERVER_SHARE * usable)
        return usable < cores ? SWEEP_LIMIT_SERVER_THREADS : SWEEP_LIMIT_SERVER_CPU;
    return load->machine_percent >= 100 * BUSY_MACHINE_SHARE ? SWEEP_LIMIT_MACHINE
                                                             : SWEEP_LIMIT_UNKNOWN;
}

static enum sweep_limit find_limit(const struct sweep *sweep, const struct sweep_curve *curve)
{
    const struct sweep_point *best = &curve->points[curve->zones.best];
    const struct usl *usl = &curve->usl;
    const struct sweep_load load = {
        .client_percent = median(best, MEASURE_CLIENT_SHARE),
        .server_cores = median(best, MEASURE_SERVER_CORES),
        .machine_percent = median(best, MEASURE_MACHINE_BUSY),
        .server_threads = (double)curve->server.workers * curve->server.threads_per_worker,
        .machine_cores = sweep->machine_cores,
    };
    enum sweep_limit limit = sweep_limit_of(&load);

    if (limit == SWEEP_LIMIT_CLIENT)
        return limit;
    if (!curve->zones.reached)
        return SWEEP_LIMIT_NOT_REACHED;
    if (limit != SWEEP_LIMIT_UNKNOWN || !curve->has_usl)
        return limit;
    return usl->kappa * connections(best) > usl->sigma ? SWEEP_LIMIT_COHERENCY
                                                       : SWEEP_LIMIT_CONTENTION;
}

static void report_client(struct sweep_curve *curve, const struct sweep_point *best)
{
    const struct plan *plan = &best->plan;
    bool raw = plan->engine == PLAN_ENGINE_RAW || plan->http == PLAN_HTTP_2;

    add_to_curve(
        curve, "limit",
        "The client is the limit: each of its threads used %.0f %% of a core at the maximum, so "
        "the server may be faster.%s",
        median(best, MEASURE_CLIENT_SHARE),
        raw ? " Use more client threads, or generate the load on another machine."
            : " --engine raw needs less CPU time.");
}

static void report_server(const struct sweep *sweep, struct sweep_curve *curve,
                          const struct sweep_point *best)
{
    double cores = median(best, MEASURE_SERVER_CORES);
    uint32_t threads = curve->server.workers * curve->server.threads_per_worker;

    if (curve->limit == SWEEP_LIMIT_SERVER_THREADS)
        add_to_curve(curve, "limit",
                     "The server's threads are the limit: its %" PRIu32
                     " threads kept %.2f cores busy at the maximum, and this machine has %" PRIu32
                     " cores. More threads may increase the throughput.",
                     threads, cores, sweep->machine_cores);
    else
        add_to_curve(curve, "limit",
                     "The server's CPU time is the limit: it kept %.2f of this machine's %" PRIu32
                     " cores busy at the maximum.",
                     cores, sweep->machine_cores);
}

/* With the busy cores by program. */
static void report_machine(const struct sweep *sweep, struct sweep_curve *curve,
                           const struct sweep_point *best)
{
    double server = median(best, MEASURE_SERVER_CORES);
    double client = median(best, MEASURE_CLIENT_SHARE) / 100 * best->plan.threads;
    double others =
        median(best, MEASURE_MACHINE_BUSY) / 100 * sweep->machine_cores - server - client;
    char shares[128] = "";

    if (!isnan(server))
        snprintf(shares, sizeof(shares),
                 " (server %.2f, client %.2f, other programs and interrupts %.2f)", server, client,
                 fmax(others, 0));
    add_to_curve(
        curve, "limit",
        "This machine is the limit: its %" PRIu32
        " cores were all busy at the maximum%s, and server and client share them. Generate the "
        "load on another machine to measure the server alone.",
        sweep->machine_cores, shares);
}

static void report_limit(const struct sweep *sweep, struct sweep_curve *curve)
{
    const struct sweep_point *best = &curve->points[curve->zones.best];

    curve->limit = find_limit(sweep, curve);
    switch (curve->limit) {
    case SWEEP_LIMIT_CLIENT:
        report_client(curve, best);
        break;
    case SWEEP_LIMIT_SERVER_THREADS:
    case SWEEP_LIMIT_SERVER_CPU:
        report_server(sweep, curve, best);
        break;
    case SWEEP_LIMIT_MACHINE:
        report_machine(sweep, curve, best);
        break;
    case SWEEP_LIMIT_CONTENTION:
        add_to_curve(
            curve, "limit",
            "Contention is the limit: requests wait for a shared resource (a lock, a core, a disk, "
            "the network), and the cores were not all busy.");
        break;
    case SWEEP_LIMIT_COHERENCY:
        add_to_curve(
            curve, "limit",
            "Coherency is the limit: the cost of a request grows with the number of connections.");
        break;
    case SWEEP_LIMIT_UNKNOWN:
        add_to_curve(
            curve, "limit",
            "The limit is unknown: neither the client's threads nor the machine's cores were all "
            "busy. Possible: the network, a disk, a lock, or a configured limit.");
        break;
    case SWEEP_LIMIT_NOT_REACHED:
    case SWEEP_LIMIT_CONNECTIONS: /* only of an open loop */
        break;
    }
}

static void report_marks(struct sweep_curve *curve)
{
    size_t marked = 0;

    for (size_t i = 0; i < curve->measured; i++)
        marked += curve->points[i].client_bound;
    if (marked > 0)
        add_to_curve(
            curve, "client_bound",
            "The client was the limit at %zu of %zu points (marked !): its threads used %.0f %% of "
            "a core or more, and the latencies include waiting in the client.",
            marked, curve->measured, 100 * RESULT_BUSY_CLIENT_SHARE);
}

static void conclude_curve(struct sweep *sweep, struct sweep_curve *curve)
{
    size_t first = (size_t)(curve->points - sweep->points);

    while (curve->measured < curve->count &&
           trials_done(sweep->trials, first + curve->measured) > 0)
        curve->measured++;
    if (curve->measured == 0)
        return;
    find_noise(curve);
    find_curve_zones(curve);
    if (!(median(&curve->points[curve->zones.best], MEASURE_RATE) > 0)) {
        add_to_curve(curve, "nothing_answered", "No response was received.");
        return;
    }
    report_best(curve);
    if (curve->noisy) {
        curve->zones.knee = NAN;
        add_to_curve(
            curve, "noisy",
            "The rounds of most points differ by more than +-%d %%, too much to find knee, "
            "zones and limits. Stop other programs, or use longer runs (-d) or more rounds "
            "(--rounds).",
            NOISE_PERCENT);
    } else {
        fit_usl(curve);
        report_knee(curve);
        report_overload(curve);
        report_usl(curve);
        report_limit(sweep, curve);
    }
    report_marks(curve);
}

/* ---- The whole sweep ---- */

static double max_rate_of(const struct sweep_curve *curve)
{
    return curve->measured > 0 ? median(&curve->points[curve->zones.best], MEASURE_RATE) : 0;
}

static const struct interval *max_interval_of(const struct sweep_curve *curve)
{
    return &curve->points[curve->zones.best].over_rounds[MEASURE_RATE];
}

/* The number of curves whose maximum may be that of BEST; 0 without intervals. */
static size_t count_equals(const struct sweep *sweep, const struct sweep_curve *best)
{
    size_t equals = 0;

    for (size_t i = 0; i < sweep->curve_count; i++)
        equals += &sweep->curves[i] != best &&
                  max_interval_of(&sweep->curves[i])->high >= max_interval_of(best)->low;
    return equals;
}

static void compare_curves(struct sweep *sweep)
{
    const struct sweep_curve *best = &sweep->curves[0], *least = best;
    char most[MEASURE_TEXT], fewest[MEASURE_TEXT], others[128] = "";
    size_t equals;

    for (size_t i = 1; i < sweep->curve_count; i++) {
        if (max_rate_of(&sweep->curves[i]) > max_rate_of(best))
            best = &sweep->curves[i];
        if (max_rate_of(&sweep->curves[i]) < max_rate_of(least))
            least = &sweep->curves[i];
    }
    if (sweep->curve_count < 2 || !(max_rate_of(least) > 0))
        return;
    measure_format(most, MEASURE_RATE, max_rate_of(best));
    measure_format(fewest, MEASURE_RATE, max_rate_of(least));
    equals = count_equals(sweep, best);
    if (equals > 0)
        snprintf(others, sizeof(others),
                 " %zu other%s cannot be told apart from it: the intervals overlap.", equals,
                 equals == 1 ? "" : "s");
    if (best == least)
        add_note(sweep, "best_of_all", "All curves have the same maximum rate: %s requests/s.",
                 most);
    else if (equals == sweep->curve_count - 1)
        add_note(sweep, "best_of_all",
                 "The curves cannot be told apart: their maxima are %s to %s requests/s, and their "
                 "confidence intervals overlap that of the highest.",
                 fewest, most);
    else
        add_note(sweep, "best_of_all",
                 "Best curve: %s, with %s requests/s, %.2f times the rate of the worst (%s).%s",
                 best->name, most, max_rate_of(best) / max_rate_of(least), least->name, others);
}

static void note_end(struct sweep *sweep)
{
    size_t done = sweep_runs_done(sweep), all = sweep->point_count * sweep->plan->rounds;

    if (sweep->end == TRIALS_INTERRUPTED)
        add_note(sweep, "interrupted", "Interrupted after %zu of %zu runs.", done, all);
    if (sweep->end == TRIALS_ABORTED)
        add_note(sweep, "aborted", "Ended by --abort-on after %zu of %zu runs.", done, all);
    if (sweep->end == TRIALS_FAILED)
        add_note(sweep, "failed", "Failed after %zu of %zu runs: %s.", done, all, sweep->failure);
    if (sweep->status == RESULT_ERRORS)
        add_note(sweep, "too_many_errors",
                 "Some points had more errors than --max-errors allows (%g %%).",
                 sweep->plan->max_errors);
    if (sweep->status == RESULT_GATE && sweep->end == TRIALS_COMPLETE)
        add_note(sweep, "gate_failed", "A condition of --fail-if was met in a run.");
    if (sweep->plan->rounds < STATISTICS_INTERVAL_MIN)
        add_note(sweep, "few_rounds",
                 "Fewer than %d rounds: the medians have no confidence intervals.",
                 STATISTICS_INTERVAL_MIN);
}

void sweep_conclude(struct sweep *sweep)
{
    conclude_points(sweep);
    for (size_t i = 0; i < sweep->curve_count; i++)
        conclude_curve(sweep, &sweep->curves[i]);
    compare_curves(sweep);
    note_end(sweep);
}
