#include "console/load/draw.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LABEL = 10, PLOT_WIDTH_MOST = 512, PLOT_LEAST = 5, BESIDE_FROM_WIDTH = 110 };

/* Numbers */

/* A tick if no request was lost, a cross if one may be. */
static void draw_check(const struct load_run *run, const struct scene *scene,
                       const struct canvas *canvas)
{
    enum load_check check = load_run_check(run);
    enum tone tone = check == LOAD_CHECK_DIFFERENT ? TONE_WARN
                     : check == LOAD_CHECK_OTHERS  ? TONE_NOTE
                                                   : TONE_GOOD;
    const char *mark = "";
    char words[256];

    if (check == LOAD_CHECK_EQUAL || check == LOAD_CHECK_OPEN)
        mark = scene->ascii ? "ok " : "✓ ";
    else if (check == LOAD_CHECK_DIFFERENT)
        mark = scene->ascii ? "no " : "✗ ";
    canvas_print(canvas, 3, 0, tone, "%s%s", mark, load_run_check_text(run, words, sizeof(words)));
}

static void draw_run_progress(const struct load_run *run, const struct scene *scene,
                              const struct canvas *canvas)
{
    const struct load_totals *totals = &run->totals;
    int bar = canvas->width >= 100 ? 30 : 12, x;
    char text[TEXT_SHORT];

    x = canvas_text(canvas, 0, 0, TONE_TITLE, run->finished ? "done   " : "running");
    bar_draw(canvas, 0, x + 2, bar, scene->style, totals->done_percent / 100, TONE_GRAPH);
    x = canvas_print(canvas, 0, x + bar + 3, TONE_VALUE, "%.0f%%", totals->done_percent);
    x = canvas_print(canvas, 0, x + 2, TONE_NORMAL, "%s",
                     text_since(text, (uint64_t)(round(totals->elapsed_s) * 1e9)));
    if (!run->finished)
        canvas_print(canvas, 0, x + 2, TONE_DIM, "connections %" PRIu64 " of %" PRIu64 " up",
                     totals->connections_up, totals->connections);
}

static void draw_client(const struct load_run *run, const struct canvas *canvas)
{
    const struct load_totals *totals = &run->totals;
    char text[TEXT_SHORT], line[200] = "";
    int width = canvas->width - LABEL;

    summary_add(line, sizeof(line), width, "requests/s %s",
                text_count(text, totals->requests_per_s));
    summary_add(line, sizeof(line), width, "p50 %s", text_latency(text, totals->p50_ns));
    summary_add(line, sizeof(line), width, "p99 %s", text_latency(text, totals->p99_ns));
    summary_add(line, sizeof(line), width, "max %s", text_latency(text, totals->max_ns));
    summary_add(line, sizeof(line), width, "answered %s",
                text_count(text, (double)totals->answered));
    summary_add(line, sizeof(line), width, "failed %s", text_count(text, (double)totals->failed));
    summary_add(line, sizeof(line), width, "bad statuses %s",
                text_count(text, (double)totals->bad_statuses));
    canvas_text(canvas, 1, 0, TONE_TITLE, "client");
    canvas_text(canvas, 1, LABEL, totals->failed > 0 ? TONE_WARN : TONE_NORMAL, line);
}

/* While the run lasts the latest values; at the end the mean rate and the highest p99. */
static void draw_server(const struct load_run *run, const struct canvas *canvas)
{
    struct load_point numbers;
    char text[TEXT_SHORT], line[200] = "";
    int width = canvas->width - LABEL;

    canvas_text(canvas, 2, 0, TONE_TITLE, "server");
    if (!run->own_server || run->point_count == 0) {
        canvas_text(canvas, 2, LABEL, TONE_DIM,
                    run->own_server ? "-" : "the target is another server");
        return;
    }
    numbers = run->point[run->point_count - 1];
    if (run->finished && run->totals.elapsed_s > 0) {
        numbers.server_rate =
            (double)(run->server_after - run->server_before) / run->totals.elapsed_s;
        for (size_t i = 0; i < run->point_count; i++)
            numbers.server_p99_ns = fmax(numbers.server_p99_ns, run->point[i].server_p99_ns);
    }
    summary_add(line, sizeof(line), width, "requests/s %s", text_count(text, numbers.server_rate));
    if (!run->finished)
        summary_add(line, sizeof(line), width, "p50 %s", text_latency(text, numbers.server_p50_ns));
    summary_add(line, sizeof(line), width, run->finished ? "max p99 %s" : "p99 %s",
                text_latency(text, numbers.server_p99_ns));
    summary_add(line, sizeof(line), width, "%s", run->server);
    canvas_text(canvas, 2, LABEL, TONE_NORMAL, line);
}

