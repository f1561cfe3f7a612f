#include "loadgen/run/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/report/latencies.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- The rate trace ---- */

void rate_trace_add(struct rate_trace *trace, double rate)
{
    if (trace->samples_per_cell == 0)
        trace->samples_per_cell = 1;
    trace->incomplete_sum += rate;
    trace->incomplete_samples++;
    if (trace->incomplete_samples < trace->samples_per_cell)
        return;
    if (trace->count == RATE_TRACE_CELLS) {
        for (size_t i = 0; i < RATE_TRACE_CELLS / 2; i++)
            trace->cell[i] = (trace->cell[2 * i] + trace->cell[2 * i + 1]) / 2;
        trace->count = RATE_TRACE_CELLS / 2;
        trace->samples_per_cell *= 2;
        return;
    }
    trace->cell[trace->count++] = trace->incomplete_sum / trace->incomplete_samples;
    trace->incomplete_sum = 0;
    trace->incomplete_samples = 0;
}

double rate_trace_peak(const struct rate_trace *trace)
{
    double peak = 0;

    for (size_t i = 0; i < trace->count; i++)
        peak = trace->cell[i] > peak ? trace->cell[i] : peak;
    return peak;
}

size_t rate_trace_draw(char text[RATE_TRACE_TEXT], const struct rate_trace *trace, size_t width,
                       bool unicode)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", "_", ".", "-", ":", "=", "+", "*", "#"};
    const char *const *levels = unicode ? blocks : letters;
    size_t columns = trace->count < width ? trace->count : width, steps = ARRAY_LENGTH(blocks) - 1;
    double peak = rate_trace_peak(trace);

    text[0] = '\0';
    for (size_t i = 0; i < columns; i++) {
        size_t from = i * trace->count / columns, to = (i + 1) * trace->count / columns, level;
        double sum = 0, value;

        for (size_t k = from; k < to; k++)
            sum += trace->cell[k];
        value = sum / (double)(to - from);
        level = value > 0 ? 1 + (size_t)(value / peak * (double)(steps - 1) + 0.5) : 0;

        strcat(text, levels[level < steps ? level : steps]);
    }
    return columns;
}

/* ---- The view ---- */

enum {
    WIDE = 60,  /* columns for more percentiles and marks */
    LABEL = 13, /* columns of a label, without its indent of 2 */
    SHARE = 7,  /* columns of a bar's share, including the gap before it */
    MARKS = 15, /* columns after the share, for the names of percentiles */
    BAR_MIN = 6,
    TRACE_WIDTH = 40,
    BARS = 14, /* maximum rows of the distribution */
    REST = 3,  /* other lines: two empty ones and the last one */
};

#define BOLD   "\x1b[1m"
#define RED    "\x1b[31m"
#define CYAN   "\x1b[36m"
#define YELLOW "\x1b[33m"
#define PLAIN  "\x1b[0m"

/* A frame being drawn. */
struct pen {
    struct live_frame *frame;
    const struct live_scene *scene;
    size_t width, height;
    const char *style; /* escape sequence for the next text; NULL: none */
};

/* ---- Lines ---- */

