/* The overview: six numbers with their past, and on a tall screen the processes below them. */

#include "console/view.h"
#include "common/macros.h"
#include "common/units.h"
#include "console/panels.h"
#include "console/strip.h"
#include "console/summary.h"
#include "console/text.h"

#include <inttypes.h>
#include <math.h>

static uint64_t sum(const struct scene *scene, enum metric metric)
{
    return model_now(scene->model)->sums[metric];
}

static double rate(const struct scene *scene, enum metric metric)
{
    return model_rate(scene->model, metric);
}

static const struct panel *const panels[] = {&panel_requests,    &panel_latency, &panel_sent,
                                             &panel_connections, &panel_errors,  &panel_cache};

/* Lines below the panels on a tall screen: processes, offload queue, log, threads. */

enum { SERVER_LINES = 5, PANEL_GAP = 2 };

static void offload_line(const struct scene *scene, char *line, size_t size, int width)
{
    char jobs[TEXT_SHORT], wait[TEXT_SHORT];
    double finished = rate(scene, METRIC_offload_jobs);

    line[0] = '\0';
    summary_append(line, size, width, "queued %" PRIu64, sum(scene, METRIC_offload_queue_depth));
    summary_append(line, size, width, "jobs/s %s", text_count(jobs, finished));
    summary_append(
        line, size, width, "mean wait %s",
        text_latency(wait, finished > 0 ? rate(scene, METRIC_offload_wait) / finished : NAN));
    summary_append(line, size, width, "refused %" PRIu64, sum(scene, METRIC_offload_refused));
}

static void log_line(const struct scene *scene, char *line, size_t size, int width)
{
    char lines[TEXT_SHORT], bytes[TEXT_SHORT];

    line[0] = '\0';
    summary_append(line, size, width, "lines/s %s",
                   text_count(lines, rate(scene, METRIC_log_lines)));
    summary_append(line, size, width, "%s/s", text_bytes(bytes, rate(scene, METRIC_log_bytes)));
    summary_append(line, size, width, "waits %" PRIu64, sum(scene, METRIC_log_waits));
    summary_append(line, size, width, "dropped %" PRIu64, sum(scene, METRIC_log_dropped));
    summary_append(line, size, width, "write errors %" PRIu64, sum(scene, METRIC_log_write_errors));
}

static void draw_server(const struct scene *scene, const struct canvas *canvas)
{
    char line[256];

    summary_processes(model_now(scene->model), line, sizeof(line), canvas->width - 9);
    canvas_text(canvas, 0, 0, TONE_TITLE, "server");
    canvas_text(canvas, 0, 9, TONE_NORMAL, line);
    offload_line(scene, line, sizeof(line), canvas->width - 9);
    canvas_text(canvas, 1, 0, TONE_TITLE, "offload");
    canvas_text(canvas, 1, 9, TONE_NORMAL, line);
    log_line(scene, line, sizeof(line), canvas->width - 9);
    canvas_text(canvas, 2, 0, TONE_TITLE, "log");
    canvas_text(canvas, 2, 9, TONE_NORMAL, line);
    strip_draw(canvas, 3, canvas->height - 3, model_now(scene->model));
}

/* How many panels stand side by side. */
static int grid_columns(int width)
{
    return width >= 150 ? 3 : width >= 70 ? 2 : 1;
}

static void draw_panels(const struct scene *scene, const struct canvas *canvas)
{
    int columns = grid_columns(canvas->width);
    int rows = ((int)ARRAY_LENGTH(panels) + columns - 1) / columns;
    int height = canvas->height / rows, width = (canvas->width + PANEL_GAP) / columns;

    height = height < 1 ? 1 : height;
    for (int i = 0; i < (int)ARRAY_LENGTH(panels); i++) {
        int y = i / columns * height, x = i % columns * width;
        int gap_below = height > PANEL_FULL_HEIGHT && i / columns + 1 < rows;
        struct canvas place = canvas_part(canvas, y, x, height - gap_below, width - PANEL_GAP);

        if (place.height > 0)
            panel_draw(panels[i], scene, &place);
    }
}

static void draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    int rows =
        ((int)ARRAY_LENGTH(panels) + grid_columns(canvas->width) - 1) / grid_columns(canvas->width);
    int below = canvas->height >= rows * (PANEL_FULL_HEIGHT + 1) + SERVER_LINES ? SERVER_LINES : 0;
    struct canvas upper = canvas_part(canvas, 0, 0, canvas->height - below, canvas->width);
    struct canvas lower =
        canvas_part(canvas, canvas->height - below + 1, 0, below - 1, canvas->width);

    (void)state;
    draw_panels(scene, &upper);
    if (below > 0)
        draw_server(scene, &lower);
}

static void once(void *state, const struct scene *scene, FILE *out)
{
    char line[512], value[TEXT_SHORT], detail[PANEL_TEXT];

    (void)state;
    summary_identity(model_now(scene->model), line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%s\n", line);
    summary_processes(model_now(scene->model), line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%s\n\n", line);
    for (size_t i = 0; i < ARRAY_LENGTH(panels); i++) {
        panels[i]->value(scene, value);
        panels[i]->detail(scene, detail, sizeof(detail));
        fprintf(out, "%-20s %10s  %s\n", panels[i]->title, value, detail);
    }
    offload_line(scene, line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%-20s %10s  %s\n", "offload", "", line);
    log_line(scene, line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%-20s %10s  %s\n", "log", "", line);
}

/* A number, or null where there is none. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_metrics(const struct scene *scene)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        json_object_set_new(metrics, metric_table[i].name,
                            json_integer((json_int_t)sum(scene, (enum metric)i)));
    return metrics;
}

static json_t *json_rates(const struct scene *scene)
{
    json_t *rates = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].kind == KIND_COUNTER)
            json_object_set_new(rates, metric_table[i].name, number(rate(scene, (enum metric)i)));
    return rates;
}

static json_t *json(void *state, const struct scene *scene)
{
    const struct model *model = scene->model;
    const struct snapshot *now = model_now(model);

    (void)state;
    return json_pack(
        "{s:f, s:o, s:{s:o, s:o, s:o, s:o}, s:{s:i, s:i}, s:{s:i, s:i}, s:o, s:o}", "interval_s",
        (double)model_interval_ns(model) / 1e9, "cache_hit_ratio", number(model_hit_ratio(model)),
        "latency_ns", "p50", number(model_percentile(model, 50)), "p90",
        number(model_percentile(model, 90)), "p99", number(model_percentile(model, 99)), "max",
        number(model_percentile(model, 100)), "workers", "wanted", (int)now->workers_wanted,
        "actual", (int)snapshot_workers_actual(now), "threads", "wanted",
        (int)(now->workers_wanted * now->threads_wanted), "actual",
        (int)snapshot_threads_actual(now), "metrics", json_metrics(scene), "rates_per_s",
        json_rates(scene));
}

const struct view view_overview = {
    .name = "overview",
    .request = REQUEST_VIEW_OVERVIEW,
    .empty = "",
    .draw = draw,
    .once = once,
    .json = json,
};
