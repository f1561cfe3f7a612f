/* Whether memory or descriptors of a server grow, or errors occur, under a constant load. */
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/observed.h"

#include <math.h>

enum {
    MINUTE_TRIALS = 20,      /* a minute, in trial durations: 60 s at the default of 3 s */
    MINUTE_TRIALS_QUICK = 2, /* the same with --quick: 0.8 s */
    STEP_MS = 1000,
    SHORT_RUN_STEPS = 8, /* unless wsload is paused */
    STEPS_NEEDED = 4,    /* in the runs of 10 minutes */
    RUN_TRIES = 5,
};

/* The requests of the published run of 10 minutes. */
#define REQUESTS_PUBLISHED 10e6

/* The runs, in this order. The verdict is about TEN_MINUTES. */
enum { ONE_MINUTE, FIVE_MINUTES, TEN_MINUTES, TEN_MINUTES_OFF, RUNS };

/* The name is that of a run of full length, in published.def. */
static const struct {
    const char *name;
    unsigned minutes;
    bool logs;
} stages[RUNS] = {{"1 minute", 1, true},
                  {"5 minutes", 5, true},
                  {"10 minutes", 10, true},
                  {"10 minutes, log off", 10, false}};

/* A shorter run tells a leak from caches and pools that fill no better than chance. */
#define LEAK_RUN_MS (600 * 1000.0)

#define MEBIBYTE (1024.0 * 1024.0)

/* The allowed growth of memory from the second quarter to the last, in percent. */
#define GROWTH_ALLOWED 1.0

/* ---- Values of a step ---- */

typedef double step_value(const struct observed *run, size_t step);

static double resident_at(const struct observed *run, size_t step)
{
    return (double)run->samples[step].usage.resident / MEBIBYTE;
}

static double anonymous_at(const struct observed *run, size_t step)
{
    return (double)run->samples[step].usage.anonymous / MEBIBYTE;
}

/* Excludes client connections. */
static double descriptors_at(const struct observed *run, size_t step)
{
    const struct observed_sample *sample = &run->samples[step];

    return (double)sample->usage.descriptors - (double)sample->client_connections;
}

static double errors_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].bad;
}

static double rate_at(const struct observed *run, size_t step)
{
    return observed_rate(&run->series->entry[step]);
}

static double p99_at(const struct observed *run, size_t step)
{
    return (double)run->series->entry[step].p99_ns;
}

static size_t steps_of(const struct observed *run)
{
    return run->series->count < OBSERVED_STEPS ? run->series->count : OBSERVED_STEPS;
}

static bool descriptors_are_known(const struct observed *run)
{
    return steps_of(run) > 0 && run->samples[0].usage.descriptors_seen;
}

/* The mean over steps FROM to TO. */
static double mean_of(const struct observed *run, size_t from, size_t to, step_value *value)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += value(run, i);
    return to > from ? sum / (double)(to - from) : NAN;
}

/* Means of the second and the last quarter. Caches and pools fill in the first. */
struct growth {
    double second, last;
};

static struct growth quarters_of(const struct observed *run, step_value *value)
{
    size_t steps = steps_of(run), quarter = steps / 4;

    return (struct growth){.second = mean_of(run, quarter, 2 * quarter, value),
                           .last = mean_of(run, steps - quarter, steps, value)};
}

/* ---- Tables and plots ---- */

static void put_quarter(struct document *findings, const struct observed *run, const char *name,
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
    document_cell(findings, "%s", format_number(text, sizeof(text), (double)answered));
    document_cell(findings, "%llu", (unsigned long long)bad);
    document_cell(findings, "%s", units_format_ns(text, sizeof(text), (double)p99));
    document_cell(
        findings, "%s",
        units_format_bytes(text, sizeof(text), mean_of(run, from, to, resident_at) * MEBIBYTE));
    if (descriptors_are_known(run))
        document_cell(findings, "%.0f", mean_of(run, from, to, descriptors_at));
    else
        document_cell(findings, "-");
}