static size_t columns_of(const char *text)
{
    size_t columns = 0;

    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static size_t columns_left(const struct pen *pen)
{
    return pen->width - pen->frame->columns[pen->frame->lines];
}

/*
 * Appends TEXT to the line in the pen's style, which is then reset. Returns false if it does not
 * fit.
 */
static bool pen_text(struct pen *pen, const char *text)
{
    struct live_frame *frame = pen->frame;
    char *line = frame->text[frame->lines];
    size_t used = strlen(line);
    const char *style = pen->scene->colour ? pen->style : NULL;

    pen->style = NULL;
    if (columns_of(text) > columns_left(pen) || used + strlen(text) + 16 > LIVE_LINE_BYTES)
        return false;
    snprintf(line + used, LIVE_LINE_BYTES - used, "%s%s%s", style != NULL ? style : "", text,
             style != NULL ? PLAIN : "");
    frame->columns[frame->lines] += columns_of(text);
    return true;
}

PRINTF_LIKE(2, 3) static bool pen_put(struct pen *pen, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return pen_text(pen, text);
}

static void end_pen_line(struct pen *pen)
{
    struct live_frame *frame = pen->frame;

    if (frame->lines < pen->height && frame->lines + 1 < LIVE_LINES_MAX)
        frame->lines++;
    frame->text[frame->lines][0] = '\0';
    frame->columns[frame->lines] = 0;
}

static void pen_label(struct pen *pen, const char *label)
{
    pen_put(pen, "  %-*s", LABEL, label);
}

static struct pen begin_frame(struct live_frame *frame, const struct live_scene *scene,
                              size_t width, size_t height)
{
    frame->lines = 0;
    frame->text[0][0] = '\0';
    frame->columns[0] = 0;
    return (struct pen){frame, scene, width < LIVE_WIDTH_MAX ? width : LIVE_WIDTH_MAX, height,
                        NULL};
}

/* ---- Progress ---- */

static uint64_t requests_done(const struct tally *tally)
{
    return tally_get(tally, TALLY_answered) + tally_errors(tally);
}

double live_view_percent(const struct progress_goal *goal, const struct tally *tally,
                         uint64_t elapsed_ns)
{
    double by_count = 0, by_time = 0;

    if (goal->requests != 0)
        by_count = (double)requests_done(tally) / (double)goal->requests;
    if (goal->duration_ns != 0)
        by_time = (double)elapsed_ns / (double)goal->duration_ns;
    by_time = by_count > by_time ? by_count : by_time;
    return by_time < 1 ? by_time * 100 : 100;
}

/* "12.3 s", from a minute on "3m 12s". Returns BUFFER, which has UNITS_TEXT bytes. */
static char *format_seconds(char *buffer, double seconds)
{
    if (seconds >= 60)
        return units_format_age(buffer, UNITS_TEXT, (uint64_t)(seconds * 1e9));
    snprintf(buffer, UNITS_TEXT, "%.1f s", seconds);
    return buffer;
}

/* The time until the duration is over or, at the current rate, all requests are done. */
static void format_left(char *text, size_t size, const struct live_scene *scene)
{
    const struct progress_goal *goal = scene->goal;
    double left = INFINITY;
    char seconds[UNITS_TEXT];

    if (goal->duration_ns > scene->elapsed_ns)
        left = (double)(goal->duration_ns - scene->elapsed_ns) / 1e9;
    if (goal->requests > requests_done(scene->tally) && scene->rate > 0)
        left = fmin(left, (double)(goal->requests - requests_done(scene->tally)) / scene->rate);
    if (scene->over)
        snprintf(text, size, "done");
    else if (scene->elapsed_ns < goal->warmup_ns)
        snprintf(text, size, "warming up");
    else if (isinf(left))
        snprintf(text, size, "ending");
    else
        snprintf(text, size, "%6s left", format_seconds(seconds, left));
}

static void put_progress_bar(struct pen *pen, double percent, size_t width)
{
    size_t filled = (size_t)(percent / 100 * (double)width + 0.5);
    char text[LIVE_LINE_BYTES / 2] = "";

    for (size_t i = 0; i < filled; i++)
        strcat(text, pen->scene->unicode ? "━" : "=");
    pen->style = CYAN;
    pen_text(pen, text);
    text[0] = '\0';
    for (size_t i = filled; i < width; i++)
        strcat(text, pen->scene->unicode ? "─" : "-");
    pen_text(pen, text);
}

static void draw_progress(struct pen *pen)
{
    const struct live_scene *scene = pen->scene;
    double percent = live_view_percent(scene->goal, scene->tally, scene->elapsed_ns);
    char left[64], elapsed[UNITS_TEXT];
    size_t length;

    percent = scene->over ? 100 : percent;
    format_left(left, sizeof(left), scene);
    pen_put(pen, "  %7s  %3.0f%%  ", format_seconds(elapsed, (double)scene->elapsed_ns / 1e9),
            percent);
    length = strlen(left) + 2;
    if (columns_left(pen) >= length + BAR_MIN)
        put_progress_bar(pen, percent, columns_left(pen) - length);
    pen_put(pen, "  %s", left);
    end_pen_line(pen);
}

/* ---- Numbers ---- */

static void draw_rate(struct pen *pen)
{
    const struct live_scene *scene = pen->scene;
    char number[UNITS_TEXT], trace[RATE_TRACE_TEXT];

    pen_label(pen, "requests/s");
    pen->style = BOLD;
    pen_put(pen, "%s", units_format_count(number, sizeof(number), scene->rate));
    if (scene->setting->rate > 0)
        pen_put(pen, " of %s", units_format_count(number, sizeof(number), scene->setting->rate));
    if (scene->trace->count > 0)
        pen_put(pen, "  peak %s",
                units_format_count(number, sizeof(number), rate_trace_peak(scene->trace)));
    if (scene->trace->count > 0 && columns_left(pen) > BAR_MIN) {
        size_t room = columns_left(pen) - 2;

        rate_trace_draw(trace, scene->trace, room < TRACE_WIDTH ? room : TRACE_WIDTH,
                        scene->unicode);
        pen_put(pen, "  ");
        pen->style = CYAN;
        pen_text(pen, trace);
    }
    end_pen_line(pen);
}

static void put_kind(struct pen *pen, bool *first, const char *name, uint64_t count)
{
    char number[UNITS_TEXT];

    if (count == 0)
        return;
    pen_put(pen, "%s%s %s", *first ? "  " : ", ", name,
            units_format_count(number, sizeof(number), (double)count));
    *first = false;
}

/* Errors by kind, then statuses other than 2xx and 3xx, as far as they fit. */
static void put_kinds(struct pen *pen)
{
    const struct tally *tally = pen->scene->tally;
    bool first = true;

    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        put_kind(pen, &first, error_kind_names[kind], tally_error(tally, (enum error_kind)kind));
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        char name[8];

        if (status >= 200 && status <= 399)
            continue;
        snprintf(name, sizeof(name), "%03" PRIu32, status);
        put_kind(pen, &first, name, tally_status(tally, status));
    }
}