static bool run_failed(const struct load_run *run)
{
    return run->failure[0] != '\0' && run->totals.answered == 0;
}

/* The error message; without an error, the note of the report. */
static const char *remark(const struct load_run *run)
{
    return run_failed(run) ? run->failure : run->note;
}

void load_draw_totals(const struct load_run *run, const struct scene *scene,
                      const struct canvas *canvas)
{
    draw_run_progress(run, scene, canvas);
    draw_client(run, canvas);
    draw_server(run, canvas);
    if (run->finished)
        draw_check(run, scene, canvas);
    canvas_wrapped(canvas, 3 + run->finished, run_failed(run) ? TONE_BAD : TONE_NOTE, remark(run));
}

int load_draw_totals_lines(const struct load_run *run, int width)
{
    struct canvas nowhere = {.width = width};

    return canvas_wrapped(&nowhere, 3 + run->finished, TONE_NOTE, remark(run));
}

/* Plots: client and server as two kinds of dots */

struct plot {
    const char *title;
    enum graph_unit unit;
    size_t client, server; /* offsets into struct load_point */
    bool mean;             /* a column shows the mean of its points; false: the maximum */
};

static const struct plot plots[] = {
    {"requests/s", GRAPH_COUNT, offsetof(struct load_point, client_rate),
     offsetof(struct load_point, server_rate), true},
    {"latency p99", GRAPH_TIME, offsetof(struct load_point, client_p99_ns),
     offsetof(struct load_point, server_p99_ns), false},
};

/* Fills WIDTH columns, which span SPAN_S seconds, with the values at OFFSET; NAN: no point. */
static void fill_plot_columns(const struct load_run *run, const struct plot *plot, size_t offset,
                              double span_s, double *columns, int width)
{
    int counts[PLOT_WIDTH_MOST] = {0};

    for (int x = 0; x < width; x++)
        columns[x] = NAN;
    for (size_t i = 0; i < run->point_count; i++) {
        int x = (int)(run->point[i].at_s / span_s * width);
        double value;

        memcpy(&value, (const char *)&run->point[i] + offset, sizeof(value));
        x = x < 0 ? 0 : x >= width ? width - 1 : x;
        if (!isfinite(value))
            continue;
        if (counts[x]++ == 0)
            columns[x] = value;
        else if (plot->mean)
            columns[x] += (value - columns[x]) / counts[x];
        else
            columns[x] = fmax(columns[x], value);
    }
}

/* Latencies use a logarithmic scale: client and server may differ by orders of magnitude. */
struct scale {
    double bottom, top;
    bool logarithmic;
};

/* The line for VALUE, from 0 at the top; -1: none. */
static int row_of(double value, const struct scale *scale, int height)
{
    double part = value / scale->top;
    int row;

    if (!isfinite(value))
        return -1;
    if (scale->logarithmic)
        part = log(value / scale->bottom) / log(scale->top / scale->bottom);
    row = height - 1 - (int)(part * height * 0.999);
    return row < 0 ? 0 : row >= height ? height - 1 : row;
}

static struct scale scale_of_plot(const struct plot *plot, const double *client,
                                  const double *server, int width)
{
    struct scale scale = {.bottom = INFINITY, .logarithmic = plot->unit == GRAPH_TIME};

    for (int x = 0; x < width; x++) {
        scale.top = fmax(scale.top, fmax(client[x], server[x]));
        scale.bottom = fmin(scale.bottom, fmin(client[x], server[x]));
    }
    scale.top = graph_top(plot->unit, scale.top);
    scale.bottom = !scale.logarithmic || !(scale.bottom > 0) || isinf(scale.bottom)
                       ? (scale.logarithmic ? scale.top / 10 : 0)
                       : pow(10, floor(log10(scale.bottom)));
    if (scale.logarithmic && scale.bottom >= scale.top)
        scale.bottom = scale.top / 10;
    return scale;
}

