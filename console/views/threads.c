/*
 * The threads: a strip of states with its legend, then the threads of each worker. If lines are
 * left, graphs of requests and latency.
 */

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/tables.h"
#include "console/scene/scene.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "console/views/panels.h"

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
    TLS,
    HTTP2,
    STREAMS,
    GIVEN,
    TAKEN,
    P99,
    CPU,
    SENT,
    TOTAL,
    TID,
    WORK,
    WORKER,
    COLUMNS
};

enum { STATE_WIDTH = 12, LINE_LABEL = 11 };

static const struct column columns[COLUMNS] = {
    [THREAD] = {.title = "THREAD", .width = 9, .importance = 10, .key = true},
    [STATE] = {.title = "STATE", .width = STATE_WIDTH, .importance = 10},
    [SINCE] = {.title = "SINCE", .width = 7, .importance = 6, .right = true, .output = OUTPUT_NS},
    [REQUESTS] =
        {.title = "REQ/S", .width = 6, .importance = 9, .right = true, .name = "requests_per_s"},
    [CONNECTIONS] =
        {.title = "CONNS", .width = 5, .importance = 8, .right = true, .name = "connections"},
    [BUSY] = {.title = "BUSY", .width = 5, .importance = 4, .right = true},
    [TLS] = {.title = "TLS", .width = 5, .importance = 2, .right = true},
    [HTTP2] = {.title = "HTTP/2", .width = 6, .importance = 2, .right = true, .name = "http2"},
    [STREAMS] = {.title = "STREAMS", .width = 7, .importance = 2, .right = true},
    [GIVEN] = {.title = "GIVEN", .width = 5, .importance = 3, .right = true},
    [TAKEN] = {.title = "TAKEN", .width = 5, .importance = 3, .right = true},
    [P99] = {.title = "P99", .width = 7, .importance = 6, .right = true, .output = OUTPUT_NS},
    [CPU] = {.title = "CPU", .width = 6, .importance = 5, .right = true, .name = "cpu_percent"},
    [SENT] =
        {.title = "SENT/S", .width = 9, .importance = 3, .right = true, .name = "bytes_sent_per_s"},
    [TOTAL] = {.title = "REQUESTS", .width = 8, .importance = 2, .right = true},
    [TID] = {.title = "TID", .width = 7, .importance = 1, .right = true},
    [WORK] = {.title = "LAST WORK", .width = 22, .importance = 7, .stretch = 1},
    [WORKER] = {.title = "WORKER", .hidden = true, .key = true},
};

enum { WORK_TEXT = SEGMENT_WORK_WORDS * 8 * 4 };

enum {
    EFFECT_LEAST = 6,
    EFFECT_MOST = 30,
    SIDE_BY_SIDE_WIDTH = 70,
    LEGEND_MOST = 3,
    TALL = 16,
    LOCKS_HEIGHT = 10,
    FOLDED_FROM = 24 /* threads */
};

/* A worker, one of its serving threads, its offload queue, or one of its offload threads. */
struct row {
    const struct worker_sample *worker; /* NULL: the worker of the thread exited */
    const struct thread_sample *thread;
    const struct offload_sample *offload;
    bool queue;
    uint32_t folded; /* serving threads of the worker that have no row */
};

struct state {
    enum {
        FOLDED,
        EVERY_THREAD,
        ONLY_LETTERS,
        MODES
    } mode; /* FOLDED: without idle offload threads and, of many, idle workers */
    struct row *rows;
    size_t count, room;
};

static size_t most_rows(const struct snapshot *now)
{
    size_t most = now->thread_count + 2 * now->worker_count + 1;

    for (uint32_t i = 0; i < now->worker_count; i++)
        most += now->workers[i].offload_count;
    return most;
}

static void add_row(struct state *state, struct row row)
{
    state->rows[state->count++] = row;
}

static void add_worker(struct state *state, const struct worker_sample *worker,
                       const struct thread_sample *const *order, uint32_t threads, bool sorted,
                       bool has_queue, bool folded)
{
    bool every = state->mode == EVERY_THREAD;

    if (folded && !every) {
        add_row(state, (struct row){.worker = worker, .folded = worker->threads_actual});
        return;
    }
    if (!sorted)
        add_row(state, (struct row){.worker = worker});
    for (uint32_t i = 0; i < threads; i++) {
        bool ends_acceptors = order[i]->thread + 1 == worker->acceptors;

        if (order[i]->worker != worker->slot)
            continue;
        add_row(state, (struct row){.worker = worker, .thread = order[i]});
        if (!sorted && has_queue && ends_acceptors)
            add_row(state, (struct row){.worker = worker, .queue = true});
    }
    if (!sorted && has_queue && worker->acceptors == 0)
        add_row(state, (struct row){.worker = worker, .queue = true});
    for (uint32_t i = 0; i < worker->offload_count; i++)
        if (every || worker->offload[i].activity.state != THREAD_STATE_QUEUE)
            add_row(state, (struct row){.worker = worker, .offload = &worker->offload[i]});
}