static void put_quarters(struct document *findings, const struct observed *run)
{
    static const char *const heads[] = {"quarter", "responses",   "errors", "worst p99",
                                        "RSS",     "descriptors", NULL};
    static const char *const names[] = {"first", "second", "third", "last"};
    size_t steps = steps_of(run);
    char title[LAB_TITLE], rate[UNITS_TEXT], span[UNITS_TEXT];

    snprintf(title, sizeof(title), "%s requests/s for %s, all processes of the server",
             run->rate > 0 ? format_number(rate, sizeof(rate), run->rate) : "All possible",
             units_format_ns(span, sizeof(span), (double)run->duration_ms * 1e6));
    findings_table(findings, title, heads);
    for (size_t i = 0; i < 4; i++)
        put_quarter(findings, run, names[i], steps * i / 4, steps * (i + 1) / 4);
}

static void plot_run_line(struct document *findings, const struct observed *run, const char *name,
                          step_value *value)
{
    document_line(findings, name, false);
    for (size_t i = 0; i < steps_of(run); i++)
        document_point(findings, (double)run->series->entry[i].end_ns / 1e9, value(run, i));
}

/* Adds a plot of one value over time. */
static void plot_run(struct document *findings, const struct observed *run, const char *title,
                     void (*format)(char *label, double value), step_value *value)
{
    document_plot(findings, title, (struct plot_axis){false, axis_seconds},
                  (struct plot_axis){false, format});
    plot_run_line(findings, run, "all processes", value);
}

/*
 * The growth of anonymous memory in percent of the resident memory. The size of shared memory is
 * fixed, but its pages become resident when they are first used: the history fills for 15 minutes.
 */
static double memory_growth(const struct observed *run)
{
    struct growth anonymous = quarters_of(run, anonymous_at),
                  resident = quarters_of(run, resident_at);

    return (anonymous.last - anonymous.second) / resident.second * 100;
}

static bool is_whole(const struct observed *run)
{
    return (double)run->duration_ms >= LEAK_RUN_MS;
}

/* The duration of RUN: "8.00 s". */
static char *run_time(char *buffer, const struct observed *run)
{
    return units_format_ns(buffer, UNITS_TEXT, (double)run->duration_ms * 1e6);
}

/* A criterion about growth is decided only by a whole run. Writes the reason, or "". */
static enum findings_kind leak_verdict(const struct observed *run, bool met, char *reason)
{
    char time[UNITS_TEXT];

    reason[0] = '\0';
    if (is_whole(run))
        return met ? FINDINGS_MET : FINDINGS_NOT_MET;
    snprintf(reason, LAB_TITLE, " %s are too short to tell; the criterion needs 10 minutes.",
             run_time(time, run));
    return FINDINGS_UNDECIDED;
}

static void judge_memory(struct document *findings, const struct observed *run)
{
    struct growth anonymous = quarters_of(run, anonymous_at);
    double growth = memory_growth(run);
    char a[UNITS_TEXT], b[UNITS_TEXT], reason[LAB_TITLE];
    enum findings_kind verdict = leak_verdict(run, growth <= GROWTH_ALLOWED, reason);

    findings_add(findings, verdict,
                 "Anonymous memory averages %s in the second quarter and %s in the last (%+.1f%% "
                 "of RSS; allowed: %+.0f%%).%s",
                 units_format_bytes(a, sizeof(a), anonymous.second * MEBIBYTE),
                 units_format_bytes(b, sizeof(b), anonymous.last * MEBIBYTE), growth,
                 GROWTH_ALLOWED, reason);
}

static void judge_descriptors(struct document *findings, const struct observed *run)
{
    struct growth growth = quarters_of(run, descriptors_at);
    char reason[LAB_TITLE];
    enum findings_kind verdict = leak_verdict(run, growth.last < growth.second + 1, reason);

    if (descriptors_are_known(run))
        findings_add(findings, verdict,
                     "Open descriptors, without those of clients, average %.1f in the second "
                     "quarter and %.1f in the last.%s",
                     growth.second, growth.last, reason);
}

static double rate_of(const struct observed *run)
{
    return (double)run->answered / ((double)run->duration_ms / 1e3);
}