static void draw_dots(const struct scene *scene, const struct canvas *canvas, const double *client,
                      const double *server, const struct scale *scale)
{
    for (int x = 0; x < canvas->width; x++) {
        int c = row_of(client[x], scale, canvas->height);
        int s = row_of(server[x], scale, canvas->height);

        if (s >= 0)
            canvas_repeat(canvas, s, x, 1, TONE_GRAPH, scene->ascii ? L's' : L'○');
        if (c >= 0)
            canvas_repeat(canvas, c, x, 1, c == s ? TONE_VALUE : TONE_NOTE,
                          scene->ascii ? (c == s ? L'b' : L'c')
                          : c == s     ? L'◉'
                                       : L'●');
    }
}

static void draw_marks(const struct load_run *run, const struct scene *scene,
                       const struct canvas *axis, double span_s)
{
    for (size_t i = 0; i < run->mark_count; i++) {
        int x = (int)(run->mark[i].at_s / span_s * axis->width);

        if (i < 9)
            canvas_print(axis, 0, x, TONE_PEAK, "%zu", i + 1);
        else
            canvas_repeat(axis, 0, x, 1, TONE_PEAK, scene->ascii ? L'^' : L'▲');
    }
}

static void draw_plot_frame(const struct plot *plot, const struct scene *scene,
                            const struct canvas *canvas, const struct scale *scale, double span_s)
{
    int bottom = canvas->height - 1;
    char text[TEXT_SHORT];

    for (int y = 1; y < bottom; y++)
        canvas_repeat(canvas, y, LABEL, 1, TONE_DIM, scene->ascii ? L'|' : L'│');
    canvas_repeat(canvas, bottom, LABEL, 1, TONE_DIM, scene->ascii ? L'+' : L'└');
    canvas_repeat(canvas, bottom, LABEL + 1, canvas->width, TONE_DIM, scene->ascii ? L'-' : L'─');
    canvas_right(canvas, 1, LABEL - 1, TONE_DIM, graph_number(plot->unit, scale->top, text));
    if (bottom > 2)
        canvas_right(canvas, bottom - 1, LABEL - 1, TONE_DIM,
                     graph_number(plot->unit, scale->bottom, text));
    canvas_right(canvas, bottom, LABEL - 1, TONE_DIM,
                 units_format_age(text, sizeof(text), (uint64_t)(span_s * 1e9)));
}

static void draw_plot(const struct plot *plot, const struct load_run *run,
                      const struct scene *scene, const struct canvas *canvas)
{
    struct canvas inside =
        canvas_part(canvas, 1, LABEL + 1, canvas->height - 2, canvas->width - LABEL - 1);
    struct canvas axis = canvas_part(canvas, canvas->height - 1, LABEL + 1, 1, inside.width);
    double client[PLOT_WIDTH_MOST], server[PLOT_WIDTH_MOST], span_s = load_run_span_s(run);
    struct scale scale;
    int x;

    if (inside.width < 1 || inside.width > PLOT_WIDTH_MOST)
        return;
    fill_plot_columns(run, plot, plot->client, span_s, client, inside.width);
    fill_plot_columns(run, plot, plot->server, span_s, server, inside.width);
    scale = scale_of_plot(plot, client, server, inside.width);
    draw_plot_frame(plot, scene, canvas, &scale, span_s);
    draw_dots(scene, &inside, client, server, &scale);
    draw_marks(run, scene, &axis, span_s);
    x = canvas_text(canvas, 0, 0, TONE_TITLE, plot->title) + 2;
    if (scale.logarithmic)
        x = canvas_text(canvas, 0, x, TONE_DIM, "log scale") + 2;
    canvas_repeat(canvas, 0, x, 1, TONE_NOTE, scene->ascii ? L'c' : L'●');
    x = canvas_text(canvas, 0, x + 2, TONE_DIM, "client") + 2;
    canvas_repeat(canvas, 0, x, 1, TONE_GRAPH, scene->ascii ? L's' : L'○');
    canvas_text(canvas, 0, x + 2, TONE_DIM, "server");
}

