/*
 * The overview: up to six metrics with their history; below them, on a tall screen, the processes.
 * A panel can be selected and shown alone; lines that do not fit are on a page of their own.
 */

#include "common/macros.h"
#include "console/scene/scene.h"
#include "console/ui/graph.h"
#include "console/ui/text.h"
#include "console/views/panels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PANEL_GAP = 2 };

/*
 * The lines below the panels, the most important first; lines that do not fit are omitted. Each
 * function formats as many items as fit the width.
 */

struct line {
    const char *title;
    void (*write)(const struct scene *scene, char *line, size_t size, int width);
    enum metric metric; /* the line is there if it is published; METRIC_COUNT: always */
};

/* Adds the sum of METRIC to LINE, unless the server does not publish it. */
static void add_sum(const struct scene *scene, char *line, size_t size, int width, const char *name,
                    enum metric metric)
{
    double sum = scene_sum(scene, metric);
    char text[TEXT_SHORT];

    if (!isnan(sum))
        summary_add(line, size, width, "%s %s", name, text_count(text, sum));
}

/* "worker 0 45.2% 12.0 MiB": CPU in percent of one core, and memory. */
static void processes_line(const struct scene *scene, char *line, size_t size, int width)
{
    const struct process_table *table = scene->processes;
    char cores[TEXT_SHORT], memory[TEXT_SHORT], name[32];
    enum { MORE = sizeof("  +999 processes") - 1 };
    size_t before;

    line[0] = '\0';
    if (scene->moment == MOMENT_PAST && table->count == 0)
        summary_append(line, size, width, "not recorded");
    for (uint32_t i = 0; i < table->count; i++) {
        const struct process_usage *usage = &table->process[i];

        snprintf(name, sizeof(name), usage->role == ROLE_WORKER ? "%s %" PRIu32 : "%s",
                 role_names[usage->role], usage->slot);
        before = strlen(line);
        summary_append(
            line, size, i + 1 < table->count ? width - MORE : width, "%s: %s %s", name,
            text_percent(cores, (double)usage->cores),
            text_bytes(memory, usage->resident_bytes > 0 ? (double)usage->resident_bytes : NAN));
        if (strlen(line) == before) {
            summary_append(line, size, width, "+%" PRIu32 " process%s", table->count - i,
                           table->count - i == 1 ? "" : "es");
            break;
        }
    }
}

/* How long work waited for a CPU; the share of stolen time is that of a virtual machine. */
static void shortage_line(const struct scene *scene, char *line, size_t size, int width)
{
    const struct cpu_shortage *shortage = &scene->processes->shortage;
    char share[TEXT_SHORT];

    line[0] = '\0';
    if (shortage->known == 0) {
        summary_add(line, size, width, "not recorded");
        return;
    }
    summary_add(line, size, width, "server %s", text_percent(share, (double)shortage->server));
    summary_add(line, size, width, "machine %s", text_percent(share, (double)shortage->machine));
    summary_add(line, size, width, "stolen %s", text_percent(share, (double)shortage->stolen));
}

/* What failed since the start; SEVERE: the server's fault. */
static const struct {
    const char *name;
    enum metric metric;
    bool severe;
} failures[] = {{"workers died", METRIC_workers_died, true},
                {"others died", METRIC_processes_died, true},
                {"queue full", METRIC_offload_rejected, true},
                {"dropped", METRIC_queue_dropped, true},
                {"log dropped", METRIC_log_dropped, true},
                {"log lost", METRIC_log_lost, true},
                {"log errors", METRIC_log_write_errors, true},
                {"accept errors", METRIC_accept_errors, true},
                {"rate-limited", METRIC_requests_limited, false},
                {"over max_per_ip", METRIC_connections_rejected, false},
                {"timed out", METRIC_connections_timed_out, false},
                {"aborted", METRIC_responses_cut_short, false}};

/* True if the server has failed, not only its clients. */
static bool has_failed(const struct scene *scene)
{
    for (size_t i = 0; i < ARRAY_LENGTH(failures); i++)
        if (failures[i].severe && scene_sum(scene, failures[i].metric) > 0)
            return true;
    return false;
}

