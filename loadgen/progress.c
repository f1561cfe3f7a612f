#include "loadgen/progress.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include "loadgen/control.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80, TICKS_FOR_A_LINE = 2, TICKS_TO_READ = 30 };

static bool is_capable_terminal(FILE *out)
{
    const char *terminal = getenv("TERM");

    return isatty(fileno(out)) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void progress_begin(struct progress *progress, const struct plan *plan, FILE *out)
{
    *progress = (struct progress){.kind = PROGRESS_NONE, .plan = plan, .out = out};
    if (plan->progress_lines)
        progress->kind = PROGRESS_LINES;
    else if (!plan->quiet && is_capable_terminal(out))
        progress->kind = PROGRESS_LIVE;
}

/* Answers a second over the last ticks: about one second once the run is that old. */
static double recent_rate(struct progress *progress, uint64_t answered, uint64_t elapsed_ns)
{
    size_t slots = ARRAY_LENGTH(progress->past_ns), slot = progress->ticks % slots;
    uint64_t then_ns = progress->past_ns[slot], then = progress->past_answered[slot];

    progress->past_ns[slot] = elapsed_ns;
    progress->past_answered[slot] = answered;
    progress->ticks++;
    return elapsed_ns > then_ns ? (double)(answered - then) * 1e9 / (double)(elapsed_ns - then_ns)
                                : 0;
}

/* How much of the run is over, in percent: of its requests or of its time, whichever is further. */
static double percent_done(const struct plan *plan, const struct tally *tally, uint64_t elapsed_ns)
{
    double by_count = 0, by_time = 0;

    if (plan->requests != 0)
        by_count = (double)(tally_get(tally, TALLY_answered) + tally_errors(tally)) /
                   (double)plan->requests;
    if (plan->duration_ms != 0)
        by_time = (double)elapsed_ns / (double)((plan->duration_ms + plan->warmup_ms) * NS_PER_MS);
    by_time = by_count > by_time ? by_count : by_time;
    return by_time < 1 ? by_time * 100 : 100;
}

/* Appends FIELD and a gap to LINE unless it would grow past WIDTH. */
static bool append(char *line, size_t size, size_t width, const char *field)
{
    size_t length = strlen(line), gap = length > 0 ? 2 : 0;

    if (length + gap + strlen(field) > width || length + gap + strlen(field) >= size)
        return false;
    memset(line + length, ' ', gap);
    strcpy(line + length + gap, field);
    return true;
}

void progress_format(char *line, size_t size, size_t width, const struct plan *plan,
                     const struct tally *tally, uint64_t elapsed_ns, double rate,
                     const struct progress_setting *setting)
{
    uint64_t bad = tally_bad(tally);
    char fields[6][UNITS_TEXT * 2], number[UNITS_TEXT];

    snprintf(fields[0], sizeof(fields[0]), "%5.1f s  %3.0f%%", (double)elapsed_ns / 1e9,
             percent_done(plan, tally, elapsed_ns));
    snprintf(fields[1], sizeof(fields[1]), "%5s req/s",
             units_format_count(number, sizeof(number), rate));
    units_format_ns(number, sizeof(number), (double)histogram_percentile(&tally->latency, 50));
    snprintf(fields[2], sizeof(fields[2]), "p50 %7s", number);
    units_format_ns(number, sizeof(number), (double)histogram_percentile(&tally->latency, 99));
    snprintf(fields[3], sizeof(fields[3]), "p99 %7s", number);
    snprintf(fields[4], sizeof(fields[4]), "errors %s",
             units_format_count(number, sizeof(number), (double)bad));
    snprintf(fields[5], sizeof(fields[5]), "up %" PRIu64 "/%" PRIu32,
             tally_get(tally, TALLY_clients_up), setting->connections);
    line[0] = '\0';
    if (plan->label != NULL)
        append(line, size, width, plan->label);
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++)
        if (!append(line, size, width, fields[i]))
            return;
}

