/* The effect on clients of a killed worker, a reload, and a log rotation. */
#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/observed.h"
#include "loadgen/stats/measures.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

enum {
    STEP_MS = 100,
    TRIALS_LONG = 3, /* duration of a run, in trial durations */
    TRIALS_LONG_QUICK = 5,
    LEAST_STEPS = 24,
    TRIAL_TRIES = 5, /* each twice as long, until there are steps before and after the event */
    ROUNDS_MOST = 9,
    POINTS_MOST = 400,
};

/* The rate has recovered at this share of the rate before the event. */
#define RECOVERED 0.9

/* ---- Events ---- */

struct noise {
    struct lab *lab;
    struct private_server *server;
    pid_t worker; /* the worker to kill */
    char log[PRIVATE_SERVER_PATH + 16], rotated[PRIVATE_SERVER_PATH + 16];
};

static void no_event(void *context)
{
    (void)context;
}

static void kill_worker(void *context)
{
    const struct noise *noise = context;

    kill(noise->worker, SIGKILL);
}

static void reload(void *context)
{
    const struct noise *noise = context;

    kill(private_server_pid(noise->server), SIGHUP);
}

static void rotate(void *context)
{
    const struct noise *noise = context;

    if (rename(noise->log, noise->rotated) == 0)
        kill(private_server_pid(noise->server), SIGUSR1);
}

static const struct event {
    const char *name;
    void (*trigger)(void *context);
} events[] = {
    {"No event", no_event},
    {"Killed worker", kill_worker},
    {"Reload", reload},
    {"Log rotation", rotate},
};

enum { EVENTS = ARRAY_LENGTH(events), NO_EVENT = 0 };

/* ---- Measuring the effect ---- */

enum effect { RATE_BEFORE, RATE_LOWEST, P99_BEFORE, P99_WORST, ERRORS, RECOVERY_NS, EFFECTS };

/* The effects of one event by round, and the steps of the first round. */
struct effects {
    double value[EFFECTS][ROUNDS_MOST];
    uint32_t rounds;
    size_t points;
    double event_s;
    double seconds[POINTS_MOST], rate[POINTS_MOST], p99[POINTS_MOST];
};

/* The number of complete steps. */
static size_t whole_steps(const struct series *series)
{
    return series->count > 1 ? series->count - 1 : 0;
}

static size_t step_of_event(const struct observed *run)
{
    size_t i = 1;

    while (i < whole_steps(run->series) &&
           run->series->entry[i].end_ns <= run->event_ms * NS_PER_MS)
        i++;
    return i;
}

static void take_before(const struct observed *run, size_t step, double *value)
{
    double rates[POINTS_MOST], p99s[POINTS_MOST];
    size_t count = 0;

    for (size_t i = 1; i < step && count < POINTS_MOST; i++, count++) {
        rates[count] = observed_rate(&run->series->entry[i]);
        p99s[count] = (double)run->series->entry[i].p99_ns;
    }
    value[RATE_BEFORE] = statistics_median(rates, count);
    value[P99_BEFORE] = statistics_median(p99s, count);
}

static void take_after(const struct observed *run, size_t step, double *value)
{
    const struct series_entry *entry = run->series->entry;

    value[RATE_LOWEST] = INFINITY;
    value[P99_WORST] = value[ERRORS] = value[RECOVERY_NS] = 0;
    for (size_t i = step; i < run->series->count; i++)
        value[ERRORS] += (double)entry[i].bad;
    for (size_t i = step; i < whole_steps(run->series); i++) {
        double rate = observed_rate(&entry[i]);

        value[RATE_LOWEST] = fmin(value[RATE_LOWEST], rate);
        value[P99_WORST] = fmax(value[P99_WORST], (double)entry[i].p99_ns);
        if (rate < RECOVERED * value[RATE_BEFORE])
            value[RECOVERY_NS] = (double)entry[i].end_ns - (double)run->event_ms * 1e6;
    }
}

static void record_course(const struct observed *run, struct effects *effects)
{
    for (size_t i = 0; i < whole_steps(run->series) && effects->points < POINTS_MOST; i++) {
        const struct series_entry *entry = &run->series->entry[i];

        effects->seconds[effects->points] = (double)entry->end_ns / 1e9;
        effects->rate[effects->points] = observed_rate(entry);
        effects->p99[effects->points++] = (double)entry->p99_ns;
    }
    effects->event_s = (double)run->event_ms / 1e3;
}

/*
 * Returns false, and keeps nothing, if there are no steps with responses before the event or none
 * after it.
 */