/* Adds the failures that are severe or not, and have happened or not. */
static void add_failures(const struct scene *scene, char *line, size_t size, int width, bool severe,
                         bool happened)
{
    for (size_t i = 0; i < ARRAY_LENGTH(failures); i++)
        if (failures[i].severe == severe && (scene_sum(scene, failures[i].metric) > 0) == happened)
            add_sum(scene, line, size, width, failures[i].name, failures[i].metric);
}

/* Those that have happened first, the severe ones before the others. */
static void failures_line(const struct scene *scene, char *line, size_t size, int width)
{
    line[0] = '\0';
    add_failures(scene, line, size, width, true, true);
    add_failures(scene, line, size, width, false, true);
    add_failures(scene, line, size, width, true, false);
    add_failures(scene, line, size, width, false, false);
}

/* The length of the severe failures at the start of LINE, which failures_line() wrote. */
static size_t severe_length(const struct scene *scene, const char *line)
{
    char severe[256] = "";
    size_t length = 0;

    add_failures(scene, severe, sizeof(severe), (int)sizeof(severe), true, true);
    while (severe[length] != '\0' && line[length] == severe[length])
        length++;
    return length;
}

/* Responses by status since the start: "200 33.1k  404 310". */
static void statuses_line(const struct scene *scene, char *line, size_t size, int width)
{
    char count[TEXT_SHORT];

    line[0] = '\0';
    for (size_t i = 0; i < STATUS_METRICS; i++) {
        double responses = scene_sum(scene, status_metrics[i].metric);

        if (responses > 0)
            summary_add(line, size, width, "%d: %s", status_metrics[i].status,
                        text_count(count, responses));
    }
}

/* The workers publish their CPU time once a second, so these are of the last whole second. */
static void cores_line(const struct scene *scene, char *line, size_t size, int width)
{
    char requests[TEXT_SHORT], switches[TEXT_SHORT];
    double per_core, per_request;

    history_series(scene->history, SERIES_REQUESTS_PER_CORE, &per_core, 1);
    history_series(scene->history, SERIES_SWITCHES_PER_REQUEST, &per_request, 1);
    line[0] = '\0';
    summary_add(line, size, width, "requests/core %s", text_count(requests, per_core));
    summary_add(line, size, width, "switches/request %s", text_count(switches, per_request));
}

static void locks_line(const struct scene *scene, char *line, size_t size, int width)
{
    char waits[TEXT_SHORT], wait[TEXT_SHORT];

    line[0] = '\0';
    summary_add(line, size, width, "waits/s %s",
                text_count(waits, scene_rate(scene, METRIC_lock_waits)));
    summary_add(line, size, width, "mean wait %s",
                text_latency(wait, scene_figure(scene, FIGURE_lock_wait_mean)));
}

