/* The log: the last requests of all threads, the newest at the bottom. */

#include "common/macros.h"
#include "console/scene/scene.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <inttypes.h>
#include <string.h>

enum column_number {
    TIME,
    STATUS,
    TOOK,
    BYTES,
    OUTCOME,
    CLIENT,
    HOST,
    THREAD,
    WORKER,
    PROTOCOL,
    STREAMS,
    REQUEST,
    PATH,
    REFERER,
    AGENT,
    COLUMNS
};

static const struct column columns[COLUMNS] = {
    [TIME] = {.title = "TIME", .width = 12, .importance = 8, .right = true, .output = OUTPUT_TIME},
    [STATUS] = {.title = "STATUS", .width = 6, .importance = 10, .right = true},
    [TOOK] = {.title = "TOOK", .width = 7, .importance = 7, .right = true, .output = OUTPUT_NS},
    [BYTES] =
        {.title = "BYTES", .width = 8, .importance = 5, .right = true, .output = OUTPUT_BYTES},
    [OUTCOME] = {.title = "OUTCOME", .width = 7, .importance = 4},
    [CLIENT] = {.title = "CLIENT", .width = 15, .importance = 6},
    [HOST] = {.title = "HOST", .width = 16, .min_width = 8, .importance = 3, .folds = true},
    [THREAD] = {.title = "THREAD", .width = 7, .importance = 2},
    [WORKER] = {.title = "WORKER", .hidden = true},
    [PROTOCOL] = {.title = "PROTOCOL", .width = 48, .min_width = 8, .importance = 1, .folds = true},
    [STREAMS] = {.title = "STREAMS", .width = 7, .importance = 1, .right = true, .folds = true},
    [REQUEST] = {.title = "REQUEST", .width = 30, .min_width = 16, .importance = 9, .stretch = 1},
    [PATH] = {.title = "PATH", .hidden = true, .key = true},
    [REFERER] = {.title = "REFERER", .hidden = true},
    [AGENT] = {.title = "AGENT", .hidden = true},
};

/* While a row is selected, the list is a copy, so that the rows stay however busy the server is. */
struct state {
    struct tail *copy; /* NULL: none was made yet */
    bool held;         /* the copy is shown */
    uint64_t first;    /* number of the line in row 0, counted from the start of the tail */
};

static void hold_or_follow(struct state *state, const struct scene *scene)
{
    struct tail *copy;

    if (scene->grid == NULL || !scene->grid->selecting ||
        (scene->moment != MOMENT_LIVE && scene->moment != MOMENT_FROZEN)) {
        state->held = false;
    } else if (!state->held && (copy = tail_copy(state->copy, scene->tail)) != NULL) {
        state->copy = copy;
        state->held = true;
    }
}

static const struct tail *tail_shown(const struct state *state, const struct scene *scene)
{
    return state->held ? state->copy : scene->tail;
}

static size_t log_count(void *state, const struct scene *scene)
{
    struct state *own = state;
    const struct tail *tail;

    hold_or_follow(own, scene);
    tail = tail_shown(own, scene);
    own->first = tail_total(tail) - tail_count(tail);
    return tail_count(tail) - tail_younger(tail, scene->wall_ns);
}

/* Row 0 is the oldest. If its line is no longer kept because others were read since, the oldest. */
static const struct tail_line *line_of(const struct state *state, const struct scene *scene,
                                       size_t row)
{
    const struct tail *tail = tail_shown(state, scene);
    uint64_t back = tail_total(tail) - 1 - (state->first + row);

    return tail_line(tail, back < tail_count(tail) ? (size_t)back : tail_count(tail) - 1);
}

static uint64_t log_id(void *state, const struct scene *scene, size_t row)
{
    (void)scene;
    return ((const struct state *)state)->first + row;
}

static const char *outcome_of(const struct tail_line *line)
{
    return line->outcome < OUTCOME_COUNT ? outcome_names[line->outcome] : "-";
}

