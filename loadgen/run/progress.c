#include "loadgen/run/internal.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/units.h"
#include "loadgen/report/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { TICKS_PER_LINE = 2, TICKS_OF_MESSAGE = 30 };

void progress_begin(struct progress *progress, const struct plan *plan,
                    const struct progress_goal *goal, FILE *out)
{
    *progress = (struct progress){
        .kind = PROGRESS_NONE,
        .plan = plan,
        .goal = *goal,
        .out = out,
        .terminal = {.out = out},
    };
    if (plan->progress_lines)
        progress->kind = PROGRESS_LINES;
    else if (!plan->quiet && live_terminal_is_capable(out))
        progress->kind = PROGRESS_LIVE;
}

/* Updates progress->rate (over the last 10 ticks) and the trace (the last tick). */
static void sample_rate(struct progress *progress, uint64_t answered, uint64_t elapsed_ns)
{
    size_t slots = ARRAY_LENGTH(progress->past_ns), slot = progress->ticks % slots;
    size_t last = (progress->ticks + slots - 1) % slots;
    uint64_t then_ns = progress->past_ns[slot], then = progress->past_answered[slot];
    uint64_t last_ns = progress->past_ns[last], at_last = progress->past_answered[last];

    progress->past_ns[slot] = elapsed_ns;
    progress->past_answered[slot] = answered;
    progress->ticks++;
    progress->rate =
        elapsed_ns > then_ns ? (double)(answered - then) * 1e9 / (double)(elapsed_ns - then_ns) : 0;
    if (elapsed_ns > last_ns)
        rate_trace_add(&progress->trace,
                       (double)(answered - at_last) * 1e9 / (double)(elapsed_ns - last_ns));
}

/* ---- On a terminal ---- */

/* Some terminals wrap after the last column, and scroll after the last row: leaves both free. */
static void show_live(struct progress *progress, const struct progress_now *now, bool over)
{
    const struct live_scene scene = {
        .goal = &progress->goal,
        .tally = now->tally,
        .setting = &now->setting,
        .trace = &progress->trace,
        .label = progress->plan->label,
        .message = over                                        ? NULL
                   : progress->ticks < progress->message_until ? progress->message
                   : progress->keys                            ? CHANGE_KEYS_HELP
                                                               : NULL,
        .elapsed_ns = now->elapsed_ns,
        .rate = progress->rate,
        .over = over,
        .unicode = progress->plan->unicode,
        .colour = live_terminal_wants_colour(progress->out),
    };
    struct live_frame frame;
    size_t width, height;

    live_terminal_size(&progress->terminal, &width, &height);
    if (width < LIVE_WIDTH_MIN || height < LIVE_HEIGHT_MIN)
        live_view_line(&frame, &scene, width - 1);
    else
        live_view_draw(&frame, &scene, width - 1, height - 1);
    live_terminal_show(&progress->terminal, &frame);
}

void progress_draw(struct progress *progress, const struct progress_now *now)
{
    if (progress->kind == PROGRESS_LIVE)
        show_live(progress, now, false);
}

void progress_suspend(struct progress *progress)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction ours;

    live_terminal_end(&progress->terminal, true);
    terminal_keys_end();
    sigaction(SIGTSTP, &usual, &ours);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
    if (progress->keys)
        terminal_keys_begin();
}

/*
 * The last frame is redundant before a text report on the same terminal, or the report of a series.
 */
void progress_end(struct progress *progress, const struct progress_now *now)
{
    const struct plan *plan = progress->plan;
    bool report_follows =
        plan->label != NULL ||
        (plan->output == NULL && plan->format == PLAN_FORMAT_TEXT && isatty(STDOUT_FILENO));
    bool stays = !report_follows;

    if (progress->kind != PROGRESS_LIVE)
        return;
    if (stays)
        show_live(progress, now, true);
    live_terminal_end(&progress->terminal, stays);
}

/* ---- For programs ---- */