/* What servers of other programs do not publish. */
static void absent_line(const struct scene *scene, char *line, size_t size, int width)
{
    static const struct {
        const char *name;
        enum segment_kind section;
    } parts[] = {{"cache entries", SEGMENT_CACHE}, {"log", SEGMENT_RINGS},
                 {"events", SEGMENT_EVENTS},       {"configuration", SEGMENT_CONFIG},
                 {"hosts", SEGMENT_HOSTS},         {"certificates", SEGMENT_CERTIFICATES}};

    line[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        if (!scene_has(scene, parts[i].section))
            summary_add(line, size, width, "%s", parts[i].name);
}

static void queues_line(const struct scene *scene, char *line, size_t size, int width)
{
    line[0] = '\0';
    add_sum(scene, line, size, width, "accept queue", METRIC_accept_queue);
    add_sum(scene, line, size, width, "in the master", METRIC_dispatch_pending);
    add_sum(scene, line, size, width, "in threads", METRIC_connections_queued);
    if (scene_sum(scene, METRIC_generations_old) > 0)
        add_sum(scene, line, size, width, "old generations", METRIC_generations_old);
}

static void offload_line(const struct scene *scene, char *line, size_t size, int width)
{
    char jobs[TEXT_SHORT], wait[TEXT_SHORT];

    line[0] = '\0';
    add_sum(scene, line, size, width, "queued", METRIC_offload_queue_depth);
    summary_add(line, size, width, "jobs/s %s",
                text_count(jobs, scene_rate(scene, METRIC_offload_jobs)));
    summary_add(line, size, width, "mean wait %s",
                text_latency(wait, scene_figure(scene, FIGURE_offload_wait_mean)));
    add_sum(scene, line, size, width, "queue full", METRIC_offload_rejected);
}

static void log_line(const struct scene *scene, char *line, size_t size, int width)
{
    char lines[TEXT_SHORT], bytes[TEXT_SHORT];

    line[0] = '\0';
    summary_add(line, size, width, "lines/s %s",
                text_count(lines, scene_rate(scene, METRIC_log_lines)));
    summary_add(line, size, width, "%s/s", text_bytes(bytes, scene_rate(scene, METRIC_log_bytes)));
    add_sum(scene, line, size, width, "waits", METRIC_log_waits);
    add_sum(scene, line, size, width, "dropped", METRIC_log_dropped);
    add_sum(scene, line, size, width, "errors", METRIC_log_write_errors);
    add_sum(scene, line, size, width, "lost", METRIC_log_lost);
}

/* Handshakes that have failed since the start, by reason. */
static void tls_failures(const struct scene *scene, char *line, size_t size, int width)
{
    static const struct {
        enum metric metric;
        const char *name;
    } reasons[] = {{METRIC_tls_failed_timeout, "timeout"}, {METRIC_tls_failed_version, "version"},
                   {METRIC_tls_failed_cipher, "cipher"},   {METRIC_tls_failed_client, "client"},
                   {METRIC_tls_failed_http, "HTTP"},       {METRIC_tls_failed_other, "other"}};

    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++) {
        if (scene_sum(scene, reasons[i].metric) > 0)
            add_sum(scene, line, size, width, reasons[i].name, reasons[i].metric);
    }
}

static void tls_line(const struct scene *scene, char *line, size_t size, int width)
{
    char handshakes[TEXT_SHORT], resumed[TEXT_SHORT];

    line[0] = '\0';
    add_sum(scene, line, size, width, "connections", METRIC_tls_open);
    summary_add(line, size, width, "handshakes/s %s",
                text_count(handshakes, scene_rate(scene, METRIC_tls_handshakes)));
    summary_add(line, size, width, "resumed %s",
                text_percent(resumed, scene_figure(scene, FIGURE_tls_resumed_ratio)));
    summary_add(line, size, width, "post-quantum %s",
                text_percent(resumed, scene_figure(scene, FIGURE_tls_post_quantum_ratio)));
    summary_add(line, size, width, "failed/s %s",
                text_count(handshakes, scene_figure(scene, FIGURE_tls_failed)));
    tls_failures(scene, line, size, width);
}

static void http2_line(const struct scene *scene, char *line, size_t size, int width)
{
    char requests[TEXT_SHORT];

    line[0] = '\0';
    add_sum(scene, line, size, width, "connections", METRIC_http2_open);
    add_sum(scene, line, size, width, "streams", METRIC_http2_streams);
    summary_add(line, size, width, "requests/s %s",
                text_count(requests, scene_rate(scene, METRIC_requests_http2)));
    add_sum(scene, line, size, width, "errors", METRIC_http2_errors);
}

static void server_line(const struct scene *scene, char *line, size_t size, int width)
{
    summary_processes(model_now(scene->model), line, size, width);
}

static const struct line lines[] = {{"cpu mem", processes_line, METRIC_COUNT},
                                    {"failures", failures_line, METRIC_requests_limited},
                                    {"statuses", statuses_line, METRIC_COUNT},
                                    {"locks", locks_line, METRIC_lock_waits},
                                    {"cores", cores_line, METRIC_cpu_time},
                                    {"CPU wait", shortage_line, METRIC_COUNT},
                                    {"waiting", queues_line, METRIC_accept_queue},
                                    {"offload", offload_line, METRIC_offload_jobs},
                                    {"log", log_line, METRIC_log_lines},
                                    {"server", server_line, METRIC_COUNT},
                                    {"TLS", tls_line, METRIC_tls_handshakes},
                                    {"HTTP/2", http2_line, METRIC_connections_http2}};