/* "0.1" as in the threads view. */
static void thread_of(const struct tail_line *line, char *text, size_t size)
{
    if (line->worker == TAIL_NO_THREAD)
        snprintf(text, size, "ended");
    else
        snprintf(text, size, "%u.%u", line->worker, line->number);
}

static void fill_path(const struct tail_line *line, struct cell *cell)
{
    const char *path = strchr(line->request, ' ');

    path = path != NULL ? path + 1 : line->request;
    cell_print(cell, TONE_NORMAL, "%.*s", (int)strcspn(path, " ?"), path);
    cell->cut = line->request_cut || strcspn(path, " ?") >= TABLE_CELL_BYTES;
}

static void log_fill_cell(void *state, const struct scene *scene, size_t row, size_t column,
                          struct cell *cell)
{
    const struct tail_line *line = line_of(state, scene, row);
    enum tone tone = status_tone(line->status);

    switch ((enum column_number)column) {
    case TIME:
        cell_clock(cell, TONE_DIM, line->time_ns);
        break;
    case STATUS:
        cell_exact(cell, tone, line->status);
        break;
    case TOOK:
        cell_latency(cell, TONE_NORMAL, (double)line->duration_ns);
        break;
    case BYTES:
        cell_bytes(cell, TONE_NORMAL, (double)line->body_bytes);
        break;
    case OUTCOME:
        cell_text(cell, TONE_NORMAL, outcome_of(line));
        break;
    case CLIENT:
        tail_address(line, cell->text);
        break;
    case HOST:
        cell_text(cell, TONE_NORMAL, line->host);
        break;
    case THREAD:
        thread_of(line, cell->text, sizeof(cell->text));
        break;
    case WORKER:
        if (line->worker != TAIL_NO_THREAD)
            cell_print(cell, TONE_NORMAL, "%u", line->worker);
        break;
    case PROTOCOL:
        tail_protocol(line, cell->text);
        break;
    case STREAMS:
        if (line->streams > 0)
            cell_exact(cell, TONE_NORMAL, line->streams);
        break;
    case REQUEST:
        cell_text(cell, tone == TONE_GOOD ? TONE_NORMAL : tone, line->request);
        break;
    case PATH:
        fill_path(line, cell);
        break;
    case REFERER:
        cell_text(cell, TONE_NORMAL, line->referer);
        break;
    case AGENT:
        cell_text(cell, TONE_NORMAL, line->agent);
        break;
    case COLUMNS:
        break;
    }
}

static void log_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct tail_line *line = line_of(state, scene, row);
    char text[TEXT_SHORT], address[TAIL_ADDRESS_TEXT], thread[32], protocol[TAIL_PROTOCOL_TEXT];

    thread_of(line, thread, sizeof(thread));
    fprintf(out, "request\t%s%s\n", line->request, line->request_cut ? ".." : "");
    if (line->request_cut)
        fprintf(out, "length\t%" PRIu32 " bytes; the rest is not shown\n", line->request_bytes);
    fprintf(out, "status\t%u\n", line->status);
    fprintf(out, "outcome\t%s\n", outcome_of(line));
    fprintf(out, "time\t%s\n", text_clock(text, line->time_ns));
    fprintf(out, "took\t%s\n", text_latency(text, (double)line->duration_ns));
    fprintf(out, "bytes\t%" PRIu64 " (body)\n", line->body_bytes);
    fprintf(out, "client\t%s\n", tail_address(line, address));
    if (line->host[0] != '\0')
        fprintf(out, "host\t%s\n", line->host);
    tail_protocol(line, protocol);
    fprintf(out, "protocol\t%s\n", protocol[0] != '\0' ? protocol : "-");
    if (line->streams > 0)
        fprintf(out, "streams\t%u open on the connection when the request began\n", line->streams);
    fprintf(out, "thread\t%s\n", thread);
    fprintf(out, "referer\t%s\n", line->referer[0] != '\0' ? line->referer : "-");
    fprintf(out, "user agent\t%s\n", line->agent[0] != '\0' ? line->agent : "-");
}