static void emit_json(struct progress *progress, json_t *object)
{
    if (object == NULL)
        return;
    json_write(progress->out, object, JSON_COMPACT);
    fflush(progress->out);
}

/* A percentile in microseconds; null without values. */
static json_t *percentile_us(const struct histogram *times, double percent)
{
    return histogram_count(times) > 0
               ? json_real((double)histogram_percentile(times, percent) / 1e3)
               : json_null();
}

/* The recent latency is that since the last line, for graphs over time. */
static void show_json(struct progress *progress, const struct progress_now *now)
{
    const struct tally *tally = now->tally;
    const struct histogram *latency = &tally->latency;
    struct histogram recent = {0};
    json_t *object = json_pack(
        "{s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:f}", "elapsed_s",
        (double)now->elapsed_ns / 1e9, "done_percent",
        live_view_percent(&progress->goal, tally, now->elapsed_ns), "begun",
        (json_int_t)tally_get(tally, TALLY_begun), "answered",
        (json_int_t)tally_get(tally, TALLY_answered), "failed", (json_int_t)tally_errors(tally),
        "bad_statuses", (json_int_t)tally_get(tally, TALLY_bad_statuses), "requests_per_second",
        progress->rate, "rate", now->setting.rate, "threads", (json_int_t)now->setting.threads,
        "connections", (json_int_t)now->setting.connections, "connections_up",
        (json_int_t)tally_get(tally, TALLY_clients_up), "latency_p50_us",
        (double)histogram_percentile(latency, 50) / 1e3, "latency_p99_us",
        (double)histogram_percentile(latency, 99) / 1e3, "latency_max_us",
        (double)histogram_max(latency) / 1e3);

    if (object == NULL)
        return;
    histogram_add(&recent, latency);
    histogram_subtract(&recent, &progress->shown);
    json_object_set_new(object, "recent_p50_us", percentile_us(&recent, 50));
    json_object_set_new(object, "recent_p99_us", percentile_us(&recent, 99));
    histogram_reset(&progress->shown);
    histogram_add(&progress->shown, latency);
    emit_json(progress, object);
}

void progress_tick(struct progress *progress, const struct progress_now *now)
{
    sample_rate(progress, tally_get(now->tally, TALLY_answered), now->elapsed_ns);
    if (progress->kind == PROGRESS_LINES && progress->ticks % TICKS_PER_LINE == 0)
        show_json(progress, now);
}

/* ---- Changes of the load ---- */

static void describe_load(char *text, size_t size, double rate, uint32_t connections,
                          uint32_t threads)
{
    char number[UNITS_TEXT], open[UNITS_TEXT + sizeof(" req/s, ")] = "";

    if (rate > 0)
        snprintf(open, sizeof(open), "%s req/s, ",
                 units_format_count(number, sizeof(number), rate));
    snprintf(text, size, "now %s%" PRIu32 " %s, %" PRIu32 " %s", open, connections,
             units_plural(connections, "connection", "connections"), threads,
             units_plural(threads, "thread", "threads"));
}

void progress_report_change(struct progress *progress, bool accepted, const char *why, double rate,
                            uint32_t connections, uint32_t threads)
{
    char text[sizeof(progress->message)];

    if (progress->kind == PROGRESS_LINES) {
        emit_json(progress,
                  accepted ? json_pack("{s:s, s:f, s:I, s:I}", "event", "changed", "rate", rate,
                                       "connections", (json_int_t)connections, "threads",
                                       (json_int_t)threads)
                           : json_pack("{s:s, s:o}", "event", "rejected", "why", text_json(why)));
        return;
    }
    if (accepted)
        describe_load(text, sizeof(text), rate, connections, threads);
    else
        escape_text(text, sizeof(text), why, strlen(why));
    if (progress->kind == PROGRESS_LIVE) {
        strcpy(progress->message, text);
        progress->message_until = progress->ticks + TICKS_OF_MESSAGE;
    } else if (!accepted) {
        fprintf(progress->out, "wsload: %s\n", text);
    }
}