static void put_runs(struct document *findings, const struct observed *runs)
{
    static const char *const heads[] = {"run", "responses", "errors", "requests/s",
                                        "p99", "growth",    "RSS",    NULL};

    findings_table(findings, runs->rate > 0 ? "At a constant rate" : "As fast as possible", heads);
    for (size_t i = 0; i < RUNS; i++) {
        const struct observed *run = &runs[i];
        struct interval rate = windows_rate(run->series), p99 = windows_p99(run->series);
        char text[UNITS_TEXT];
        size_t steps = steps_of(run);

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s%s", run_time(text, run), stages[i].logs ? "" : ", log off");
        document_cell(findings, "%s", format_number(text, sizeof(text), (double)run->answered));
        document_cell(findings, "%llu", (unsigned long long)run->bad);
        lab_cell_interval(findings, &rate, format_number);
        lab_cell_interval(findings, &p99, units_format_ns);
        if (steps >= 4)
            document_cell(findings, "%+.1f%%", memory_growth(run));
        else
            document_cell(findings, "-");
        document_cell(
            findings, "%s",
            units_format_bytes(text, sizeof(text), mean_of(run, 0, steps, resident_at) * MEBIBYTE));
    }
}

static void record_endurance(struct lab *lab, const struct observed *runs)
{
    static const char full[] = "10 minutes, log full";
    const struct observed *ten = &runs[TEN_MINUTES], *off = &runs[TEN_MINUTES_OFF];
    struct growth growth = quarters_of(off, resident_at);
    char time[UNITS_TEXT];

    if (!is_whole(ten)) {
        snprintf(lab->own.why, sizeof(lab->own.why),
                 "the longest run here took %s, theirs 10 minutes", run_time(time, ten));
        return;
    }
    for (size_t i = 0; i < RUNS; i++)
        lab_record_measure(lab, stages[i].name, MEASURE_RATE, rate_of(&runs[i]));
    lab_record_measure(lab, full, MEASURE_RATE, rate_of(ten));
    lab_record_value(lab, stages[TEN_MINUTES].name, "requests", (double)ten->answered);
    lab_record_value(lab, stages[TEN_MINUTES].name, "failed", (double)ten->bad);
    lab_record_value(lab, full, "RSS", mean_of(ten, 0, steps_of(ten), resident_at) * MEBIBYTE);
    lab_record_value(lab, stages[TEN_MINUTES_OFF].name, "RSS",
                     mean_of(off, 0, steps_of(off), resident_at) * MEBIBYTE);
    lab_record_value(lab, stages[TEN_MINUTES_OFF].name, "growth of RSS",
                     (growth.last / growth.second - 1) * 100);
}

static void judge_requests(struct document *findings, const struct observed *run)
{
    char number[UNITS_TEXT], time[UNITS_TEXT];

    if (run->rate <= 0 && is_whole(run))
        findings_add(
            findings, (double)run->answered >= REQUESTS_PUBLISHED ? FINDINGS_MET : FINDINGS_NOT_MET,
            "%s responses in %s; published: more than 10 million in 10 minutes.",
            format_number(number, sizeof(number), (double)run->answered), run_time(time, run));
}

static void judge_endurance(struct document *findings, const struct observed *runs)
{
    const struct observed *run = &runs[TEN_MINUTES];
    uint64_t bad = 0, answered = 0;
    char number[UNITS_TEXT];

    for (size_t i = 0; i < RUNS; i++) {
        bad += runs[i].bad;
        answered += runs[i].answered;
    }
    findings_add(findings, bad == 0 ? FINDINGS_MET : FINDINGS_NOT_MET,
                 "%llu errors in %s responses.", (unsigned long long)bad,
                 format_number(number, sizeof(number), (double)answered));
    judge_requests(findings, run);
    judge_memory(findings, run);
    judge_descriptors(findings, run);
}

