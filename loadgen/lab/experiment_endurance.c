/* Whether a server that works all the time grows, loses descriptors, or makes mistakes. */
#include "loadgen/lab/observed.h"

#include "common/units.h"

#include <math.h>

enum {
    TRIALS_LONG = 100, /* as many trials' time: five minutes of three seconds each */
    TRIALS_LONG_QUICK = 40,
    STEP_MS = 1000,
    STEPS_LEAST = 8,
};

#define MEBIBYTE (1024.0 * 1024.0)

/* Memory may grow so much from the first quarter to the last, in percent. */
#define GROWTH_ALLOWED 1.0

/* The mean over steps FROM to TO. */
static double mean_of(const struct observed *run, size_t from, size_t to,
                      double (*value)(const struct observed_look *look))
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += value(&run->looks[i]);
    return to > from ? sum / (double)(to - from) : NAN;
}

static double resident_of(const struct observed_look *look)
{
    return (double)look->usage.resident;
}

/* Those of clients come and go with them. */
static double descriptors_of(const struct observed_look *look)
{
    return (double)look->usage.descriptors - (double)look->connections;
}

static size_t steps_of(const struct observed *run)
{
    return run->series->count < OBSERVED_STEPS ? run->series->count : OBSERVED_STEPS;
}

static bool descriptors_are_known(const struct observed *run)
{
    return steps_of(run) > 0 && run->looks[0].usage.descriptors_seen;
}

static void put_row(struct document *findings, const struct observed *run, const char *name,
                    size_t from, size_t to)
{
    uint64_t answered = 0, bad = 0, p99 = 0;
    char text[UNITS_TEXT];

    for (size_t i = from; i < to; i++) {
        const struct series_entry *step = &run->series->entry[i];

        answered += step->answered;
        bad += step->bad;
        p99 = step->p99_ns > p99 ? step->p99_ns : p99;
    }
    document_row(findings, DOCUMENT_NORMAL);
    document_cell(findings, "%s", name);
    document_cell(findings, "%s", lab_number(text, sizeof(text), (double)answered));
    document_cell(findings, "%llu", (unsigned long long)bad);
    document_cell(findings, "%s", units_format_ns(text, sizeof(text), (double)p99));
    document_cell(findings, "%s",
                  units_format_bytes(text, sizeof(text), mean_of(run, from, to, resident_of)));
    if (descriptors_are_known(run))
        document_cell(findings, "%.0f", mean_of(run, from, to, descriptors_of));
    else
        document_cell(findings, "-");
}

static void put_table(struct document *findings, const struct observed *run)
{
    static const char *const heads[] = {"quarter", "answers",     "errors", "worst p99",
                                        "RSS",     "descriptors", NULL};
    static const char *const names[] = {"first", "second", "third", "last"};
    size_t steps = steps_of(run);
    char title[LAB_TITLE], rate[UNITS_TEXT], span[UNITS_TEXT];

    snprintf(title, sizeof(title), "%s requests/s for %s, all processes of the server",
             lab_number(rate, sizeof(rate), run->rate),
             units_format_ns(span, sizeof(span), (double)run->duration_ms * 1e6));
    findings_table(findings, title, heads);
    for (size_t i = 0; i < 4; i++)
        put_row(findings, run, names[i], steps * i / 4, steps * (i + 1) / 4);
}

/* One line over time. */
static void put_plot(struct document *findings, const struct observed *run, const char *title,
                     void (*format)(char *label, double value),
                     double (*value)(const struct observed *run, size_t step))
{
    document_plot(findings, title, (struct plot_axis){false, axis_seconds},
                  (struct plot_axis){false, format});
    document_line(findings, "all processes", false);
    for (size_t i = 0; i < steps_of(run); i++)
        document_point(findings, (double)run->series->entry[i].end_ns / 1e9, value(run, i));
}

static double resident_at(const struct observed *run, size_t step)
{
    return (double)run->looks[step].usage.resident / MEBIBYTE;
}

static double descriptors_at(const struct observed *run, size_t step)
{
    return descriptors_of(&run->looks[step]);
}

