/*
 * The threads: the strip with its legend, then worker by worker what every thread is doing. Where
 * the screen has lines to spare, what that comes to stands below: requests and latency.
 */

#include "common/macros.h"
#include "console/panels.h"
#include "console/scroll.h"
#include "console/strip.h"
#include "console/summary.h"
#include "console/table.h"
#include "console/text.h"
#include "console/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column_number {
    THREAD,
    STATE,
    SINCE,
    REQUESTS,
    CONNECTIONS,
    BUSY,
    P99,
    SENT,
    TOTAL,
    TID,
    WORK,
    COLUMNS
};

static const struct column columns[COLUMNS] = {
    [THREAD] = {.title = "THREAD", .width = 7, .importance = 10},
    [STATE] = {.title = "STATE", .width = 12, .importance = 10},
    [SINCE] = {.title = "SINCE", .width = 7, .importance = 7, .right = true},
    [REQUESTS] = {.title = "REQ/S", .width = 6, .importance = 9, .right = true},
    [CONNECTIONS] = {.title = "CONN", .width = 5, .importance = 8, .right = true},
    [BUSY] = {.title = "BUSY", .width = 5, .importance = 4, .right = true},
    [P99] = {.title = "P99", .width = 7, .importance = 6, .right = true},
    [SENT] = {.title = "SENT/S", .width = 9, .importance = 3, .right = true},
    [TOTAL] = {.title = "REQUESTS", .width = 8, .importance = 2, .right = true},
    [TID] = {.title = "TID", .width = 7, .importance = 1, .right = true},
    [WORK] = {.title = "WORKS ON", .width = 22, .importance = 5, .stretch = true},
};

enum { EFFECT_LEAST = 8, EFFECT_MOST = 16, SIDE_BY_SIDE_WIDTH = 70 };

/* A row is either a line of text about a worker, or the cells of a thread. */
struct row {
    const struct worker_sample *worker;
    bool offload; /* the line is about the worker's offload threads */
    bool heading;
    struct cell cells[COLUMNS];
};

struct rows {
    struct row *row;
    int count;
};

struct state {
    struct scroll scroll;
};

static void set_cell(struct row *row, enum column_number column, enum tone tone, const char *text)
{
    row->cells[column].tone = tone;
    snprintf(row->cells[column].text, sizeof(row->cells[column].text), "%s", text);
}

static void set_activity(struct row *row, const struct snapshot *now,
                         const struct activity_copy *activity)
{
    char text[TEXT_SHORT], work[SEGMENT_WORK_WORDS * 8 * 4];
    uint64_t since = activity->since_ns;
    const char *name = server_state_name(&now->server, activity->state);

    snprintf(text, sizeof(text), "%c %.16s", server_state_letter(&now->server, activity->state),
             name);
    set_cell(row, STATE, strip_tone(activity->state), text);
    set_cell(row, SINCE, TONE_NORMAL,
             text_since(text, now->time_ns > since ? now->time_ns - since : 0));
    snprintf(text, sizeof(text), "%" PRId32, activity->tid);
    set_cell(row, TID, TONE_DIM, activity->tid != 0 ? text : "");
    set_cell(row, WORK, TONE_NORMAL,
             text_escape(work, sizeof(work), activity->work, strlen(activity->work)));
}

static void fill_thread(struct row *row, const struct scene *scene,
                        const struct thread_sample *thread)
{
    char text[TEXT_SHORT];
    const uint64_t *values = thread->values;

    snprintf(text, sizeof(text), "  %" PRIu32 ".%" PRIu32, thread->worker, thread->thread);
    set_cell(row, THREAD, TONE_NORMAL, text);
    set_activity(row, model_now(scene->model), &thread->activity);
    set_cell(row, REQUESTS, TONE_VALUE,
             text_count(text, model_thread_rate(scene->model, thread, METRIC_requests)));
    set_cell(row, CONNECTIONS, TONE_NORMAL,
             text_count(text, (double)values[METRIC_connections_open]));
    set_cell(row, BUSY, TONE_NORMAL, text_count(text, (double)values[METRIC_connections_busy]));
    set_cell(row, P99, TONE_NORMAL,
             text_latency(text, model_thread_percentile(scene->model, thread, 99)));
    set_cell(row, SENT, TONE_NORMAL,
             text_bytes(text, model_thread_rate(scene->model, thread, METRIC_bytes_sent)));
    set_cell(row, TOTAL, TONE_NORMAL, text_count(text, (double)values[METRIC_requests]));
}