/* For servers that lack a part. */
static const struct line absent_parts = {"without", absent_line, METRIC_COUNT};

enum { LINE_LABEL = 9, STRIP_MOST = 3, LINES_MOST = ARRAY_LENGTH(lines) + 1 };

/* Fills SHOWN with the lines that the server has. Returns their number. */
static size_t choose_lines(const struct scene *scene, const struct line *shown[LINES_MOST])
{
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        if (lines[i].metric == METRIC_COUNT ||
            (lines[i].metric == METRIC_lock_waits ? scene_sum(scene, METRIC_lock_waits) > 0
                                                  : !isnan(scene_sum(scene, lines[i].metric))))
            shown[count++] = &lines[i];
    if (!scene_is_webserverd(scene))
        shown[count++] = &absent_parts;
    return count;
}

static void draw_line(const struct line *line, const struct scene *scene,
                      const struct canvas *canvas, int y)
{
    char text[256];

    line->write(scene, text, sizeof(text), canvas->width - LINE_LABEL);
    canvas_text(canvas, y, 0, TONE_TITLE, line->title);
    canvas_text(canvas, y, LINE_LABEL, TONE_NORMAL, text);
    if (line->write == failures_line) {
        text[severe_length(scene, text)] = '\0';
        canvas_text(canvas, y, LINE_LABEL, TONE_BAD, text);
    }
}

/* Draws failures of the server, the strip of threads, then from line TOP on as many as fit. */
static void draw_lines(const struct scene *scene, const struct canvas *canvas, int top)
{
    const struct line *shown[LINES_MOST];
    int count = (int)choose_lines(scene, shown), strip = canvas->height - count, y = 0;
    bool failed = has_failed(scene);

    strip = strip < 1 ? 1 : strip > STRIP_MOST ? STRIP_MOST : strip;
    for (int i = 0; failed && i < count; i++)
        if (shown[i]->write == failures_line)
            draw_line(shown[i], scene, canvas, y++);
    y += strip_draw(canvas, y, strip, model_now(scene->model));
    for (int i = top; i < count && y < canvas->height; i++)
        if (!failed || shown[i]->write != failures_line)
            draw_line(shown[i], scene, canvas, y++);
}

enum { PANELS_MOST = 6 };

struct state {
    int selected;        /* number of the panel, from 1; 0: none */
    bool alone;          /* only that panel is shown */
    bool paging;         /* only the lines are shown */
    bool more;           /* not all lines fit below the panels */
    struct scroll lines; /* while paging */
    int count;           /* panels as last drawn */
};

/* Fills SHOWN with the panels that the server has. Returns their number. */
static int choose_panels(const struct scene *scene, const struct metric_panel *shown[PANELS_MOST])
{
    int count = 0;

    shown[count++] = &panel_requests;
    shown[count++] = &panel_latency;
    shown[count++] = &panel_sent;
    if (scene_sum(scene, METRIC_queue_capacity) > 0)
        shown[count++] = &panel_queue;
    else if (!isnan(scene_sum(scene, METRIC_connections_open)))
        shown[count++] = &panel_connections;
    shown[count++] = &panel_errors;
    if (!isnan(scene_sum(scene, METRIC_cache_hits)))
        shown[count++] = &panel_cache;
    return count;
}

/* Number of panels side by side. */
static int grid_columns(int width)
{
    return width >= 150 ? 3 : width >= 70 ? 2 : 1;
}

static void draw_panels(const struct state *state, const struct scene *scene,
                        const struct canvas *canvas, const struct metric_panel *const *panels,
                        int count)
{
    int columns = grid_columns(canvas->width), rows = (count + columns - 1) / columns;
    int height = canvas->height / rows, width = (canvas->width + PANEL_GAP) / columns;

    height = height < 1 ? 1 : height;
    for (int i = 0; i < count; i++) {
        int y = i / columns * height, x = i % columns * width;
        int gap_below = height > PANEL_FULL_HEIGHT && i / columns + 1 < rows;
        struct canvas place = canvas_part(canvas, y, x, height - gap_below, width - PANEL_GAP);

        if (place.height > 0)
            metric_panel_draw(panels[i], scene, &place, state->selected == i + 1);
    }
}