static void explain_endurance(struct document *findings, const struct observed *run)
{
    struct interval rate = windows_rate(run->series), p99 = windows_p99(run->series);
    char number[LAB_BETWEEN], time[UNITS_TEXT], window[UNITS_TEXT], whole[UNITS_TEXT];

    findings_add(findings, FINDINGS_LESSON,
                 "%s: %s requests/s, and a p99 per step of %s. These are medians over %zu "
                 "windows of the run, of %s each; ± is half the width of their 95%% confidence "
                 "interval. It shows how steady the run was, not how much another run differs.",
                 run_time(whole, run), lab_between(number, &rate, format_number),
                 units_format_ns(time, sizeof(time), p99.median), rate.count,
                 units_format_ns(window, sizeof(window),
                                 (double)run->duration_ms * 1e6 / (double)rate.count));
    findings_add(
        findings, FINDINGS_LESSON,
        "RSS counts shared pages once per process, so the %zu processes use less than the sum. It "
        "grows for 15 minutes, while the history in shared memory, of fixed size, fills. A leak "
        "would be a steady slope of anonymous memory, which is RSS without shared memory and "
        "files; memory pools and caches cause a step at the start.",
        run->samples[steps_of(run) - 1].usage.processes);
    if (run->late_percent > 1)
        findings_add(findings, FINDINGS_CAUTION,
                     "The client sent %.1f%% of the requests late: this machine was too busy for "
                     "the rate, and the latencies include the delay.",
                     run->late_percent);
}

static int run_stage(struct lab *lab, struct observed *run, size_t stage,
                     struct private_server *server)
{
    uint64_t minute_ms = lab->trial_ms * (lab->quick ? MINUTE_TRIALS_QUICK : MINUTE_TRIALS);
    char length[UNITS_TEXT];

    *run = (struct observed){
        .lab = lab,
        .server = server,
        .rate = lab->constant_rate,
        .duration_ms = minute_ms * stages[stage].minutes,
        .step_ms = STEP_MS,
        .records_usage = true,
    };
    if (run->duration_ms < SHORT_RUN_STEPS * STEP_MS)
        run->step_ms = run->duration_ms / SHORT_RUN_STEPS;
    for (int i = 0; i < RUN_TRIES; i++) {
        lab_progress(lab, "run %zu of %d: %s", stage + 1, RUNS,
                     units_format_ns(length, sizeof(length), (double)run->duration_ms * 1e6));
        if (observed_run(run) != 0)
            return -1;
        if (stage < TEN_MINUTES || steps_of(run) >= STEPS_NEEDED)
            return 0;
        observed_free(run);
    }
    return lab_fail(lab, "too few steps were measured: give a --duration of at least 50ms, on a "
                         "machine that does not pause wsload");
}

static void report_endurance(struct lab *lab, struct document *findings,
                             const struct observed *runs)
{
    const struct observed *ten = &runs[TEN_MINUTES];

    record_endurance(lab, runs);
    put_runs(findings, runs);
    put_quarters(findings, ten);
    plot_run(findings, ten, "Resident memory", axis_mebibytes, resident_at);
    plot_run_line(findings, ten, "without shared memory and files", anonymous_at);
    if (descriptors_are_known(ten))
        plot_run(findings, ten, "Open descriptors, without those of clients", axis_count,
                 descriptors_at);
    plot_run(findings, ten, "Requests per second", axis_rate, rate_at);
    plot_run(findings, ten, "Errors per step", axis_count, errors_at);
    plot_run(findings, ten, "99th percentile per step", axis_time, p99_at);
    judge_endurance(findings, runs);
    explain_endurance(findings, ten);
}

int experiment_endurance(struct lab *lab, struct document *findings)
{
    static const char *const no_log[] = {"log.access=off", NULL};
    struct private_server *logs = lab_server(lab, NULL), *off = NULL;
    struct observed *runs = lab_allocate(lab, RUNS, sizeof(*runs));
    int result = 0;
    size_t done = 0;

    if (logs != NULL)
        off = lab_server(lab, no_log);
    if (off == NULL || runs == NULL)
        return -1;
    for (; result == 0 && done < RUNS; done += result == 0)
        result = run_stage(lab, &runs[done], done, stages[done].logs ? logs : off);
    if (result == 0)
        report_endurance(lab, findings, runs);
    while (done > 0)
        observed_free(&runs[--done]);
    return result;
}
