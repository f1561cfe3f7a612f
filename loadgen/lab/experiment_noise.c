/* What clients feel when a worker is killed, the configuration reloaded, or the log rotated. */
#include "loadgen/lab/observed.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/stats/statistics.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

enum {
    STEP_MS = 100,
    TRIALS_LONG = 3, /* as many trials' time, with --quick five */
    TRIALS_LONG_QUICK = 5,
    LEAST_STEPS = 15,
    ROUNDS_MOST = 9,
    POINTS_MOST = 400,
};

/* A step is back to normal from this part of the rate before on. */
#define BACK 0.9

/* ---- What happens ---- */

struct noise {
    struct lab *lab;
    struct private_server *server;
    pid_t worker; /* one that serves */
    char log[PRIVATE_SERVER_PATH + 16], rotated[PRIVATE_SERVER_PATH + 16];
};

static void nothing(void *context)
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
    void (*act)(void *context);
} events[] = {
    {"Nothing", nothing},
    {"A worker killed", kill_worker},
    {"A reload", reload},
    {"A log rotation", rotate},
};

enum { EVENTS = ARRAY_LENGTH(events), NOTHING = 0 };

/* ---- What it left ---- */

enum trace_of { RATE_BEFORE, RATE_LOWEST, P99_BEFORE, P99_WORST, ERRORS, BACK_AFTER, TRACES };

/* Of each event: values by round, and the course of the first round. */
struct dent {
    double value[TRACES][ROUNDS_MOST];
    uint32_t rounds;
    size_t points;
    double acted_s;
    double seconds[POINTS_MOST], rate[POINTS_MOST], p99[POINTS_MOST];
};

/* The scrap at the end is no step, nor is the first, in which connections are made. */
static size_t whole_steps(const struct series *series)
{
    return series->count > 1 ? series->count - 1 : 0;
}

static size_t step_of_act(const struct observed *run)
{
    size_t i = 1;

    while (i < whole_steps(run->series) && run->series->entry[i].end_ns <= run->act_ms * NS_PER_MS)
        i++;
    return i;
}

static void take_before(const struct observed *run, size_t act, double *value)
{
    double rates[POINTS_MOST], p99s[POINTS_MOST];
    size_t count = 0;

    for (size_t i = 1; i < act && count < POINTS_MOST; i++, count++) {
        rates[count] = observed_rate(&run->series->entry[i]);
        p99s[count] = (double)run->series->entry[i].p99_ns;
    }
    value[RATE_BEFORE] = statistics_median(rates, count);
    value[P99_BEFORE] = statistics_median(p99s, count);
}

static void take_behind(const struct observed *run, size_t act, double *value)
{
    const struct series_entry *entry = run->series->entry;

    value[RATE_LOWEST] = INFINITY;
    value[P99_WORST] = value[ERRORS] = value[BACK_AFTER] = 0;
    for (size_t i = act; i < run->series->count; i++)
        value[ERRORS] += (double)entry[i].bad;
    for (size_t i = act; i < whole_steps(run->series); i++) {
        double rate = observed_rate(&entry[i]);

        value[RATE_LOWEST] = fmin(value[RATE_LOWEST], rate);
        value[P99_WORST] = fmax(value[P99_WORST], (double)entry[i].p99_ns);
        if (rate < BACK * value[RATE_BEFORE])
            value[BACK_AFTER] = (double)entry[i].end_ns - (double)run->act_ms * 1e6;
    }
}

static void keep_course(const struct observed *run, struct dent *dent)
{
    for (size_t i = 0; i < whole_steps(run->series) && dent->points < POINTS_MOST; i++) {
        const struct series_entry *entry = &run->series->entry[i];

        dent->seconds[dent->points] = (double)entry->end_ns / 1e9;
        dent->rate[dent->points] = observed_rate(entry);
        dent->p99[dent->points++] = (double)entry->p99_ns;
    }
    dent->acted_s = (double)run->act_ms / 1e3;
}

static int keep(struct lab *lab, const struct observed *run, struct dent *dent)
{
    size_t act = step_of_act(run);
    double value[TRACES];

    if (act < 2 || act >= whole_steps(run->series))
        return lab_fail(lab, "too short to see anything: --duration 200ms or more");
    take_before(run, act, value);
    take_behind(run, act, value);
    if (dent->rounds == 0)
        keep_course(run, dent);
    for (size_t i = 0; i < TRACES; i++)
        dent->value[i][dent->rounds] = value[i];
    dent->rounds++;
    return 0;
}