/* The last line of the first screen of a server without a request says what to do. */
static void draw_idle(const struct scene *scene, const struct canvas *line)
{
    static const char none[] = "no requests yet";
    bool here = scene_is_webserverd(scene) && scene->moment == MOMENT_LIVE;
    int x = canvas_item(line, 0, 0, TONE_NOTE, "%s%s", none,
                        here ? ": 7 runs load, L plays a guided scenario" : "");

    if (x == 0)
        canvas_print(line, 0, 0, TONE_NOTE, "%s%s", none, here ? ": 7 load, L scenarios" : "");
}

/* Draws the selected panel, or the lines, over the whole canvas. */
static void draw_alone(struct state *state, const struct scene *scene, const struct canvas *canvas,
                       const struct metric_panel *const *panels)
{
    const struct line *shown[LINES_MOST];

    if (state->paging) {
        scroll_fit(&state->lines, (int)choose_lines(scene, shown), canvas->height - STRIP_MOST);
        draw_lines(scene, canvas, state->lines.top);
        return;
    }
    metric_panel_draw(panels[state->selected - 1], scene, canvas, true);
}

static void overview_draw(void *view_state, const struct scene *scene, const struct canvas *whole)
{
    struct state *state = view_state;
    bool idle = !(scene_sum(scene, METRIC_requests) > 0) && !scene->ended;
    struct canvas body = canvas_part(whole, 0, 0, whole->height - idle, whole->width);
    struct canvas last = canvas_part(whole, whole->height - 1, 0, 1, whole->width);
    const struct canvas *canvas = &body;
    const struct metric_panel *panels[PANELS_MOST];
    const struct line *shown[LINES_MOST];
    const struct snapshot *now = model_now(scene->model);
    int count = choose_panels(scene, panels), columns = grid_columns(canvas->width);
    int rows = (count + columns - 1) / columns;
    int letters = (int)(now->thread_count + 4 * now->worker_count);
    int strip = letters / (canvas->width > LINE_LABEL ? canvas->width - LINE_LABEL : 1) + 1;
    int most = (int)choose_lines(scene, shown) + (strip < STRIP_MOST ? strip : STRIP_MOST);
    int below = canvas->height - rows * PANEL_FULL_HEIGHT, gap; /* lines below the panels */
    struct canvas upper, lower;

    state->count = count;
    state->selected = state->selected < count ? state->selected : count;
    state->alone = state->alone && state->selected > 0;
    if (state->alone || state->paging) {
        draw_alone(state, scene, canvas, panels);
        return;
    }
    if (below < 1) { /* the panels do not have their full height */
        below = has_failed(scene);
        below += (canvas->height - below) % rows;
    }
    below = below < 0 ? 0 : below > most ? most : below;
    gap = below == most && canvas->height > most + rows * PANEL_FULL_HEIGHT;
    upper = canvas_part(canvas, 0, 0, canvas->height - below - gap, canvas->width);
    lower = canvas_part(canvas, canvas->height - below, 0, below, canvas->width);
    state->more = below < most;
    draw_panels(state, scene, &upper, panels, count);
    if (below > 0)
        draw_lines(scene, &lower, 0);
    if (idle)
        draw_idle(scene, &last);
}

/* Moves from panel to panel, and after the last one to the page of the lines. */
static bool move_in_overview(struct state *state, enum action action)
{
    bool forward = action != ACTION_UP && action != ACTION_PAGE_UP && action != ACTION_HALF_UP &&
                   action != ACTION_FIRST;
    bool page = action != ACTION_UP && action != ACTION_DOWN;

    if (state->paging) {
        state->paging = forward || state->lines.top > 0;
        return scroll_key(&state->lines, action);
    }
    if (!page && forward && state->selected < state->count)
        state->selected++;
    else if (!page && !forward)
        state->selected -= state->selected > 0;
    else if (forward && state->more && !state->alone) {
        state->paging = true;
        state->lines = (struct scroll){0};
    }
    state->alone = state->alone && state->selected > 0;
    return true;
}