static bool log_lacks(const struct scene *scene, size_t column)
{
    const struct server *server = &model_now(scene->model)->server;

    return (column == HOST && !scene->has_hosts) || (column == OUTCOME && server->one_outcome) ||
           (column == STREAMS && server->published[METRIC_http2_streams] == PUBLISHED_NOT);
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = log_count,
    .fill_cell = log_fill_cell,
    .id = log_id,
    .detail = log_detail,
    .lacks = log_lacks,
    .follow = true,
    .lasting = true,
};

static bool log_ready(const struct scene *scene)
{
    return tail_count(scene->tail) > tail_younger(scene->tail, scene->wall_ns);
}

static void draw_log_summary(const struct state *state, const struct scene *scene,
                             const struct canvas *canvas)
{
    char text[TEXT_SHORT], other[TEXT_SHORT];
    bool follows = scene->grid->list->follow && !scene->grid->selecting &&
                   scene->grid->sorted_by == 0 && scene->moment == MOMENT_LIVE;
    int x = follows ? canvas_text(canvas, 0, 0, TONE_GOOD, "following")
                    : canvas_text(canvas, 0, 0, TONE_NOTE,
                                  scene->moment == MOMENT_LIVE ? "paused (End follows)" : "held");

    if (state->held && tail_total(scene->tail) > tail_total(state->copy))
        x = canvas_item(
            canvas, 0, x + 2, TONE_NOTE, "%s newer",
            text_count(text, (double)(tail_total(scene->tail) - tail_total(state->copy))));
    x = canvas_print(canvas, 0, x + 2, TONE_NORMAL, "%s requests/s",
                     text_count(text, model_rate(scene->model, METRIC_requests)));
    x = canvas_item(canvas, 0, x + 2, TONE_NORMAL, "4xx %s/s  5xx %s/s",
                    text_count(text, model_figure(scene->model, FIGURE_responses_4xx)),
                    text_count(other, model_figure(scene->model, FIGURE_responses_5xx)));
    if (tail_missed(scene->tail) > 0)
        canvas_item(canvas, 0, x + 2, TONE_NOTE, "about %s missed",
                    text_count(text, (double)tail_missed(scene->tail)));
}

static void log_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct canvas rows = canvas_part(canvas, 1, 0, canvas->height - 1, canvas->width);

    grid_draw(scene->grid, scene, &rows);
    draw_log_summary(state, scene, canvas);
}

static void log_release(void *state)
{
    tail_destroy(((struct state *)state)->copy);
}

static json_t *log_json(void *state, const struct scene *scene)
{
    (void)state;
    return json_pack("{s:o, s:I}", "lines", grid_json(scene->grid, scene), "passed_unseen",
                     (json_int_t)tail_missed(scene->tail));
}

static const char *const help[] = {
    "The requests of all threads in order of completion.",
    "Up pauses the list and goes back; End follows again.",
    "Enter shows all details of a request; f filters by its path.",
    "Filters: status:5xx path:/dir client=127.0.0.1 host=a.example slower:10ms protocol:HTTP/2",
    "The line above counts missed requests: overwritten before they were read.",
    NULL};

static const struct view_hint hints[] = {{ACTION_OPEN, "details", false, HINT_ROWS},
                                         {ACTION_LAST, "follow", false, HINT_SELECTED},
                                         {ACTION_NONE, "", false, HINT_ALWAYS}};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("requests/s", requests),
    FIGURE_NUMBER("4xx", responses_4xx),
    FIGURE_NUMBER("5xx", responses_5xx),
    NUMBERS_END,
};

const struct view view_log = {
    .name = "log",
    .action = ACTION_VIEW_LOG,
    .section = SEGMENT_RINGS,
    .empty = "No requests yet. Try: curl http://ADDRESS/ with an address the server listens on.",
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .ready = log_ready,
    .draw = log_draw,
    .json = log_json,
    .release = log_release,
};