static double median_of(const struct dent *dent, enum trace_of of)
{
    double values[ROUNDS_MOST];

    for (uint32_t i = 0; i < dent->rounds; i++)
        values[i] = dent->value[of][i];
    return statistics_median(values, dent->rounds);
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

static int run_one(struct noise *noise, const struct event *event, double rate, struct dent *dent)
{
    struct lab *lab = noise->lab;
    struct observed run = {
        .lab = lab,
        .server = noise->server,
        .rate = rate,
        .duration_ms = lab->trial_ms * (lab->quick ? TRIALS_LONG_QUICK : TRIALS_LONG),
        .step_ms = STEP_MS,
        .act = event->act,
        .context = noise,
    };
    int result;

    if (run.duration_ms < LEAST_STEPS * STEP_MS)
        run.duration_ms = LEAST_STEPS * STEP_MS;
    run.act_ms = run.duration_ms / 3;
    if (find_worker(noise) != 0 || observed_run(&run) != 0)
        return -1;
    result = keep(lab, &run, dent);
    observed_free(&run);
    return result;
}

static int run_rounds(struct noise *noise, struct dent *dents)
{
    struct lab *lab = noise->lab;
    uint32_t rounds = lab->rounds < ROUNDS_MOST ? lab->rounds : ROUNDS_MOST;
    double rate = observed_half_rate(lab, noise->server);

    if (rate <= 0)
        return -1;
    for (uint32_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < EVENTS; i++) {
            size_t event = round % 2 == 0 ? i : EVENTS - 1 - i;

            lab_progress(lab, "round %u of %u, %s", round + 1, rounds, events[event].name);
            if (run_one(noise, &events[event], rate, &dents[event]) != 0)
                return -1;
        }
    return 0;
}

/* ---- Findings ---- */

static void put_table(struct document *findings, const struct dent *dents)
{
    static const char *const heads[] = {"what",      "rate before", "lowest",     "p99 before",
                                        "worst p99", "errors",      "back after", NULL};

    findings_table(findings, "Tenths of a second before and behind it", heads);
    for (size_t i = 0; i < EVENTS; i++) {
        const struct dent *dent = &dents[i];
        char text[UNITS_TEXT];
        double back = median_of(dent, BACK_AFTER);

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", events[i].name);
        document_cell(findings, "%s", lab_number(text, sizeof(text), median_of(dent, RATE_BEFORE)));
        document_cell(findings, "%s", lab_number(text, sizeof(text), median_of(dent, RATE_LOWEST)));
        document_cell(findings, "%s",
                      units_format_ns(text, sizeof(text), median_of(dent, P99_BEFORE)));
        document_cell(findings, "%s",
                      units_format_ns(text, sizeof(text), median_of(dent, P99_WORST)));
        document_cell(findings, "%.0f", median_of(dent, ERRORS));
        document_cell(findings, "%s",
                      back > 0 ? units_format_ns(text, sizeof(text), back) : "at once");
    }
}

static void put_plot(struct document *findings, const struct dent *dents, const char *title,
                     bool rate)
{
    document_plot(findings, title, (struct plot_axis){false, axis_seconds},
                  (struct plot_axis){!rate, rate ? axis_rate : axis_time});
    document_shade(findings, dents[NOTHING].acted_s);
    for (size_t i = 0; i < EVENTS; i++) {
        document_line(findings, events[i].name, false);
        for (size_t k = 0; k < dents[i].points; k++)
            document_point(findings, dents[i].seconds[k],
                           rate ? dents[i].rate[k] : dents[i].p99[k]);
    }
}

/* Against the rounds in which nothing happened: a machine makes noise of its own. */
static void explain(struct document *findings, const struct dent *dents, size_t event)
{
    double worst = median_of(&dents[event], P99_WORST);
    double usual = median_of(&dents[NOTHING], P99_WORST);
    double lowest = median_of(&dents[event], RATE_LOWEST) / median_of(&dents[event], RATE_BEFORE);
    double quiet =
        median_of(&dents[NOTHING], RATE_LOWEST) / median_of(&dents[NOTHING], RATE_BEFORE);
    char one[UNITS_TEXT], other[UNITS_TEXT];

    findings_say(
        findings, FINDINGS_LESSON,
        "%s: the worst tenth of a second had a p99 of %s, against %s when nothing happened; "
        "the rate went down to %.0f%% (without: %.0f%%); failed requests: %.0f.",
        events[event].name, units_format_ns(one, sizeof(one), worst),
        units_format_ns(other, sizeof(other), usual), lowest * 100, quiet * 100,
        median_of(&dents[event], ERRORS));
}

static void judge(struct document *findings, const struct dent *dents)
{
    double lost = 0;

    for (size_t i = 2; i < EVENTS; i++)
        for (uint32_t round = 0; round < dents[i].rounds; round++)
            lost += dents[i].value[ERRORS][round];
    findings_say(
        findings, lost > 0 ? FINDINGS_NOT_MET : FINDINGS_MET,
        "%.0f requests were lost by reloads and log rotations, of all rounds; a killed worker "
        "takes with it what it had in hand.",
        lost);
}

int experiment_noise(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=1", NULL};
    struct noise noise = {.lab = lab, .server = lab_server(lab, options)};
    struct dent *dents = lab_room(lab, EVENTS, sizeof(*dents));

    if (noise.server == NULL || dents == NULL)
        return -1;
    snprintf(noise.log, sizeof(noise.log), "%s/access.log", private_server_directory(noise.server));
    snprintf(noise.rotated, sizeof(noise.rotated), "%s/access.log.1",
             private_server_directory(noise.server));
    if (run_rounds(&noise, dents) != 0)
        return -1;
    put_table(findings, dents);
    put_plot(findings, dents, "Requests a second, by tenths of a second, first round", true);
    put_plot(findings, dents, "99th percentile, by tenths of a second, first round", false);
    for (size_t i = 1; i < EVENTS; i++)
        explain(findings, dents, i);
    judge(findings, dents);
    return 0;
}