static void draw_counts(struct pen *pen)
{
    const struct tally *tally = pen->scene->tally;
    uint64_t bad = tally_bad(tally);
    char number[32];

    pen_label(pen, "answered");
    pen_text(pen, format_integer(number, sizeof(number), tally_get(tally, TALLY_answered)));
    end_pen_line(pen);
    pen_label(pen, "errors");
    pen->style = bad > 0 ? RED : NULL;
    pen_text(pen, format_integer(number, sizeof(number), bad));
    put_kinds(pen);
    end_pen_line(pen);
}

static void draw_connections(struct pen *pen)
{
    const struct progress_setting *setting = pen->scene->setting;
    uint64_t up = tally_get(pen->scene->tally, TALLY_clients_up);

    pen_label(pen, "connections");
    pen_put(pen, "%" PRIu64 " of %" PRIu32 " up",
            up < setting->connections ? up : setting->connections, setting->connections);
    pen_put(pen, ", %" PRIu32 " thread%s", setting->threads, setting->threads == 1 ? "" : "s");
    end_pen_line(pen);
}

static void pen_time(struct pen *pen, bool first, const char *name, uint64_t ns)
{
    char number[UNITS_TEXT];

    pen_put(pen, "%s%s %s", first ? "" : "  ", name,
            units_format_ns(number, sizeof(number), (double)ns));
}

static void draw_latency(struct pen *pen)
{
    static const double wide[] = {50, 90, 99, 99.9}, narrow[] = {50, 99};
    const struct histogram *times = &pen->scene->tally->latency;
    bool is_wide = pen->width >= WIDE;
    const double *percents = is_wide ? wide : narrow;
    char name[16];

    pen_label(pen, "latency");
    if (histogram_count(times) == 0)
        pen_put(pen, "-");
    for (size_t i = 0; i < (is_wide ? ARRAY_LENGTH(wide) : ARRAY_LENGTH(narrow)); i++) {
        snprintf(name, sizeof(name), "p%g", percents[i]);
        if (histogram_count(times) > 0)
            pen_time(pen, i == 0, name, histogram_percentile(times, percents[i]));
    }
    if (histogram_count(times) > 0 && is_wide)
        pen_time(pen, false, "max", histogram_max(times));
    end_pen_line(pen);
}

/* ---- The distribution ---- */

static void draw_distribution(struct pen *pen)
{
    size_t taken = pen->frame->lines + REST, room = pen->height > taken ? pen->height - taken : 0;
    size_t besides = 3 + LATENCY_BAR_LABEL_COLUMNS + SHARE + (pen->width >= WIDE ? MARKS : 0);
    struct latency_bar bars[LATENCY_BARS_MAX];
    size_t rows = latency_bars(&pen->scene->tally->latency, room < BARS ? room : BARS,
                               pen->width - besides, pen->scene->unicode, bars);

    if (rows > 0)
        end_pen_line(pen);
    for (size_t i = 0; i < rows; i++) {
        pen_put(pen, "  %*s ", LATENCY_BAR_LABEL_COLUMNS, bars[i].label);
        pen->style = CYAN;
        pen_text(pen, bars[i].bar);
        pen_put(pen, "%.*s", (int)columns_left(pen), bars[i].behind);
        end_pen_line(pen);
    }
}

void live_view_draw(struct live_frame *frame, const struct live_scene *scene, size_t width,
                    size_t height)
{
    struct pen pen = begin_frame(frame, scene, width, height);

    if (scene->label != NULL) {
        pen_put(&pen, "  ");
        pen.style = BOLD;
        pen_put(&pen, "%.*s", (int)columns_left(&pen), scene->label);
        end_pen_line(&pen);
    }
    draw_progress(&pen);
    draw_rate(&pen);
    draw_counts(&pen);
    draw_connections(&pen);
    draw_latency(&pen);
    draw_distribution(&pen);
    if (scene->message != NULL) {
        end_pen_line(&pen);
        pen_put(&pen, "  ");
        pen_put(&pen, "%.*s", (int)columns_left(&pen), scene->message);
        end_pen_line(&pen);
    }
}