static double errors_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].bad;
}

static double p99_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].p99_ns;
}

/* The first quarter is left to what is only made once. */
static void judge_memory(struct document *findings, const struct observed *run)
{
    size_t steps = steps_of(run), quarter = steps / 4;
    double second = mean_of(run, quarter, 2 * quarter, resident_of);
    double last = mean_of(run, steps - quarter, steps, resident_of);
    double growth = (last / second - 1) * 100;
    char a[UNITS_TEXT], b[UNITS_TEXT];

    findings_say(findings, growth <= GROWTH_ALLOWED ? FINDINGS_MET : FINDINGS_NOT_MET,
                 "Resident memory was %s on the average of the second quarter and %s of the last "
                 "(%+.1f%%; up to %+.0f%% is allowed).",
                 units_format_bytes(a, sizeof(a), second), units_format_bytes(b, sizeof(b), last),
                 growth, GROWTH_ALLOWED);
}

static void judge_descriptors(struct document *findings, const struct observed *run)
{
    size_t steps = steps_of(run), quarter = steps / 4;
    double second = mean_of(run, quarter, 2 * quarter, descriptors_of);
    double last = mean_of(run, steps - quarter, steps, descriptors_of);

    if (descriptors_are_known(run))
        findings_say(findings, last < second + 1 ? FINDINGS_MET : FINDINGS_NOT_MET,
                     "Without those of clients, %.1f descriptors were open on the average of the "
                     "second quarter and %.1f of the last.",
                     second, last);
}

static void judge(struct document *findings, const struct observed *run)
{
    char number[UNITS_TEXT];

    findings_say(findings, run->bad == 0 ? FINDINGS_MET : FINDINGS_NOT_MET,
                 "%llu errors in %s answers.", (unsigned long long)run->bad,
                 lab_number(number, sizeof(number), (double)run->answered));
    judge_memory(findings, run);
    judge_descriptors(findings, run);
}

static void explain(struct document *findings, const struct observed *run)
{
    findings_say(
        findings, FINDINGS_LESSON,
        "RSS counts pages that processes share in each of them: the %zu processes have "
        "less than their sum. A leak would be a slope that does not end; what memory pools "
        "and caches take is a step at the begin.",
        run->looks[steps_of(run) - 1].usage.processes);
    if (run->late_percent > 1)
        findings_say(findings, FINDINGS_CAUTION,
                     "The client was late with %.1f%% of the requests: this machine was too busy "
                     "for the rate, and the latencies contain that.",
                     run->late_percent);
}

int experiment_endurance(struct lab *lab, struct document *findings)
{
    struct observed run = {
        .lab = lab,
        .server = lab_server(lab, NULL),
        .duration_ms = lab->trial_ms * (lab->quick ? TRIALS_LONG_QUICK : TRIALS_LONG),
        .step_ms = STEP_MS,
        .uses_usage = true,
    };

    if (run.server == NULL || (run.rate = observed_half_rate(lab, run.server)) <= 0)
        return -1;
    if (run.duration_ms < STEPS_LEAST * STEP_MS)
        run.step_ms = run.duration_ms / STEPS_LEAST;
    lab_progress(lab, "%.0f requests/s for %.0f s", run.rate, (double)run.duration_ms / 1e3);
    if (observed_run(&run) != 0)
        return -1;
    if (steps_of(&run) < 4) {
        observed_free(&run);
        return lab_fail(lab, "too short to say anything: --duration 50ms or more");
    }
    put_table(findings, &run);
    put_plot(findings, &run, "Resident memory", axis_mebibytes, resident_at);
    if (descriptors_are_known(&run))
        put_plot(findings, &run, "Open descriptors, without those of clients", axis_count,
                 descriptors_at);
    put_plot(findings, &run, "Errors in a step", axis_count, errors_at);
    put_plot(findings, &run, "99th percentile of a step", axis_time, p99_at);
    judge(findings, &run);
    explain(findings, &run);
    observed_free(&run);
    return 0;
}