/* The sum of METRIC over the threads of a worker: a gauge, or the rate of a counter. */
static double sum_of(const struct scene *scene, const struct worker_sample *worker,
                     enum metric metric, bool as_rate)
{
    const struct snapshot *now = model_now(scene->model);
    double sum = 0;

    for (uint32_t i = 0; i < now->thread_count; i++)
        if (now->threads[i].worker == worker->slot)
            sum += as_rate ? model_thread_rate(scene->model, &now->threads[i], metric)
                           : model_thread_value(scene->model, &now->threads[i], metric);
    return sum;
}

/* True if the worker is one of many threads and does nothing. */
static bool is_worker_folded(const struct scene *scene, const struct worker_sample *worker)
{
    return model_now(scene->model)->thread_count > FOLDED_FROM && scene->moment != MOMENT_PAST &&
           worker->state == WORKER_SERVING && !(sum_of(scene, worker, METRIC_requests, true) > 0) &&
           !(sum_of(scene, worker, METRIC_connections_busy, false) > 0) &&
           !(model_worker_value(scene->model, worker, METRIC_offload_queue_depth) > 0);
}

/* SORTED: only threads, because a worker cannot be compared with its own threads. */
static void make_rows(struct state *state, const struct scene *scene, bool sorted)
{
    const struct snapshot *now = model_now(scene->model);
    const struct thread_sample *const *order;
    uint32_t threads = strip_sorted(now, &order);
    bool has_queue = now->server.published[METRIC_offload_jobs] != PUBLISHED_NOT ||
                     now->server.published[METRIC_queue_capacity] != PUBLISHED_NOT;

    state->count = 0;
    if (most_rows(now) > state->room) {
        free(state->rows);
        state->rows = calloc(most_rows(now), sizeof(*state->rows));
        state->room = state->rows != NULL ? most_rows(now) : 0;
    }
    if (state->rows != NULL) {
        for (uint32_t i = 0; i < now->worker_count; i++)
            if (now->workers[i].state != WORKER_NONE)
                add_worker(state, &now->workers[i], order, threads, sorted, has_queue,
                           !sorted && is_worker_folded(scene, &now->workers[i]));
        for (uint32_t i = 0; i < threads;
             i++) /* in the history the thread belonged to another worker */
            if (order[i]->worker == SEGMENT_NO_WORKER)
                add_row(state, (struct row){.thread = order[i]});
    }
}

static size_t threads_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    if (scene->controller == NULL)
        own->mode = EVERY_THREAD; /* output for scripts */
    make_rows(own, scene, scene->grid != NULL && scene->grid->sorted_by != 0);
    return own->count;
}

static uint64_t threads_id(void *state, const struct scene *scene, size_t row)
{
    const struct row *what = &((struct state *)state)->rows[row];
    uint64_t worker = what->worker != NULL ? what->worker->slot : UINT16_MAX;

    (void)scene;
    return what->thread != NULL    ? UINT64_C(1) << 32 | what->thread->slot
           : what->offload != NULL ? UINT64_C(2) << 32 | worker << 16 | what->offload->number
           : what->queue           ? UINT64_C(3) << 32 | worker
                                   : worker;
}

static void name_of(const struct row *row, char *name, size_t size)
{
    if (row->thread != NULL && row->worker != NULL && row->thread->thread < row->worker->acceptors)
        snprintf(name, size, " %" PRIu32 ".accept", row->worker->slot); /* as wide as the column */
    else if (row->thread != NULL && row->worker == NULL)
        snprintf(name, size, "  ended");
    else if (row->thread != NULL && row->thread->name[0] != '\0')
        snprintf(name, size, " %s", row->thread->name);
    else if (row->thread != NULL)
        snprintf(name, size, "  %" PRIu32 ".%" PRIu32, row->worker->slot, row->thread->thread);
    else if (row->offload != NULL)
        snprintf(name, size, "  %" PRIu32 ".q%" PRIu32, row->worker->slot, row->offload->number);
    else
        snprintf(name, size, row->queue ? "  %" PRIu32 ".queue" : "worker %" PRIu32,
                 row->worker->slot);
}

/* As the log shows a request; BUFFER has WORK_TEXT bytes. */
static const char *work_text(const struct activity_copy *activity, char *buffer)
{
    tail_readable(buffer, WORK_TEXT, activity->work, strlen(activity->work));
    return buffer;
}

static void fill_activity(struct cell *cells, const struct scene *scene,
                          const struct activity_copy *activity)
{
    const struct snapshot *now = model_now(scene->model);
    char work[WORK_TEXT];

    cell_print(&cells[STATE], strip_tone(activity->state), "%c %.16s",
               server_state_letter(&now->server, activity->state),
               server_state_name(&now->server, activity->state));
    cell_percent(&cells[CPU], TONE_NORMAL, processes_thread_cores(scene->processes, activity->tid));
    if (activity->tid != 0)
        cell_exact(&cells[TID], TONE_DIM, (uint64_t)activity->tid);
    if (scene->moment == MOMENT_PAST)
        return;
    cell_age(&cells[SINCE], TONE_NORMAL,
             now->states_ns > activity->since_ns ? now->states_ns - activity->since_ns : 0);
    cell_text(&cells[WORK], TONE_NORMAL,
              activity->state == THREAD_STATE_BLOCKED ? "the queue is full"
                                                      : work_text(activity, work));
}