static void fill_offload(struct row *row, const struct scene *scene, uint32_t worker,
                         const struct offload_sample *offload)
{
    char text[TEXT_SHORT];

    snprintf(text, sizeof(text), "  %" PRIu32 ".q%" PRIu32, worker, offload->number);
    set_cell(row, THREAD, TONE_DIM, text);
    set_activity(row, model_now(scene->model), &offload->activity);
}

static const char *worker_state_name(uint32_t state)
{
    switch (state) {
    case WORKER_NONE:
        return "ended";
    case WORKER_STARTING:
        return "starting";
    case WORKER_SERVING:
        return "serving";
    case WORKER_LEAVING:
        return "leaving";
    default:
        return "unknown";
    }
}

/* "worker 0  threads 2 of 2  pid 1234  serving ...": what fits WIDTH. */
static void worker_line(const struct scene *scene, const struct worker_sample *worker, char *line,
                        size_t size, int width)
{
    const struct snapshot *now = model_now(scene->model);
    char age[TEXT_SHORT], entries[TEXT_SHORT], bytes[TEXT_SHORT];

    line[0] = '\0';
    summary_append(line, size, width, "worker %" PRIu32, worker->slot);
    summary_append(line, size, width, "threads %" PRIu32 " of %" PRIu32, worker->threads_actual,
                   worker->threads_wanted);
    summary_append(line, size, width, "pid %" PRId32, worker->pid);
    summary_append(line, size, width, "%s", worker_state_name(worker->state));
    summary_append(line, size, width, "cache %s in %s entries",
                   text_bytes(bytes, (double)worker->values[METRIC_cache_bytes]),
                   text_count(entries, (double)worker->values[METRIC_cache_entries]));
    summary_append(
        line, size, width, "up %s",
        text_since(age, now->wall_ns > worker->started_ns ? now->wall_ns - worker->started_ns : 0));
    if (worker->starts > 1)
        summary_append(line, size, width, "started %" PRIu32 " times", worker->starts);
}

static void offload_line(const struct scene *scene, const struct worker_sample *worker, char *line,
                         size_t size, int width)
{
    double jobs = model_worker_rate(scene->model, worker, METRIC_offload_jobs);
    double wait = model_worker_rate(scene->model, worker, METRIC_offload_wait);
    char text[TEXT_SHORT];

    line[0] = '\0';
    summary_append(line, size, width, "  offload queue");
    summary_append(line, size, width, "%" PRIu64 " waiting",
                   worker->values[METRIC_offload_queue_depth]);
    summary_append(line, size, width, "threads %" PRIu32, worker->offload_actual);
    summary_append(line, size, width, "jobs/s %s", text_count(text, jobs));
    summary_append(line, size, width, "mean wait %s",
                   text_latency(text, jobs > 0 ? wait / jobs : NAN));
}

static void row_line(const struct scene *scene, const struct row *row, char *line, size_t size,
                     int width)
{
    if (row->offload)
        offload_line(scene, row->worker, line, size, width);
    else
        worker_line(scene, row->worker, line, size, width);
}

static void add_heading(struct rows *rows, const struct worker_sample *worker, bool offload)
{
    rows->row[rows->count++] = (struct row){.worker = worker, .offload = offload, .heading = true};
}

static void add_worker(struct rows *rows, const struct scene *scene,
                       const struct worker_sample *worker, const struct thread_sample **order,
                       uint32_t threads)
{
    add_heading(rows, worker, false);
    for (uint32_t i = 0; i < threads; i++)
        if (order[i]->worker == worker->slot)
            fill_thread(&rows->row[rows->count++], scene, order[i]);
    add_heading(rows, worker, true);
    for (uint32_t i = 0; i < worker->offload_count; i++)
        fill_offload(&rows->row[rows->count++], scene, worker->slot, &worker->offload[i]);
}