/* The text of each mark; the last ones if not all fit. */
static void draw_mark_legend(const struct load_run *run, const struct canvas *canvas)
{
    int lines = (int)run->mark_count < canvas->height ? (int)run->mark_count : canvas->height;
    char text[TEXT_SHORT];

    for (int i = 0; i < lines; i++) {
        size_t number = run->mark_count - (size_t)(lines - i);

        canvas_print(canvas, i, 0, TONE_PEAK, "%zu", number + 1);
        canvas_print(canvas, i, 3, TONE_NORMAL, "%s  %s",
                     text_latency(text, run->mark[number].at_s * (double)NS_PER_S),
                     run->mark[number].text);
    }
}

void load_draw_plots(const struct load_run *run, const struct scene *scene,
                     const struct canvas *canvas)
{
    bool beside = canvas->width >= BESIDE_FROM_WIDTH;
    int marks = (int)run->mark_count < 4 ? (int)run->mark_count : 4;
    const struct layout_part parts[] = {
        {.min = PLOT_LEAST, .weight = 1, .importance = 3},
        {.min = PLOT_LEAST, .weight = 1, .importance = 1},
        {.min = 1, .max = (int)run->mark_count, .weight = 0, .importance = 2}};
    struct canvas places[ARRAY_LENGTH(parts)], upper = *canvas, lower;
    int width = canvas->width / 2 - 1;

    if (!beside) {
        layout_stack(canvas, parts, marks > 0 ? 3 : 2, places);
        for (size_t i = 0; i < ARRAY_LENGTH(plots); i++)
            if (places[i].height > 0)
                draw_plot(&plots[i], run, scene, &places[i]);
        if (marks > 0 && places[2].height > 0)
            draw_mark_legend(run, &places[2]);
        return;
    }
    upper = canvas_part(canvas, 0, 0, canvas->height - marks, canvas->width);
    lower = canvas_part(canvas, canvas->height - marks, 0, marks, canvas->width);
    for (int i = 0; i < 2; i++) {
        struct canvas half = canvas_part(&upper, 0, i * (width + 2), upper.height, width);

        draw_plot(&plots[i], run, scene, &half);
    }
    draw_mark_legend(run, &lower);
}

/* Comparison */

static void draw_difference(const struct load_difference *line, const struct canvas *canvas, int y)
{
    char text[TEXT_SHORT];
    double change = (line->after - line->before) / line->before * 100;
    bool worse = line->less_is_better ? change > 0 : change < 0;

    canvas_text(canvas, y, 0, TONE_NORMAL, line->label);
    canvas_right(canvas, y, 24, TONE_NORMAL, graph_number(line->unit, line->before, text));
    canvas_right(canvas, y, 36, TONE_NORMAL, graph_number(line->unit, line->after, text));
    if (!isfinite(change))
        return;
    snprintf(text, sizeof(text), "%+.1f%%", change);
    canvas_right(canvas, y, 48, fabs(change) < 1 ? TONE_DIM : worse ? TONE_WARN : TONE_GOOD, text);
    if (fabs(change) >= 1)
        canvas_text(canvas, y, 50, TONE_DIM, worse ? "worse" : "better");
}

void load_draw_comparison(const struct load_entry *before, const struct load_entry *after,
                          const struct canvas *canvas)
{
    struct load_difference lines[LOAD_DIFFERENCES];
    char text[TEXT_SHORT], other[TEXT_SHORT];

    canvas_print(canvas, 0, 0, TONE_TITLE, "A %.8s  B %.8s", text_clock(text, before->started_ns),
                 text_clock(other, after->started_ns));
    canvas_right(canvas, 0, 24, TONE_TITLE, "A");
    canvas_right(canvas, 0, 36, TONE_TITLE, "B");
    canvas_right(canvas, 0, 48, TONE_TITLE, "CHANGE");
    load_compare(&before->totals, &after->totals, lines);
    for (int i = 0; i < LOAD_DIFFERENCES; i++)
        draw_difference(&lines[i], canvas, i + 1);
    canvas_text(canvas, LOAD_DIFFERENCES + 1, 0, TONE_DIM,
                "One run each: differences of a few percent may be noise.");
}