static bool overview_key(void *view_state, const struct scene *scene, enum action action)
{
    struct state *state = view_state;

    (void)scene;
    switch (action) {
    case ACTION_OPEN:
        if (state->paging)
            return false;
        state->selected = state->selected > 0 ? state->selected : 1;
        state->alone = !state->alone;
        return true;
    case ACTION_CLOSE:
        if (state->paging || state->alone)
            state->paging = state->alone = false;
        else if (state->selected > 0)
            state->selected = 0;
        else
            return false;
        return true;
    case ACTION_UP:
    case ACTION_DOWN:
    case ACTION_PAGE_UP:
    case ACTION_PAGE_DOWN:
    case ACTION_HALF_UP:
    case ACTION_HALF_DOWN:
    case ACTION_FIRST:
    case ACTION_LAST:
        return move_in_overview(state, action);
    default:
        return false;
    }
}

static const struct view_hint *overview_hints(const void *view_state, const struct scene *scene)
{
    static const struct view_hint panels[] = {{ACTION_OPEN, "panel", false, HINT_ALWAYS},
                                              {ACTION_PAGE_DOWN, "more", false, HINT_ALWAYS},
                                              {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint panels_only[] = {{ACTION_OPEN, "panel", false, HINT_ALWAYS},
                                                   {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint closed[] = {{ACTION_CLOSE, "back", false, HINT_ALWAYS},
                                              {ACTION_NONE, "", false, HINT_ALWAYS}};
    const struct state *state = view_state;

    (void)scene;
    return state->paging || state->alone ? closed : state->more ? panels : panels_only;
}

static void overview_once(void *state, const struct scene *scene, FILE *out)
{
    const struct metric_panel *panels[PANELS_MOST];
    const struct line *shown[LINES_MOST];
    char line[512], value[TEXT_SHORT], detail[PANEL_TEXT];
    int panel_count = choose_panels(scene, panels), line_count = (int)choose_lines(scene, shown);

    (void)state;
    summary_identity(model_now(scene->model), line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%s  %s\n", model_now(scene->model)->server.name, line);
    summary_processes(model_now(scene->model), line, sizeof(line), (int)sizeof(line) - 1);
    fprintf(out, "%s\n\n", line);
    for (int i = 0; i < panel_count; i++) {
        graph_number(panels[i]->unit, panels[i]->value(scene), value);
        panels[i]->detail(scene, detail, sizeof(detail));
        fprintf(out, "%-20s %10s  %s\n", panels[i]->title, value, detail);
    }
    for (int i = 0; i < line_count; i++) {
        shown[i]->write(scene, line, sizeof(line), (int)sizeof(line) - 1);
        fprintf(out, "%-20s %10s  %s\n", shown[i]->title, "", line);
    }
}

static json_t *json_processes(const struct scene *scene)
{
    json_t *processes = json_array();

    for (uint32_t i = 0; i < scene->processes->count; i++) {
        const struct process_usage *usage = &scene->processes->process[i];

        json_array_append_new(
            processes, json_pack("{s:s, s:i, s:i, s:o, s:I}", "role", role_names[usage->role],
                                 "slot", (int)usage->slot, "pid", (int)usage->pid, "cores",
                                 scene_json_number((double)usage->cores), "resident_bytes",
                                 (json_int_t)usage->resident_bytes));
    }
    return processes;
}

static json_t *json_shortage(const struct scene *scene)
{
    const struct cpu_shortage *missing = &scene->processes->shortage;
    bool known = missing->known != 0;

    return json_pack("{s:o, s:o, s:o}", "server",
                     scene_json_number(known ? (double)missing->server : NAN), "machine",
                     scene_json_number(known ? (double)missing->machine : NAN), "stolen",
                     scene_json_number(known ? (double)missing->stolen : NAN));
}

static json_t *overview_json(void *state, const struct scene *scene)
{
    const struct model *model = scene->model;
    const struct snapshot *now = model_now(model);
    json_t *metrics = json_object(), *rates = json_object();

    (void)state;
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (isnan(scene_sum(scene, (enum metric)i)))
            continue; /* not published */
        json_object_set_new(metrics, metric_table[i].name, json_integer((json_int_t)now->sums[i]));
        if (metric_table[i].kind == KIND_COUNTER)
            json_object_set_new(rates, metric_table[i].name,
                                scene_json_number(scene_rate(scene, (enum metric)i)));
    }
    return json_pack(
        "{s:f, s:o, s:{s:o, s:o, s:o, s:o, s:o}, s:{s:o, s:i}, s:{s:o, s:i}, s:o, s:o, s:o, "
        "s:o}",
        "interval_s", (double)model_interval_ns(model) / 1e9, "cache_hit_ratio",
        scene_json_number(model_figure(model, FIGURE_cache_hit_ratio)), "latency_ns", "mean",
        scene_json_number(model_figure(model, FIGURE_response_time_mean)), "p50",
        scene_json_number(model_percentile(model, 50)), "p90",
        scene_json_number(model_percentile(model, 90)), "p99",
        scene_json_number(model_percentile(model, 99)), "max",
        scene_json_number(model_percentile(model, 100)), "workers", "wanted",
        scene_json_wanted(scene, now->workers_wanted), "actual", (int)snapshot_workers_actual(now),
        "threads", "wanted", scene_json_wanted(scene, now->workers_wanted * now->threads_wanted),
        "actual", (int)snapshot_threads_actual(now), "processes", json_processes(scene), "cpu_wait",
        json_shortage(scene), "metrics", metrics, "rates_per_s", rates);
}

static const char *const help[] = {
    "The server now, and its history over the time range (key t).",
    "The mark below a graph is its peak; the scale is on the left.",
    "cpu mem: CPU in percent of one core, and memory, of each process.",
    "CPU wait: time in which the server had work, but no CPU; the",
    "same of any task of the machine; CPU time taken by its host.",
    "Busy connections wait for an offload thread or for their client.",
    "failures and statuses are counted since the start of the server.",
    NULL};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("requests/s", requests),
    FIGURE_NUMBER("keep-alive", keepalive_ratio),
    FIGURE_NUMBER("mean", response_time_mean),
    METRIC_NUMBER("sent/s", bytes_sent),
    METRIC_NUMBER("received", bytes_received),
    METRIC_NUMBER("connections", connections_open),
    METRIC_NUMBER("busy", connections_busy),
    FIGURE_NUMBER("waiting", connections_waiting),
    METRIC_NUMBER("new", connections_accepted),
    FIGURE_NUMBER("errors/s", errors),
    FIGURE_NUMBER("cache hit ratio", cache_hit_ratio),
    METRIC_NUMBER("entries", cache_entries),
    METRIC_NUMBER("evicted", cache_evicted),
    METRIC_NUMBER("rate-limited", requests_limited),
    METRIC_NUMBER("over max_per_ip", connections_rejected),
    METRIC_NUMBER("queue full", offload_rejected),
    METRIC_NUMBER("log dropped", log_dropped),
    METRIC_NUMBER("timed out", connections_timed_out),
    METRIC_NUMBER("aborted", responses_cut_short),
    FIGURE_NUMBER("requests/core", requests_per_core),
    FIGURE_NUMBER("switches/request", switches_per_request),
    METRIC_NUMBER("queued", offload_queue_depth),
    FIGURE_NUMBER("mean wait", offload_wait_mean),
    FIGURE_NUMBER("resumed", tls_resumed_ratio),
    FIGURE_NUMBER("post-quantum", tls_post_quantum_ratio),
    NUMBERS_END,
};

const struct view view_overview = {
    .name = "overview",
    .short_name = "over",
    .action = ACTION_VIEW_OVERVIEW,
    .has_span = true,
    .empty = "",
    .server_keys = true,
    .numbers = numbers,
    .help = help,
    .hints_now = overview_hints,
    .state_size = sizeof(struct state),
    .draw = overview_draw,
    .key = overview_key,
    .once = overview_once,
    .json = overview_json,
};