/* Connections handed over to other threads: a total, or the rate of the last second. */
static double given_by(const struct model *model, const struct thread_sample *thread,
                       double (*value)(const struct model *, const struct thread_sample *,
                                       enum metric))
{
    return value(model, thread, METRIC_connections_moved_leaving) +
           value(model, thread, METRIC_connections_moved_resize) +
           value(model, thread, METRIC_connections_moved_uneven);
}

/* What is drawn as a number of each thread, and as the sum of a worker. */
static const struct {
    enum column_number column;
    enum metric metric;
} gauges[] = {
    {CONNECTIONS, METRIC_connections_open},
    {BUSY, METRIC_connections_busy},
    {TLS, METRIC_tls_open},
    {HTTP2, METRIC_http2_open},
    {STREAMS, METRIC_http2_streams},
};

static void fill_thread(struct cell *cells, const struct scene *scene,
                        const struct thread_sample *thread)
{
    const struct model *model = scene->model;
    bool gives = given_by(model, thread, model_thread_rate) > 0;
    bool takes = model_thread_rate(model, thread, METRIC_connections_adopted) > 0;

    fill_activity(cells, scene, &thread->activity);
    cell_rate(&cells[REQUESTS], TONE_VALUE, model_thread_rate(model, thread, METRIC_requests));
    for (size_t i = 0; i < ARRAY_LENGTH(gauges); i++)
        cell_count(&cells[gauges[i].column], TONE_NORMAL,
                   model_thread_value(model, thread, gauges[i].metric));
    /* Totals, highlighted while connections move. */
    cell_count(&cells[GIVEN], gives ? TONE_WARN : TONE_DIM,
               given_by(model, thread, model_thread_value));
    cell_count(&cells[TAKEN], takes ? TONE_VALUE : TONE_DIM,
               model_thread_value(model, thread, METRIC_connections_adopted));
    cell_latency(&cells[P99], TONE_NORMAL, model_thread_percentile(model, thread, 99));
    cell_bytes(&cells[SENT], TONE_NORMAL, model_thread_rate(model, thread, METRIC_bytes_sent));
    cell_count(&cells[TOTAL], TONE_NORMAL, model_thread_value(model, thread, METRIC_requests));
}

/* "threads 2 of 2  pid 1234  up 3m": the items that fit WIDTH. */
static void worker_line(const struct scene *scene, const struct worker_sample *worker,
                        uint32_t folded, char *line, size_t size, int width)
{
    uint64_t wall_ns = model_now(scene->model)->wall_ns;
    char text[TEXT_SHORT];

    line[0] = '\0';
    if (scene->moment == MOMENT_PAST)
        return;
    if (folded > 0)
        summary_append(line, size, width, "%" PRIu32 " idle", folded);
    if (worker->acceptors > 0 && worker->queue_order < QUEUE_ORDER_COUNT &&
        worker->queue_full < QUEUE_FULL_COUNT)
        summary_append(line, size, width, "%s %s", queue_order_names[worker->queue_order],
                       queue_full_names[worker->queue_full]);
    summary_append_threads(line, size, width, worker->threads_actual, worker->threads_wanted);
    summary_append(line, size, width, "pid %" PRId32, worker->pid);
    if (wall_ns > worker->started_ns) /* else the clock was set back */
        summary_append(line, size, width, "up %s", text_since(text, wall_ns - worker->started_ns));
    if (scene_has(scene, SEGMENT_CACHE))
        summary_append(line, size, width, "cache %s",
                       text_bytes(text, (double)worker->values[METRIC_cache_bytes]));
    if (worker->starts > 1)
        summary_append(line, size, width, "started %" PRIu32 " times", worker->starts);
}

/* The width of the last column; unlimited in output for scripts. */
static int work_width(const struct scene *scene)
{
    enum { UNLIMITED = 200 };
    int width = scene->grid != NULL ? scene->grid->widths[WORK] : 0;

    return width > 0 ? width : UNLIMITED;
}