static size_t most_rows(const struct snapshot *now)
{
    size_t most = now->thread_count + 2 * now->worker_count + 1;

    for (uint32_t i = 0; i < now->worker_count; i++)
        most += now->workers[i].offload_count;
    return most;
}

/* All rows; none when memory is out. To be freed. */
static struct rows make_rows(const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    struct rows rows = {.row = calloc(most_rows(now), sizeof(*rows.row))};
    const struct thread_sample **order = calloc(now->thread_count + 1, sizeof(*order));
    uint32_t threads;

    if (rows.row != NULL && order != NULL) {
        threads = strip_order(now, order);
        for (uint32_t i = 0; i < now->worker_count; i++)
            if (now->workers[i].state != WORKER_NONE)
                add_worker(&rows, scene, &now->workers[i], order, threads);
    }
    free(order);
    return rows;
}

static bool ready(const struct scene *scene)
{
    return snapshot_workers_actual(model_now(scene->model)) > 0;
}

static void draw_row(const struct scene *scene, const struct canvas *canvas, int y,
                     const int *widths, const struct row *row)
{
    char line[256];

    if (row->heading) {
        row_line(scene, row, line, sizeof(line), canvas->width);
        canvas_text(canvas, y, 0, row->offload ? TONE_DIM : TONE_NOTE, line);
    } else {
        table_draw_row(canvas, y, columns, COLUMNS, widths, row->cells);
    }
}

/* Returns how many lines were used. */
static int draw_list(struct scroll *scroll, const struct scene *scene, const struct canvas *canvas)
{
    struct rows rows = make_rows(scene);
    int widths[COLUMNS];
    int page = canvas->height - 1, count = rows.count;
    bool cut = rows.count > page;

    table_fit(columns, COLUMNS, canvas->width, widths);
    table_draw_titles(canvas, 0, columns, COLUMNS, widths);
    page -= cut; /* the last line then says so */
    scroll_fit(scroll, rows.count, page);
    for (int i = 0; i < page && scroll->top + i < rows.count; i++)
        draw_row(scene, canvas, 1 + i, widths, &rows.row[scroll->top + i]);
    if (cut && page > 0)
        canvas_print(canvas, canvas->height - 1, 0, TONE_DIM, "rows %d to %d of %d",
                     scroll->top + 1, scroll->top + page, rows.count);
    free(rows.row);
    return cut ? canvas->height : 1 + count;
}

static void draw_effect(const struct scene *scene, const struct canvas *canvas)
{
    int height = canvas->height < EFFECT_MOST ? canvas->height : EFFECT_MOST;
    int y = canvas->height - height, width = canvas->width / 2 - 1;
    struct canvas left = canvas_part(canvas, y, 0, height, width);
    struct canvas right = canvas_part(canvas, y, width + 2, height, canvas->width);

    panel_draw(&panel_requests, scene, &left);
    panel_draw(&panel_latency, scene, &right);
}

static void draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;
    const struct snapshot *now = model_now(scene->model);
    int most = canvas->height / 4 > 0 ? canvas->height / 4 : 1;
    int used = strip_draw(canvas, 0, most, now);
    struct canvas list;

    used += strip_draw_legend(canvas, used, most, now);
    used += canvas->height >= 16; /* a line of air */
    list = canvas_part(canvas, used, 0, canvas->height - used, canvas->width);
    if (list.height > 1)
        used += draw_list(&own->scroll, scene, &list) + 1;
    list = canvas_part(canvas, used, 0, canvas->height - used, canvas->width);
    if (list.height >= EFFECT_LEAST && list.width >= SIDE_BY_SIDE_WIDTH)
        draw_effect(scene, &list);
}

static bool key(void *state, const struct scene *scene, enum request request)
{
    struct state *own = state;

    (void)scene;
    return scroll_key(&own->scroll, request);
}