/* ---- One line ---- */

void live_view_line(struct live_frame *frame, const struct live_scene *scene, size_t width)
{
    const struct histogram *latency = &scene->tally->latency;
    struct pen pen = begin_frame(frame, scene, width, 2);
    char number[UNITS_TEXT];
    bool fits = scene->label == NULL || pen_put(&pen, "%s  ", scene->label);

    fits = fits &&
           pen_put(&pen, "%7s  %3.0f%%", format_seconds(number, (double)scene->elapsed_ns / 1e9),
                   live_view_percent(scene->goal, scene->tally, scene->elapsed_ns));
    fits = fits &&
           pen_put(&pen, "  %5s req/s", units_format_count(number, sizeof(number), scene->rate));
    units_format_ns(number, sizeof(number), (double)histogram_percentile(latency, 50));
    fits = fits && pen_put(&pen, "  p50 %7s", number);
    units_format_ns(number, sizeof(number), (double)histogram_percentile(latency, 99));
    fits = fits && pen_put(&pen, "  p99 %7s", number);
    fits = fits &&
           pen_put(&pen, "  errors %s",
                   units_format_count(number, sizeof(number), (double)tally_bad(scene->tally)));
    fits = fits && pen_put(&pen, "  up %" PRIu64 "/%" PRIu32,
                           tally_get(scene->tally, TALLY_clients_up), scene->setting->connections);
    if (fits && scene->message != NULL)
        pen_put(&pen, "  %s", scene->message);
    end_pen_line(&pen);
}

/* ---- The terminal ---- */

enum { DEFAULT_WIDTH = 80, DEFAULT_HEIGHT = 24 };

bool live_terminal_is_capable(FILE *out)
{
    const char *terminal = getenv("TERM");

    return isatty(fileno(out)) && terminal != NULL && terminal[0] != '\0' &&
           strcmp(terminal, "dumb") != 0;
}

bool live_terminal_wants_colour(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");

    return live_terminal_is_capable(out) && (no_color == NULL || no_color[0] == '\0');
}

/* The font of the Linux console lacks most block characters. */
bool live_terminal_has_unicode(void)
{
    const char *terminal = getenv("TERM");

    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 &&
           (terminal == NULL || strcmp(terminal, "linux") != 0);
}

void live_terminal_size(const struct live_terminal *terminal, size_t *width, size_t *height)
{
    struct winsize window = {0};

    ioctl(fileno(terminal->out), TIOCGWINSZ, &window);
    *width = window.ws_col > 1 ? window.ws_col : DEFAULT_WIDTH;
    *height = window.ws_row > 1 ? window.ws_row : DEFAULT_HEIGHT;
}

static bool is_in_foreground(const struct live_terminal *terminal)
{
    pid_t group = tcgetpgrp(fileno(terminal->out));

    return group < 0 || group == getpgrp();
}

/*
 * The rows between the first line and the cursor, which is at the end of the last line. If the
 * window has become narrower since the frame was drawn, long lines take several rows.
 */
static size_t rows_above(const struct live_terminal *terminal)
{
    const struct live_frame *shown = &terminal->shown;
    size_t width, height, rows = 0;

    live_terminal_size(terminal, &width, &height);
    for (size_t i = 0; i < shown->lines; i++)
        rows += shown->columns[i] > width ? (shown->columns[i] + width - 1) / width : 1;
    rows = rows > 0 ? rows - 1 : 0;
    return rows < height ? rows : height - 1;
}

/* Writes everything at once to avoid flicker. */
void live_terminal_show(struct live_terminal *terminal, const struct live_frame *frame)
{
    size_t up = rows_above(terminal);

    if (!is_in_foreground(terminal))
        return;
    fputc('\r', terminal->out);
    if (up > 0)
        fprintf(terminal->out, "\x1b[%zuA", up);
    for (size_t i = 0; i < frame->lines; i++)
        fprintf(terminal->out, "%s%s\x1b[K", i > 0 ? "\n" : "", frame->text[i]);
    fputs("\x1b[J", terminal->out);
    fflush(terminal->out);
    terminal->shown = *frame;
}

void live_terminal_end(struct live_terminal *terminal, bool stays)
{
    size_t up = rows_above(terminal);

    if (terminal->shown.lines == 0 || !is_in_foreground(terminal))
        return;
    if (stays)
        fputc('\n', terminal->out);
    else if (up > 0)
        fprintf(terminal->out, "\r\x1b[%zuA\x1b[J", up);
    else
        fputs("\r\x1b[J", terminal->out);
    fflush(terminal->out);
    terminal->shown.lines = 0;
}