static void fill_worker(struct cell *cells, const struct scene *scene,
                        const struct worker_sample *worker, uint32_t folded)
{
    uint64_t wall_ns = model_now(scene->model)->wall_ns;
    double cores = NAN;

    for (uint32_t i = 0; i < scene->processes->count; i++)
        if (scene->processes->process[i].pid == worker->pid)
            cores = (double)scene->processes->process[i].cores;
    cell_text(&cells[STATE], worker->state == WORKER_LEAVING ? TONE_WARN : TONE_NOTE,
              (scene->ended && scene->moment != MOMENT_PAST) || worker->state == WORKER_NONE
                  ? "ended"
              : worker->state < WORKER_STATE_COUNT ? worker_state_names[worker->state]
                                                   : "unknown");
    /* Else an earlier worker of the slot, or the clock was set back. */
    if (worker->started_ns != 0 && wall_ns > worker->started_ns)
        cell_age(&cells[SINCE], TONE_NOTE, wall_ns - worker->started_ns);
    cell_rate(&cells[REQUESTS], TONE_NOTE, sum_of(scene, worker, METRIC_requests, true));
    for (size_t i = 0; i < ARRAY_LENGTH(gauges); i++)
        cell_count(&cells[gauges[i].column], TONE_NOTE,
                   sum_of(scene, worker, gauges[i].metric, false));
    cell_percent(&cells[CPU], TONE_NOTE, cores);
    cell_bytes(&cells[SENT], TONE_NOTE, sum_of(scene, worker, METRIC_bytes_sent, true));
    cell_count(&cells[TOTAL], TONE_NOTE, sum_of(scene, worker, METRIC_requests, false));
    cell_exact(&cells[TID], TONE_DIM, (uint64_t)worker->pid);
    worker_line(scene, worker, folded, cells[WORK].text, sizeof(cells[WORK].text),
                work_width(scene));
    cells[WORK].tone = TONE_NOTE;
}

/* "██·· 4/8": how full the connection queue is. */
static void fill_queue_state(struct cell *cell, const struct scene *scene, double waiting,
                             double places)
{
    enum { BAR = 4 };
    int full = places > 0 ? (int)ceil(BAR * fmin(waiting / places, 1)) : 0;
    char bar[BAR * sizeof("█")] = "", text[TEXT_SHORT], other[TEXT_SHORT];

    for (int i = 0; i < BAR; i++)
        strcat(bar, scene->ascii ? (i < full ? "#" : ".") : i < full ? "█" : "·");
    text_count(text, waiting);
    text_count(other, places);
    cell_print(cell, waiting > 0 ? TONE_WARN : TONE_DIM, "%s%s%s/%s",
               strlen(text) + strlen(other) + BAR + 2 <= STATE_WIDTH ? bar : "",
               strlen(text) + strlen(other) + BAR + 2 <= STATE_WIDTH ? " " : "", text, other);
}

/* The queue between an acceptor and the threads of a worker, or of another program. */
static void fill_thread_queue(struct cell *cells, const struct scene *scene,
                              const struct worker_sample *worker)
{
    double waiting = model_worker_value(scene->model, worker, METRIC_queue_length);
    double places = model_worker_value(scene->model, worker, METRIC_queue_capacity);
    double taken = model_worker_rate(scene->model, worker, METRIC_queue_taken);
    double wait = model_worker_rate(scene->model, worker, METRIC_queue_wait);
    double dropped = model_worker_value(scene->model, worker, METRIC_queue_dropped);
    double oldest = model_worker_value(scene->model, worker, METRIC_queue_oldest);
    char text[TEXT_SHORT], other[TEXT_SHORT];
    struct cell *work = &cells[WORK];

    if (worker->acceptors > 0) {
        fill_queue_state(&cells[STATE], scene, waiting, places);
        cell_rate(&cells[REQUESTS], TONE_DIM, taken);
        cell_count(&cells[CONNECTIONS], TONE_DIM, waiting);
        cell_latency(&cells[P99], TONE_DIM, model_wait_percentile(scene->model, worker, 99));
        if (waiting > 0)
            cell_age(&cells[SINCE], TONE_WARN, (uint64_t)oldest);
    } else {
        cell_print(&cells[STATE], waiting > 0 ? TONE_WARN : TONE_DIM, "%s of %s",
                   text_count(text, waiting), text_count(other, places));
    }
    work->tone = TONE_DIM;
    if (oldest > 0)
        summary_append(work->text, sizeof(work->text), work_width(scene), "oldest %s",
                       text_latency(text, oldest));
    if (dropped > 0)
        summary_append(work->text, sizeof(work->text), work_width(scene), "dropped %s",
                       text_count(text, dropped));
    if (!isnan(taken)) {
        summary_append(work->text, sizeof(work->text), work_width(scene), "mean wait %s",
                       text_latency(text, taken > 0 ? wait / taken : NAN));
        summary_append(work->text, sizeof(work->text), work_width(scene), "taken/s %s",
                       text_count(text, taken));
    }
    if (dropped == 0)
        summary_append(work->text, sizeof(work->text), work_width(scene), "dropped 0");
}

/* Models with a connection queue */

static bool has_acceptor(const struct snapshot *now)
{
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].acceptors > 0)
            return true;
    return false;
}

/* Whether connections wait in queues of the workers. */
static bool has_queues(const struct scene *scene)
{
    return scene->moment != MOMENT_PAST && has_acceptor(model_now(scene->model));
}