static void once(void *state, const struct scene *scene, FILE *out)
{
    struct rows rows = make_rows(scene);
    char line[512];

    (void)state;
    strip_print(out, model_now(scene->model));
    fputc('\n', out);
    table_print(out, columns, COLUMNS, NULL);
    for (int i = 0; i < rows.count; i++) {
        if (rows.row[i].heading) {
            row_line(scene, &rows.row[i], line, sizeof(line), (int)sizeof(line) - 1);
            fprintf(out, "%s\n", line);
        } else {
            table_print(out, columns, COLUMNS, rows.row[i].cells);
        }
    }
    free(rows.row);
}

static json_t *json_activity(const struct snapshot *now, const struct activity_copy *activity)
{
    char letter[2] = {server_state_letter(&now->server, activity->state), '\0'};
    char work[SEGMENT_WORK_WORDS * 8 * 4];
    uint64_t since = activity->since_ns;

    return json_pack("{s:i, s:s, s:s, s:I, s:s}", "tid", (int)activity->tid, "letter", letter,
                     "state", server_state_name(&now->server, activity->state), "since_ns",
                     (json_int_t)(now->time_ns > since ? now->time_ns - since : 0), "work",
                     text_escape(work, sizeof(work), activity->work, strlen(activity->work)));
}

/* Adds the values of SCOPE to OBJECT under their names. */
static void json_add_values(json_t *object, const uint64_t *values, enum metric_scope scope)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope)
            json_object_set_new(metrics, metric_table[i].name, json_integer((json_int_t)values[i]));
    json_object_set_new(object, "metrics", metrics);
}

static json_t *json_thread(const struct scene *scene, const struct thread_sample *thread)
{
    json_t *object = json_activity(model_now(scene->model), &thread->activity);
    double requests = model_thread_rate(scene->model, thread, METRIC_requests);
    double p99 = model_thread_percentile(scene->model, thread, 99);

    json_object_set_new(object, "slot", json_integer(thread->slot));
    json_object_set_new(object, "thread", json_integer(thread->thread));
    json_object_set_new(object, "requests_per_s",
                        isfinite(requests) ? json_real(requests) : json_null());
    json_object_set_new(object, "latency_p99_ns", isfinite(p99) ? json_real(p99) : json_null());
    json_add_values(object, thread->values, SCOPE_THREAD);
    return object;
}

static json_t *json_worker(const struct scene *scene, const struct worker_sample *worker,
                           const struct thread_sample **order, uint32_t count)
{
    const struct snapshot *now = model_now(scene->model);
    json_t *threads = json_array(), *offload = json_array();
    json_t *object =
        json_pack("{s:i, s:i, s:s, s:{s:i, s:i}, s:i, s:o, s:o}", "slot", (int)worker->slot, "pid",
                  (int)worker->pid, "state", worker_state_name(worker->state), "threads", "wanted",
                  (int)worker->threads_wanted, "actual", (int)worker->threads_actual, "starts",
                  (int)worker->starts, "serving", threads, "offload", offload);

    for (uint32_t i = 0; i < count; i++)
        if (order[i]->worker == worker->slot)
            json_array_append_new(threads, json_thread(scene, order[i]));
    for (uint32_t i = 0; i < worker->offload_count; i++)
        json_array_append_new(offload, json_activity(now, &worker->offload[i].activity));
    json_add_values(object, worker->values, SCOPE_WORKER);
    return object;
}

static json_t *json(void *state, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const struct thread_sample **order = calloc(now->thread_count + 1, sizeof(*order));
    uint32_t count = order != NULL ? strip_order(now, order) : 0;
    json_t *workers = json_array();

    (void)state;
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].state != WORKER_NONE)
            json_array_append_new(workers, json_worker(scene, &now->workers[i], order, count));
    free(order);
    return json_pack("{s:o}", "workers", workers);
}

const struct view view_threads = {
    .name = "threads",
    .request = REQUEST_VIEW_THREADS,
    .empty = "No worker runs at the moment.",
    .state_size = sizeof(struct state),
    .ready = ready,
    .draw = draw,
    .key = key,
    .once = once,
    .json = json,
};