static bool keep_effects(const struct observed *run, struct effects *effects)
{
    size_t step = step_of_event(run);
    double value[EFFECTS];

    if (step < 2 || step >= whole_steps(run->series))
        return false;
    take_before(run, step, value);
    take_after(run, step, value);
    if (!(value[RATE_BEFORE] > 0) || !(value[P99_WORST] > 0))
        return false;
    if (effects->rounds == 0)
        record_course(run, effects);
    for (size_t i = 0; i < EFFECTS; i++)
        effects->value[i][effects->rounds] = value[i];
    effects->rounds++;
    return true;
}

static struct interval interval_of(const struct effects *effects, enum effect of)
{
    double values[ROUNDS_MOST];

    for (uint32_t i = 0; i < effects->rounds; i++)
        values[i] = effects->value[of][i];
    return statistics_interval(values, effects->rounds);
}

/*
 * The rate after the event in percent of the rate before it: the median of the ratios of the
 * rounds.
 */
static struct interval rate_kept(const struct effects *effects)
{
    double values[ROUNDS_MOST];

    for (uint32_t i = 0; i < effects->rounds; i++)
        values[i] = 100 * effects->value[RATE_LOWEST][i] / effects->value[RATE_BEFORE][i];
    return statistics_interval(values, effects->rounds);
}

/* The ratio of the worst p99 to that without an event, whose trial is in the same round. */
static struct interval p99_ratio(const struct effects *effects, const struct effects *quiet)
{
    double values[ROUNDS_MOST];

    for (uint32_t i = 0; i < effects->rounds; i++)
        values[i] = effects->value[P99_WORST][i] / quiet->value[P99_WORST][i];
    return statistics_interval(values, effects->rounds);
}

/* ---- Rounds ---- */

static int find_worker(struct noise *noise)
{
    struct lab *lab = noise->lab;
    json_t *status = private_server_command(noise->server, "status", lab->why, sizeof(lab->why));
    const json_t *list = json_object_get(json_object_get(status, "workers"), "list");
    json_int_t pid = json_integer_value(json_object_get(json_array_get(list, 0), "pid"));

    json_decref(status);
    noise->worker = (pid_t)pid;
    return status != NULL && pid > 1 ? 0 : -1;
}

static int run_noise_trial(struct noise *noise, const struct event *event, double rate,
                           struct effects *effects)
{
    struct lab *lab = noise->lab;
    struct observed run = {
        .lab = lab,
        .server = noise->server,
        .rate = rate,
        .duration_ms = lab->trial_ms * (lab->quick ? TRIALS_LONG_QUICK : TRIALS_LONG),
        .step_ms = STEP_MS,
        .event = event->trigger,
        .context = noise,
    };
    bool kept = false;

    if (run.duration_ms < LEAST_STEPS * STEP_MS)
        run.duration_ms = LEAST_STEPS * STEP_MS;
    for (int i = 0; i < TRIAL_TRIES && !kept; i++, run.duration_ms *= 2) {
        run.event_ms = run.duration_ms / 3;
        if (find_worker(noise) != 0 || observed_run(&run) != 0)
            return -1;
        kept = keep_effects(&run, effects);
        observed_free(&run);
    }
    return kept ? 0 : lab_fail(lab, "too few steps were measured; give a longer --duration");
}

static int run_noise_rounds(struct noise *noise, struct effects *all)
{
    struct lab *lab = noise->lab;
    uint32_t rounds = lab->rounds < ROUNDS_MOST ? lab->rounds : ROUNDS_MOST;
    double rate = observed_choose_rate(lab, noise->server);

    if (rate <= 0)
        return -1;
    for (uint32_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < EVENTS; i++) {
            size_t event = round % 2 == 0 ? i : EVENTS - 1 - i;

            lab_progress(lab, "round %u of %u, %s", round + 1, rounds, events[event].name);
            if (run_noise_trial(noise, &events[event], rate, &all[event]) != 0)
                return -1;
        }
    return 0;
}

/* ---- Findings ---- */

/* The median may be 0, so that a width in percent has no meaning. */
static void put_range_cell(struct document *findings, const struct interval *interval,
                           lab_format *format)
{
    char text[LAB_BETWEEN];

    document_cell(findings, "%s", lab_range(text, interval, format));
}

static char *format_recovery(char *buffer, size_t size, double ns)
{
    if (ns > 0)
        return units_format_ns(buffer, size, ns);
    snprintf(buffer, size, "none needed");
    return buffer;
}