/* Connections in queues of which no thread takes one: each thread keeps that which it has. */
static double held_up(const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    double waiting = 0;

    for (uint32_t i = 0; i < now->worker_count; i++)
        if (model_worker_rate(scene->model, &now->workers[i], METRIC_queue_taken) == 0)
            waiting += model_worker_value(scene->model, &now->workers[i], METRIC_queue_length);
    return waiting;
}

static void draw_locks(const struct scene *scene, const struct canvas *canvas, int y)
{
    char line[256] = "", text[TEXT_SHORT];

    canvas_text(canvas, y, 0, TONE_TITLE, "locks");
    summary_append(line, sizeof(line), canvas->width - LINE_LABEL, "waits/s %s",
                   text_count(text, scene_rate(scene, METRIC_lock_waits)));
    summary_append(line, sizeof(line), canvas->width - LINE_LABEL, "mean %s",
                   text_latency(text, scene_figure(scene, FIGURE_lock_wait_mean)));
    summary_append(line, sizeof(line), canvas->width - LINE_LABEL, "accept queue of the kernel %s",
                   text_count(text, scene_sum(scene, METRIC_accept_queue)));
    canvas_text(canvas, y, LINE_LABEL, TONE_NORMAL, line);
}

/* Threads that have waited for a mutex for over a second; *LONGEST_NS: the longest of these waits. */
static uint32_t threads_locked(const struct snapshot *now, uint64_t *longest_ns)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < now->thread_count; i++) {
        const struct activity_copy *activity = &now->threads[i].activity;
        uint64_t wait_ns =
            now->states_ns > activity->since_ns ? now->states_ns - activity->since_ns : 0;

        if (activity->state != THREAD_STATE_LOCK || wait_ns < NS_PER_S)
            continue;
        count++;
        if (wait_ns > *longest_ns)
            *longest_ns = wait_ns;
    }
    return count;
}

/*
 * Writes a sentence about threads that wait for something that does not come, a short one if WIDTH
 * does not allow the other. False: none does.
 */
static bool describe_waiting(const struct scene *scene, bool queues, int width, char *line,
                             size_t size)
{
    double waiting = queues ? held_up(scene) : 0;
    uint64_t longest_ns = 0;
    uint32_t locked = threads_locked(model_now(scene->model), &longest_ns);
    char text[TEXT_SHORT];
    int length = 0;

    if (locked > 1) {
        text_latency(text, (double)longest_ns);
        length =
            snprintf(line, size, "%" PRIu32 " threads have waited for mutexes for %s: a deadlock?",
                     locked, text);
        if (length > width)
            snprintf(line, size, "%" PRIu32 " wait for locks %s: deadlock?", locked, text);
    } else if (waiting > 0) {
        text_count(text, waiting);
        length = snprintf(
            line, size, "threads wait for their own clients; %s %s for a thread: +, :model events",
            text, waiting > 1 ? "others wait" : "other waits");
        if (length > width)
            snprintf(line, size, "%s %s for a thread: +, :model events", text,
                     waiting > 1 ? "wait" : "waits");
    }
    return length > 0;
}

static void fill_queue(struct cell *cells, const struct scene *scene,
                       const struct worker_sample *worker)
{
    double jobs = model_worker_rate(scene->model, worker, METRIC_offload_jobs);
    double wait = model_worker_rate(scene->model, worker, METRIC_offload_wait);
    double waiting = model_worker_value(scene->model, worker, METRIC_offload_queue_depth);
    char text[TEXT_SHORT], rate[TEXT_SHORT], depth[TEXT_SHORT];
    uint32_t idle = 0;

    for (uint32_t i = 0; i < worker->offload_count; i++)
        idle += worker->offload[i].activity.state == THREAD_STATE_QUEUE;
    if (scene->moment == MOMENT_PAST) {
        cell_text(&cells[STATE], TONE_DIM, "-");
        return;
    }
    if ((isnan(jobs) && isnan(waiting)) ||
        model_worker_value(scene->model, worker, METRIC_queue_capacity) > 0) {
        fill_thread_queue(cells, scene, worker);
        return;
    }
    cell_print(&cells[STATE], waiting > 0 ? TONE_WARN : TONE_DIM, "%s queued",
               text_count(depth, waiting));
    cells[WORK].tone = TONE_DIM;
    summary_append(cells[WORK].text, sizeof(cells[WORK].text), work_width(scene),
                   "idle %" PRIu32 "/%" PRIu32, idle, worker->offload_actual);
    summary_append(cells[WORK].text, sizeof(cells[WORK].text), work_width(scene), "jobs/s %s",
                   text_count(rate, jobs));
    summary_append(cells[WORK].text, sizeof(cells[WORK].text), work_width(scene), "mean wait %s",
                   text_latency(text, jobs > 0 ? wait / jobs : NAN));
}