static size_t terminal_width(FILE *out)
{
    struct winsize window;

    if (ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
        return window.ws_col;
    return DEFAULT_WIDTH;
}

/* Behind the numbers: what came of a change, or which keys there are. */
static void append_said(const struct progress *progress, char *line, size_t size, size_t width)
{
    const char *said = progress->ticks < progress->said_until ? progress->said : CONTROL_KEYS_HELP;

    if (progress->said_until > 0 || progress->keys)
        append(line, size, width, said);
}

/* A full last column makes some terminals wrap, so it stays free. */
static void show_live(struct progress *progress, const struct tally *tally, uint64_t elapsed_ns,
                      double rate, const struct progress_setting *setting)
{
    size_t width = terminal_width(progress->out) - 1;
    char line[256];

    progress_format(line, sizeof(line), width, progress->plan, tally, elapsed_ns, rate, setting);
    append_said(progress, line, sizeof(line), width);
    fprintf(progress->out, "\r%s\x1b[K", line);
    fflush(progress->out);
}

static void put_json(struct progress *progress, json_t *object)
{
    if (object == NULL)
        return;
    json_dumpf(object, progress->out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', progress->out);
    fflush(progress->out);
    json_decref(object);
}

/* A percentile as microseconds; null where there is no value. */
static json_t *percentile_us(const struct histogram *times, double percent)
{
    return histogram_count(times) > 0
               ? json_real((double)histogram_percentile(times, percent) / 1e3)
               : json_null();
}

/* The latency since the last line: what a graph over time is made from. */
static void put_recent(struct progress *progress, json_t *object, const struct histogram *latency)
{
    struct histogram recent = {0};

    histogram_add(&recent, latency);
    histogram_subtract(&recent, &progress->shown);
    json_object_set_new(object, "recent_p50_us", percentile_us(&recent, 50));
    json_object_set_new(object, "recent_p99_us", percentile_us(&recent, 99));
    histogram_reset(&progress->shown);
    histogram_add(&progress->shown, latency);
}

static void show_json(struct progress *progress, const struct tally *tally, uint64_t elapsed_ns,
                      double rate, const struct progress_setting *setting)
{
    const struct histogram *latency = &tally->latency;
    json_t *object = json_pack(
        "{s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:f}", "elapsed_s",
        (double)elapsed_ns / 1e9, "done_percent", percent_done(progress->plan, tally, elapsed_ns),
        "begun", (json_int_t)tally_get(tally, TALLY_begun), "answered",
        (json_int_t)tally_get(tally, TALLY_answered), "failed", (json_int_t)tally_errors(tally),
        "bad_statuses", (json_int_t)tally_get(tally, TALLY_bad_statuses), "requests_per_second",
        rate, "rate", setting->rate, "threads", (json_int_t)setting->threads, "connections",
        (json_int_t)setting->connections, "connections_up",
        (json_int_t)tally_get(tally, TALLY_clients_up), "latency_p50_us",
        (double)histogram_percentile(latency, 50) / 1e3, "latency_p99_us",
        (double)histogram_percentile(latency, 99) / 1e3, "latency_max_us",
        (double)histogram_max(latency) / 1e3);

    if (object != NULL)
        put_recent(progress, object, latency);
    put_json(progress, object);
}

void progress_tick(struct progress *progress, const struct tally *tally, uint64_t elapsed_ns,
                   const struct progress_setting *setting)
{
    double rate;

    if (progress->kind == PROGRESS_NONE)
        return;
    rate = recent_rate(progress, tally_get(tally, TALLY_answered), elapsed_ns);
    if (progress->kind == PROGRESS_LIVE)
        show_live(progress, tally, elapsed_ns, rate, setting);
    else if (progress->ticks % TICKS_FOR_A_LINE == 0)
        show_json(progress, tally, elapsed_ns, rate, setting);
}

void progress_say(struct progress *progress, bool good, const char *why, double rate,
                  uint32_t connections, uint32_t threads)
{
    char text[80], number[UNITS_TEXT];

    if (progress->kind == PROGRESS_LINES) {
        put_json(progress, good ? json_pack("{s:s, s:f, s:I, s:I}", "event", "changed", "rate",
                                            rate, "connections", (json_int_t)connections, "threads",
                                            (json_int_t)threads)
                                : json_pack("{s:s, s:s}", "event", "refused", "why", why));
        return;
    }
    if (!good)
        snprintf(text, sizeof(text), "%s", why);
    else if (rate > 0)
        snprintf(text, sizeof(text), "now %s req/s, %" PRIu32 " connections, %" PRIu32 " threads",
                 units_format_count(number, sizeof(number), rate), connections, threads);
    else
        snprintf(text, sizeof(text), "now %" PRIu32 " connections, %" PRIu32 " threads",
                 connections, threads);
    if (progress->kind == PROGRESS_LIVE) {
        strcpy(progress->said, text);
        progress->said_until = progress->ticks + TICKS_TO_READ;
    } else if (!good) {
        fprintf(progress->out, "wsload: %s\n", text);
    }
}

void progress_end(struct progress *progress)
{
    if (progress->kind != PROGRESS_LIVE || progress->ticks == 0)
        return;
    fputs("\r\x1b[K", progress->out);
    fflush(progress->out);
}