/* The form */

enum { FORM_LABEL = 14, FORM_VALUE = 24, FORM_HELP = 28, WITH_HELP_FROM_WIDTH = 90, BETWEEN = 2 };

struct hint {
    enum action action; /* ACTION_NONE: not clickable */
    const char *text;   /* NULL: end of list */
};

enum { HINTS_MAX = 5 };

static const struct hint hints[LOAD_HINTS][HINTS_MAX] = {
    [LOAD_HINTS_NO_CHANGES] = {{ACTION_NONE, "no run possible here"}, {ACTION_MODE, "v past runs"}},
    [LOAD_HINTS_FORM] = {{ACTION_RUN, "r runs"},
                         {ACTION_OPEN, "Enter edits"},
                         {ACTION_NEXT, "n next preset"},
                         {ACTION_MODE, "v past runs"}},
    [LOAD_HINTS_RUNNING] = {{ACTION_STOP, "x stops"},
                            {ACTION_EDIT, "e changes rate or connections"},
                            {ACTION_NONE, "+ - server threads"},
                            {ACTION_MODE, "v past runs"}},
    [LOAD_HINTS_RUNS] = {{ACTION_NONE, "past runs:"},
                         {ACTION_COMPARE, "c compares"},
                         {ACTION_REMOVE, "d deletes"},
                         {ACTION_MODE, "v back to the form"}},
};

void load_form_draw(struct load_form *form, const struct load_settings *settings, int field,
                    const struct scene *scene, const struct canvas *canvas)
{
    char target[LOAD_TEXT_BYTES];

    form->fields = *canvas;
    form->first = field < canvas->height ? 0 : field - canvas->height + 1;
    load_target_default(model_now(scene->model)->server.listening, target, sizeof(target));
    for (int y = 0; y < canvas->height && form->first + y < LOAD_FIELDS; y++) {
        int i = form->first + y;
        const struct load_field_info *info = &load_field_table[i];
        bool here = i == field, set = settings->text[i][0] != '\0';
        const char *text = set ? settings->text[i] : i == LOAD_TARGET ? target : "-";

        if (here)
            canvas_repeat(canvas, y, 0, FORM_LABEL + FORM_VALUE, TONE_SELECTED, L' ');
        canvas_text(canvas, y, 0, TONE_SELECTED, here ? ">" : "");
        canvas_text(canvas, y, 1, here ? TONE_SELECTED : TONE_TITLE, info->label);
        canvas_text(canvas, y, FORM_LABEL,
                    here  ? TONE_SELECTED
                    : set ? TONE_VALUE
                          : TONE_DIM,
                    text);
        if (canvas->width >= WITH_HELP_FROM_WIDTH)
            canvas_text(canvas, y, FORM_LABEL + FORM_HELP, TONE_DIM, info->help);
    }
}

void load_form_draw_hints(struct load_form *form, enum load_hints offered,
                          const struct canvas *canvas)
{
    int x = 0;

    form->hints = *canvas;
    form->offered = offered;
    for (const struct hint *hint = hints[offered]; hint->text != NULL; hint++) {
        if (x + (int)strlen(hint->text) > canvas->width)
            return; /* the help lists them all */
        x = canvas_text(canvas, 0, x, TONE_DIM, hint->text) + BETWEEN;
    }
}

int load_form_field_at(const struct load_form *form, int y, int x)
{
    int field = form->first + y - form->fields.y;

    return canvas_holds(&form->fields, y, x) && field < LOAD_FIELDS ? field : -1;
}

enum action load_form_action_at(const struct load_form *form, int y, int x)
{
    int from = form->hints.x;

    if (!canvas_holds(&form->hints, y, x))
        return ACTION_NONE;
    for (const struct hint *hint = hints[form->offered]; hint->text != NULL; hint++) {
        int end = from + (int)strlen(hint->text);

        if (end > form->hints.x + form->hints.width)
            break;
        if (x >= from && x < end)
            return hint->action;
        from = end + BETWEEN;
    }
    return ACTION_NONE;
}