static void threads_fill(void *state, const struct scene *scene, size_t number, struct cell *cells)
{
    const struct row *row = &((struct state *)state)->rows[number];

    name_of(row, cells[THREAD].text, sizeof(cells[THREAD].text));
    cells[THREAD].no_key = row->thread == NULL; /* no request has these names */
    cells[WORKER].no_key = row->thread != NULL;
    if (row->worker != NULL)
        cell_print(&cells[WORKER], TONE_NORMAL, "%" PRIu32, row->worker->slot);
    cells[THREAD].tone = row->thread != NULL                  ? TONE_NORMAL
                         : row->offload != NULL || row->queue ? TONE_DIM
                                                              : TONE_NOTE;
    if (row->thread != NULL)
        fill_thread(cells, scene, row->thread);
    else if (row->offload != NULL)
        fill_activity(cells, scene, &row->offload->activity);
    else if (row->queue)
        fill_queue(cells, scene, row->worker);
    else
        fill_worker(cells, scene, row->worker, row->folded);
}

static void detail_of_values(FILE *out, const uint64_t *values, enum metric_scope scope)
{
    char text[TEXT_SHORT];

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope && values[i] > 0)
            fprintf(out, "%s\t%s\n", metric_table[i].label,
                    metric_table[i].unit == UNIT_BYTES ? text_bytes(text, (double)values[i])
                    : metric_table[i].unit == UNIT_NANOSECONDS
                        ? text_latency(text, (double)values[i])
                        : text_count(text, (double)values[i]));
}

static void threads_detail(void *state, const struct scene *scene, size_t number, FILE *out)
{
    const struct row *row = &((struct state *)state)->rows[number];
    const struct snapshot *now = model_now(scene->model);
    const struct activity_copy *activity = row->thread != NULL    ? &row->thread->activity
                                           : row->offload != NULL ? &row->offload->activity
                                                                  : NULL;
    char name[32], work[WORK_TEXT], line[256];

    name_of(row, name, sizeof(name));
    fprintf(out, "%s\t%s\n", activity != NULL ? "thread" : "worker", name + strspn(name, " "));
    if (activity != NULL) {
        fprintf(out, "state\t%c %s\n", server_state_letter(&now->server, activity->state),
                server_state_name(&now->server, activity->state));
        fprintf(out, "last work\t%s\n", work_text(activity, work));
    } else {
        worker_line(scene, row->worker, 0, line, sizeof(line), sizeof(line) - 1);
        fprintf(out, "now\t%s\n", line);
    }
    if (row->thread != NULL && scene->moment != MOMENT_PAST)
        detail_of_values(out, row->thread->values, SCOPE_THREAD);
    else if (row->worker != NULL && row->offload == NULL && scene->moment != MOMENT_PAST)
        detail_of_values(out, row->worker->values, SCOPE_WORKER);
    if (scene_is_webserverd(scene) && scene_allows_changes(scene))
        fprintf(out, "d drains its worker, r restarts it.\n");
}

/* What no thread counts */
static bool threads_lack(const struct scene *scene, size_t column)
{
    const uint8_t *published = model_now(scene->model)->server.published;

    for (size_t i = 0; i < ARRAY_LENGTH(gauges); i++)
        if (gauges[i].column == column)
            return published[gauges[i].metric] != PUBLISHED_BY_WRITER;
    return (column == GIVEN || column == TAKEN) &&
           published[METRIC_connections_adopted] != PUBLISHED_BY_WRITER;
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = threads_count,
    .fill = threads_fill,
    .id = threads_id,
    .detail = threads_detail,
    .lacks = threads_lack,
    .opens = true,
};

static bool threads_ready(const struct scene *scene)
{
    return scene->moment == MOMENT_PAST || snapshot_workers_actual(model_now(scene->model)) > 0;
}

