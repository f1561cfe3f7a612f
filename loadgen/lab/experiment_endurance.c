/* Whether memory or descriptors of a server grow, or errors occur, under a constant load. */
#include "loadgen/lab/observed.h"

#include "common/units.h"

#include <math.h>

enum {
    TRIALS_LONG =
        100, /* trial durations in the run: five minutes at the default of three seconds */
    TRIALS_LONG_QUICK = 40,
    STEP_MS = 1000,
    STEPS_LEAST = 8,
};

#define MEBIBYTE (1024.0 * 1024.0)

/* The allowed growth of memory from the second quarter to the last, in percent. */
#define GROWTH_ALLOWED 1.0

/* The mean over steps FROM to TO. */
static double mean_of(const struct observed *run, size_t from, size_t to,
                      double (*value)(const struct observed_sample *sample))
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += value(&run->samples[i]);
    return to > from ? sum / (double)(to - from) : NAN;
}

static double resident_of(const struct observed_sample *sample)
{
    return (double)sample->usage.resident;
}

/* Excludes client connections. */
static double descriptors_of(const struct observed_sample *sample)
{
    return (double)sample->usage.descriptors - (double)sample->connections;
}

static size_t steps_of(const struct observed *run)
{
    return run->series->count < OBSERVED_STEPS ? run->series->count : OBSERVED_STEPS;
}

static bool descriptors_are_known(const struct observed *run)
{
    return steps_of(run) > 0 && run->samples[0].usage.descriptors_seen;
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
    static const char *const heads[] = {"quarter", "responses",   "errors", "worst p99",
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

/* Adds a plot of one value over time. */
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
    return (double)run->samples[step].usage.resident / MEBIBYTE;
}

static double descriptors_at(const struct observed *run, size_t step)
{
    return descriptors_of(&run->samples[step]);
}

static double errors_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].bad;
}

static double p99_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].p99_ns;
}

/* Ignores the first quarter, in which caches and pools fill. */
static void judge_memory(struct document *findings, const struct observed *run)
{
    size_t steps = steps_of(run), quarter = steps / 4;
    double second = mean_of(run, quarter, 2 * quarter, resident_of);
    double last = mean_of(run, steps - quarter, steps, resident_of);
    double growth = (last / second - 1) * 100;
    char a[UNITS_TEXT], b[UNITS_TEXT];

    findings_add(findings, growth <= GROWTH_ALLOWED ? FINDINGS_MET : FINDINGS_NOT_MET,
                 "Resident memory averages %s in the second quarter and %s in the last (%+.1f%%; "
                 "allowed: %+.0f%%).",
                 units_format_bytes(a, sizeof(a), second), units_format_bytes(b, sizeof(b), last),
                 growth, GROWTH_ALLOWED);
}

static void judge_descriptors(struct document *findings, const struct observed *run)
{
    size_t steps = steps_of(run), quarter = steps / 4;
    double second = mean_of(run, quarter, 2 * quarter, descriptors_of);
    double last = mean_of(run, steps - quarter, steps, descriptors_of);

    if (descriptors_are_known(run))
        findings_add(findings, last < second + 1 ? FINDINGS_MET : FINDINGS_NOT_MET,
                     "Open descriptors, without those of clients, average %.1f in the second "
                     "quarter and %.1f in the last.",
                     second, last);
}

static void judge(struct document *findings, const struct observed *run)
{
    char number[UNITS_TEXT];

    findings_add(findings, run->bad == 0 ? FINDINGS_MET : FINDINGS_NOT_MET,
                 "%llu errors in %s responses.", (unsigned long long)run->bad,
                 lab_number(number, sizeof(number), (double)run->answered));
    judge_memory(findings, run);
    judge_descriptors(findings, run);
}

static void explain(struct document *findings, const struct observed *run)
{
    findings_add(
        findings, FINDINGS_LESSON,
        "RSS counts shared pages once per process, so the %zu processes use less than the sum. A "
        "leak would be a steady slope; memory pools and caches cause a step at the start.",
        run->samples[steps_of(run) - 1].usage.processes);
    if (run->late_percent > 1)
        findings_add(findings, FINDINGS_CAUTION,
                     "The client sent %.1f%% of the requests late: this machine was too busy for "
                     "the rate, and the latencies include the delay.",
                     run->late_percent);
}

int experiment_endurance(struct lab *lab, struct document *findings)
{
    struct observed run = {
        .lab = lab,
        .server = lab_server(lab, NULL),
        .duration_ms = lab->trial_ms * (lab->quick ? TRIALS_LONG_QUICK : TRIALS_LONG),
        .step_ms = STEP_MS,
        .records_usage = true,
    };

    if (run.server == NULL || (run.rate = observed_choose_rate(lab, run.server)) <= 0)
        return -1;
    if (run.duration_ms < STEPS_LEAST * STEP_MS)
        run.step_ms = run.duration_ms / STEPS_LEAST;
    lab_progress(lab, "%.0f requests/s for %.0f s", run.rate, (double)run.duration_ms / 1e3);
    if (observed_run(&run) != 0)
        return -1;
    if (steps_of(&run) < 4) {
        observed_free(&run);
        return lab_fail(lab, "too short: --duration must be at least 50ms");
    }
    put_table(findings, &run);
    put_plot(findings, &run, "Resident memory", axis_mebibytes, resident_at);
    if (descriptors_are_known(&run))
        put_plot(findings, &run, "Open descriptors, without those of clients", axis_count,
                 descriptors_at);
    put_plot(findings, &run, "Errors per step", axis_count, errors_at);
    put_plot(findings, &run, "99th percentile per step", axis_time, p99_at);
    judge(findings, &run);
    explain(findings, &run);
    observed_free(&run);
    return 0;
}