static void put_effects(struct document *findings, const struct effects *all)
{
    static const char *const heads[] = {"event",     "rate before", "lowest",   "p99 before",
                                        "worst p99", "errors",      "recovery", NULL};
    static const struct {
        enum effect of;
        lab_format *format;
        void (*put)(struct document *findings, const struct interval *interval, lab_format *format);
    } columns[] = {{RATE_BEFORE, format_number, lab_cell_interval},
                   {RATE_LOWEST, format_number, lab_cell_interval},
                   {P99_BEFORE, units_format_ns, lab_cell_interval},
                   {P99_WORST, units_format_ns, lab_cell_interval},
                   {ERRORS, format_number, put_range_cell},
                   {RECOVERY_NS, format_recovery, put_range_cell}};

    findings_table(findings, "Steps of 100 ms before and after the event: medians over the rounds",
                   heads);
    for (size_t i = 0; i < EVENTS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", events[i].name);
        for (size_t k = 0; k < ARRAY_LENGTH(columns); k++) {
            struct interval interval = interval_of(&all[i], columns[k].of);

            columns[k].put(findings, &interval, columns[k].format);
        }
    }
}

static void plot_course(struct document *findings, const struct effects *all, const char *title,
                        bool rate)
{
    document_plot(findings, title, (struct plot_axis){false, axis_seconds},
                  (struct plot_axis){!rate, rate ? axis_rate : axis_time});
    document_shade(findings, all[NO_EVENT].event_s);
    for (size_t i = 0; i < EVENTS; i++) {
        document_line(findings, events[i].name, false);
        for (size_t k = 0; k < all[i].points; k++)
            document_point(findings, all[i].seconds[k], rate ? all[i].rate[k] : all[i].p99[k]);
    }
}

/* Compares with rounds without an event, which show the noise of the machine. */
static void explain_event(struct document *findings, const struct effects *all, size_t event)
{
    struct interval worst = interval_of(&all[event], P99_WORST);
    struct interval ratio = p99_ratio(&all[event], &all[NO_EVENT]);
    struct interval kept = rate_kept(&all[event]), quiet = rate_kept(&all[NO_EVENT]);
    struct interval errors = interval_of(&all[event], ERRORS);
    char p99[UNITS_TEXT], failed[UNITS_TEXT], rate[UNITS_TEXT], noise[UNITS_TEXT];
    char times[LAB_RATIO];

    findings_add(findings, FINDINGS_LESSON,
                 "%s: the p99 of the worst 100 ms is %s, %s that without an event; "
                 "the rate drops to %s, without an event to %s; failed requests: %s.",
                 events[event].name, units_format_ns(p99, sizeof(p99), worst.median),
                 lab_times(times, &ratio), lab_percent(rate, kept.median),
                 lab_percent(noise, quiet.median),
                 format_number(failed, sizeof(failed), errors.median));
}

static void explain_noise_rounds(struct document *findings, const struct effects *all)
{
    if (all[NO_EVENT].rounds < STATISTICS_INTERVAL_MIN)
        findings_add(findings, FINDINGS_CAUTION,
                     "Confidence intervals need at least %d rounds (--rounds).",
                     STATISTICS_INTERVAL_MIN);
    else
        findings_add(findings, FINDINGS_LESSON,
                     "The 95%% confidence intervals are over the %u rounds, each with one trial of "
                     "every event. A value without an interval was the same in all of them.",
                     all[NO_EVENT].rounds);
}

static void judge_noise(struct document *findings, const struct effects *all)
{
    double lost = 0;

    for (size_t i = 2; i < EVENTS; i++)
        for (uint32_t round = 0; round < all[i].rounds; round++)
            lost += all[i].value[ERRORS][round];
    findings_add(findings, lost > 0 ? FINDINGS_NOT_MET : FINDINGS_MET,
                 "%.0f requests failed in all reloads and log rotations. A killed worker loses the "
                 "requests that it is processing.",
                 lost);
}

int experiment_noise(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=1", NULL};
    struct noise noise = {.lab = lab, .server = lab_server(lab, options)};
    struct effects *all = lab_allocate(lab, EVENTS, sizeof(*all));

    if (noise.server == NULL || all == NULL)
        return -1;
    snprintf(noise.log, sizeof(noise.log), "%s/access.log", private_server_directory(noise.server));
    snprintf(noise.rotated, sizeof(noise.rotated), "%s/access.log.1",
             private_server_directory(noise.server));
    if (run_noise_rounds(&noise, all) != 0)
        return -1;
    put_effects(findings, all);
    plot_course(findings, all, "Requests per second in steps of 100 ms, first round", true);
    plot_course(findings, all, "99th percentile in steps of 100 ms, first round", false);
    for (size_t i = 1; i < EVENTS; i++)
        explain_event(findings, all, i);
    explain_noise_rounds(findings, all);
    judge_noise(findings, all);
    return 0;
}