static void threads_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;
    const struct snapshot *now = model_now(scene->model);
    bool tall = canvas->height >= TALL;
    int legend = tall ? LEGEND_MOST : 1, lines = (int)threads_count(own, scene);
    int used = strip_draw(
        canvas, 0, own->mode == ONLY_LETTERS ? canvas->height - legend : canvas->height / 6 + 1,
        now);
    bool queues = has_queues(scene);
    bool locks = queues && canvas->height >= LOCKS_HEIGHT;
    struct canvas rest, effect;
    char line[256];

    if (scene->moment == MOMENT_PAST && now->thread_count == 0) {
        canvas_wrapped(canvas, canvas->height / 3, TONE_DIM,
                       "Threads are recorded for 15 minutes; Right goes to a later moment.");
        return;
    }
    used += strip_draw_legend(canvas, used, legend, now);
    used += tall; /* blank line */
    rest = canvas_part(canvas, used, 0, canvas->height - used, canvas->width);
    if (scene->moment != MOMENT_PAST &&
        describe_waiting(scene, queues, rest.width, line, sizeof(line))) {
        canvas_text(&rest, rest.height - 1, 0, TONE_WARN, line);
        rest = canvas_part(&rest, 0, 0, rest.height - 1, rest.width);
    }
    lines = own->mode == ONLY_LETTERS ? 0 : lines + 1;
    effect = canvas_part(&rest, lines + locks, 0, rest.height - lines - locks, rest.width);
    if (effect.height > EFFECT_MOST)
        effect = canvas_part(&rest, rest.height - EFFECT_MOST, 0, EFFECT_MOST, rest.width);
    else if (effect.height > EFFECT_LEAST) /* a blank line */
        effect = canvas_part(&effect, 1, 0, effect.height - 1, effect.width);
    if (effect.height >= EFFECT_LEAST && effect.width >= SIDE_BY_SIDE_WIDTH) {
        int width = effect.width / 2 - 1;
        struct canvas left = canvas_part(&effect, 0, 0, effect.height, width);
        struct canvas right = canvas_part(&effect, 0, width + 2, effect.height, effect.width);

        metric_panel_draw(&panel_requests, scene, &left, false);
        metric_panel_draw(queues ? &panel_queue_wait : &panel_latency, scene, &right, false);
    } else if (!locks || lines > rest.height - 1) {
        lines = rest.height - locks;
    }
    if (locks)
        draw_locks(scene, &rest, lines);
    rest = canvas_part(&rest, 0, 0, lines, rest.width);
    if (own->mode != ONLY_LETTERS)
        grid_draw(scene->grid, scene, &rest);
}

/* Sends "COMMAND SLOT" for the worker in the selected row. */
static void act_on_worker(const struct state *state, const struct scene *scene, const char *command)
{
    char line[64];
    size_t row;

    if (!grid_subject(scene->grid, &row) || state->rows[row].worker == NULL) {
        controller_report(scene->controller, true, "select a worker or a thread first (Up, Down)");
        return;
    }
    snprintf(line, sizeof(line), "%s %" PRIu32, command, state->rows[row].worker->slot);
    controller_command(scene->controller, line);
}

static void send_queue(void *context, const char *text)
{
    char line[CONTROLLER_TEXT];

    snprintf(line, sizeof(line), "queue %.100s", text);
    controller_command(context, line);
}

static void edit_queue(const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    char initial[64] = "";

    for (uint32_t i = 0; i < now->worker_count && initial[0] == '\0'; i++)
        if (now->workers[i].acceptors > 0 && now->workers[i].queue_order < QUEUE_ORDER_COUNT &&
            now->workers[i].queue_full < QUEUE_FULL_COUNT)
            snprintf(initial, sizeof(initial), "%s %s %" PRIu64,
                     queue_order_names[now->workers[i].queue_order],
                     queue_full_names[now->workers[i].queue_full],
                     now->workers[i].values[METRIC_queue_capacity]);
    controller_prompt(scene->controller, "queue (order, when full, places): ", initial, send_queue,
                      scene->controller);
}

static void change_model(const struct scene *scene)
{
    char line[64];

    snprintf(line, sizeof(line), "model %s",
             worker_model_names[(model_now(scene->model)->model + 1) % MODEL_COUNT]);
    controller_command(scene->controller, line);
}

static bool threads_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;

    switch (action) {
    case ACTION_MODE:
        own->mode = (own->mode + 1) % MODES;
        grid_update(scene->grid, scene); /* the next key may arrive before the list is drawn */
        return true;
    case ACTION_REMOVE:
        act_on_worker(own, scene, "drain");
        return true;
    case ACTION_RUN:
        act_on_worker(own, scene, "restart");
        return true;
    case ACTION_NEXT:
        if (scene_is_webserverd(scene))
            change_model(scene);
        return scene_is_webserverd(scene);
    case ACTION_EDIT:
        if (has_queues(scene) && controller_allows_change(scene->controller))
            edit_queue(scene);
        return has_queues(scene);
    default:
        return false;
    }
}

static void threads_release(void *state)
{
    free(((struct state *)state)->rows);
}

static void threads_once(void *state, const struct scene *scene, FILE *out)
{
    (void)state;
    strip_print(out, model_now(scene->model));
    fputc('\n', out);
    grid_print(scene->grid, scene, out);
}

/* JSON: all metrics of workers and threads */

static json_t *json_activity(const struct snapshot *now, const struct activity_copy *activity)
{
    char letter[2] = {server_state_letter(&now->server, activity->state), '\0'};
    char work[SEGMENT_WORK_WORDS * 8 * 4];
    uint64_t since = activity->since_ns;

    return json_pack("{s:i, s:s, s:s, s:I, s:s}", "tid", (int)activity->tid, "letter", letter,
                     "state", server_state_name(&now->server, activity->state), "since_ns",
                     (json_int_t)(now->time_ns > since ? now->time_ns - since : 0), "last_work",
                     escape_text(work, sizeof(work), activity->work, strlen(activity->work)));
}

/* Adds the metrics of SCOPE that the server publishes to OBJECT. */
static void json_add_values(json_t *object, const struct server *server, const uint64_t *values,
                            enum metric_scope scope)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope && server->published[i] == PUBLISHED_BY_WRITER)
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
    json_object_set_new(object, "requests_per_s", scene_json_number(requests));
    json_object_set_new(object, "p99_ns", scene_json_number(p99));
    json_add_values(object, &model_now(scene->model)->server, thread->values, SCOPE_THREAD);
    return object;
}

static json_t *json_worker(const struct scene *scene, const struct worker_sample *worker,
                           const struct thread_sample *const *order, uint32_t count)
{
    const struct snapshot *now = model_now(scene->model);
    json_t *threads = json_array(), *offload = json_array();
    json_t *object = json_pack(
        "{s:i, s:i, s:s, s:{s:o, s:i}, s:i, s:i, s:o, s:o}", "slot", (int)worker->slot, "pid",
        (int)worker->pid, "state",
        worker->state < WORKER_STATE_COUNT ? worker_state_names[worker->state] : "unknown",
        "threads", "wanted", scene_json_wanted(scene, worker->threads_wanted), "actual",
        (int)worker->threads_actual, "acceptors", (int)worker->acceptors, "starts",
        (int)worker->starts, "serving", threads, "offload", offload);

    for (uint32_t i = 0; i < count; i++)
        if (order[i]->worker == worker->slot)
            json_array_append_new(threads, json_thread(scene, order[i]));
    for (uint32_t i = 0; i < worker->offload_count; i++)
        json_array_append_new(offload, json_activity(now, &worker->offload[i].activity));
    json_add_values(object, &model_now(scene->model)->server, worker->values, SCOPE_WORKER);
    return object;
}

static json_t *threads_json(void *state, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const struct thread_sample *const *order;
    uint32_t count = strip_sorted(now, &order);
    json_t *workers = json_array();

    (void)state;
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].state != WORKER_NONE)
            json_array_append_new(workers, json_worker(scene, &now->workers[i], order, count));
    return json_pack("{s:o}", "workers", workers);
}

static const char *const help[] = {
    "What each thread does: one letter at the top, one line below.",
    "+ - serving threads per worker, w W workers,",
    "o O maximum of offload threads per worker.",
    "d drains the worker of the selected row, r restarts it.",
    "0.1 is a serving thread, 0.q1 an offload thread, 0.queue their queue.",
    "With the models pool and thread, 0.accept is the acceptor, 0.queue the connection queue.",
    "n changes the model, e the queue: its order, what happens when it is full, its places.",
    "Connections move to threads with less to do: GIVEN and TAKEN count them.",
    "Idle offload threads are folded into their queue, and of more than 24 threads also those",
    "of idle workers; v shows them, then only letters.",
    "s sorts: then workers and queues are left out, :sort cpu puts the busiest thread first.",
    "CPU is in percent of one core.",
    NULL};

/* Other programs cannot be told to drain a worker. */
static const struct view_hint *threads_hints(const void *state, const struct scene *scene)
{
    static const struct view_hint hints[] = {{ACTION_MODE, "layout", false, HINT_ALWAYS},
                                             {ACTION_NEXT, "model", true, HINT_ALWAYS},
                                             {ACTION_REMOVE, "drain", true, HINT_ROWS},
                                             {ACTION_RUN, "restart", true, HINT_ROWS},
                                             {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint hints_of_queue[] = {
        {ACTION_MODE, "layout", false, HINT_ALWAYS}, {ACTION_NEXT, "model", true, HINT_ALWAYS},
        {ACTION_EDIT, "queue", true, HINT_ALWAYS},   {ACTION_REMOVE, "drain", true, HINT_ROWS},
        {ACTION_RUN, "restart", true, HINT_ROWS},    {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint hints_of_others[] = {{ACTION_MODE, "layout", false, HINT_ALWAYS},
                                                       {ACTION_NONE, "", false, HINT_ALWAYS}};

    (void)state;
    return !scene_is_webserverd(scene) ? hints_of_others
           : has_queues(scene)         ? hints_of_queue
                                       : hints;
}

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("REQ/S", requests),
    METRIC_NUMBER("CONNS", connections_open),
    METRIC_NUMBER("BUSY", connections_busy),
    METRIC_NUMBER("GIVEN", connections_moved_uneven),
    METRIC_NUMBER("TAKEN", connections_adopted),
    METRIC_NUMBER("SENT/S", bytes_sent),
    METRIC_NUMBER("queued", offload_queue_depth),
    FIGURE_NUMBER("mean wait", offload_wait_mean),
    NUMBERS_END,
};

const struct view view_threads = {
    .name = "threads",
    .short_name = "thr",
    .action = ACTION_VIEW_THREADS,
    .has_span = true,
    .server_keys = true,
    .rate_hz = 30, /* thread states change fast */
    .empty = "No worker is running.",
    .hints_now = threads_hints,
    .numbers = numbers,
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .ready = threads_ready,
    .draw = threads_draw,
    .key = threads_key,
    .once = threads_once,
    .json = threads_json,
    .release = threads_release,
};
