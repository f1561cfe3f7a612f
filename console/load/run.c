#include "console/load/run.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/units.h"
#include "console/data/user_files.h"
#include "console/ui/graph.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RUN_FORMAT = 1 };

#define LEAST_SPACING_S 0.1
#define LEAST_SPAN_S    5

void load_run_begin(struct load_run *run, const struct load_settings *settings, const char *url,
                    uint64_t wall_ns)
{
    memset(run, 0, sizeof(*run));
    run->started_ns = wall_ns;
    run->settings = *settings;
    run->spacing_s = LEAST_SPACING_S;
    snprintf(run->url, sizeof(run->url), "%s", url);
}

/* A number of OBJECT; OTHERWISE if it is absent or null. */
static double json_number_of(const json_t *object, const char *name, double otherwise)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static uint64_t json_count_of(const json_t *object, const char *name)
{
    double value = json_number_of(object, name, 0);

    return value > 0 ? (uint64_t)value : 0;
}

static void take_totals(struct load_totals *totals, const json_t *line)
{
    totals->elapsed_s = json_number_of(line, "elapsed_s", totals->elapsed_s);
    totals->done_percent = json_number_of(line, "done_percent", totals->done_percent);
    totals->requests_per_s = json_number_of(line, "requests_per_second", 0);
    totals->p50_ns = 1e3 * json_number_of(line, "latency_p50_us", NAN);
    totals->p90_ns = 1e3 * json_number_of(line, "latency_p90_us", NAN);
    totals->p99_ns = 1e3 * json_number_of(line, "latency_p99_us", NAN);
    totals->max_ns = 1e3 * json_number_of(line, "latency_max_us", NAN);
    totals->begun = json_count_of(line, "begun");
    totals->answered = json_count_of(line, "answered");
    totals->failed = json_count_of(line, "failed");
    totals->bad_statuses = json_count_of(line, "bad_statuses");
    totals->connections = json_count_of(line, "connections");
    totals->connections_up = json_count_of(line, "connections_up");
    totals->rate_wanted = json_number_of(line, "rate", 0);
}

/* The server's rate is that of the last second, which must not begin before the run. */
#define SERVER_RATE_S 1

/* If there are too many points, removes every other one. */
static void add_point(struct load_run *run, const struct load_point *point)
{
    if (run->point_count > 0 &&
        point->at_s < run->point[run->point_count - 1].at_s + run->spacing_s * 0.99)
        return;
    if (run->point_count == LOAD_POINTS_MAX) {
        for (size_t i = 0; i < LOAD_POINTS_MAX / 2; i++)
            run->point[i] = run->point[2 * i + 1];
        run->point_count = LOAD_POINTS_MAX / 2;
        run->spacing_s *= 2;
    }
    run->point[run->point_count++] = *point;
}

static double positive_or_nan(double value)
{
    return value > 0 ? value : NAN;
}

/* Marks the reply to a change: "client: 500/s, 50 connections". */
static void mark_change(struct load_run *run, const json_t *event)
{
    double rate = json_number_of(event, "rate", 0);
    char text[LOAD_MARK_BYTES], figure[UNITS_TEXT];

    if (json_object_get(event, "why") != NULL)
        return;
    if (rate > 0)
        snprintf(text, sizeof(text), "client: %s/s, %.0f connections",
                 units_format_count(figure, sizeof(figure), rate),
                 json_number_of(event, "connections", 0));
    else
        snprintf(text, sizeof(text), "client: %.0f connections",
                 json_number_of(event, "connections", 0));
    load_run_mark(run, run->totals.elapsed_s, text);
}

bool load_run_progress(struct load_run *run, const char *line,
                       const struct load_server_sample *server)
{
    json_t *object = json_loads(line, 0, NULL);
    struct load_point point;

    if (!json_is_object(object) || json_object_get(object, "elapsed_s") == NULL) {
        if (json_object_get(object, "event") != NULL)
            mark_change(run, object);
        else if (line[0] != '\0')
            escape_bytes(run->failure, sizeof(run->failure), line, strlen(line));
        json_decref(object);
        return false;
    }
    take_totals(&run->totals, object);
    point = (struct load_point){
        .at_s = run->totals.elapsed_s,
        .client_rate = run->totals.requests_per_s,
        .client_p50_ns = positive_or_nan(
            1e3 * json_number_of(object, "recent_p50_us", run->totals.p50_ns / 1e3)),
        .client_p99_ns = positive_or_nan(
            1e3 * json_number_of(object, "recent_p99_us", run->totals.p99_ns / 1e3)),
        .server_rate =
            run->own_server && run->totals.elapsed_s >= SERVER_RATE_S ? server->rate : NAN,
        .server_p50_ns = run->own_server ? server->p50_ns : NAN,
        .server_p99_ns = run->own_server ? server->p99_ns : NAN,
        .connections = (double)run->totals.connections_up};
    add_point(run, &point);
    json_decref(object);
    return true;
}

static void take_text(char *buffer, size_t size, const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    escape_bytes(buffer, size, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

void load_run_report(struct load_run *run, const char *report, size_t size)
{
    json_t *object = json_loadb(report, size, 0, NULL);
    const json_t *requests = json_object_get(object, "requests");
    const json_t *latency = json_object_get(object, "latency_us");
    struct load_totals *totals = &run->totals;

    run->finished = true;
    if (json_is_object(requests)) {
        totals->elapsed_s = json_number_of(object, "elapsed_s", totals->elapsed_s);
        totals->requests_per_s = json_number_of(object, "requests_per_second", 0);
        totals->begun = json_count_of(requests, "begun");
        totals->answered = json_count_of(requests, "answered");
        totals->failed = json_count_of(requests, "failed");
        totals->bad_statuses = json_count_of(requests, "bad_statuses");
        totals->unanswered = json_count_of(requests, "unanswered");
        totals->p50_ns = 1e3 * json_number_of(latency, "p50", NAN);
        totals->p90_ns = 1e3 * json_number_of(latency, "p90", NAN);
        totals->p99_ns = 1e3 * json_number_of(latency, "p99", NAN);
        totals->max_ns = 1e3 * json_number_of(latency, "max", NAN);
        totals->done_percent = 100;
        take_text(run->note, sizeof(run->note), json_array_get(json_object_get(object, "notes"), 0),
                  "text");
    }
    json_decref(object);
}

void load_run_mark(struct load_run *run, double at_s, const char *text)
{
    if (run->mark_count == LOAD_MARKS_MAX)
        return;
    run->mark[run->mark_count].at_s = at_s;
    escape_bytes(run->mark[run->mark_count].text, LOAD_MARK_BYTES, text, strlen(text));
    run->mark_count++;
}

enum load_check load_run_check(const struct load_run *run)
{
    uint64_t counted = run->server_after - run->server_before;

    if (!run->own_server || !run->finished || run->totals.begun == 0 ||
        run->server_after < run->server_before)
        return LOAD_CHECK_NONE;
    if (counted == run->totals.answered)
        return LOAD_CHECK_EQUAL;
    if (counted > run->totals.answered &&
        counted <= run->totals.answered + run->totals.unanswered + run->totals.failed)
        return LOAD_CHECK_OPEN;
    return counted > run->totals.answered ? LOAD_CHECK_OTHERS : LOAD_CHECK_DIFFERENT;
}

char *load_run_check_text(const struct load_run *run, char *buffer, size_t size)
{
    uint64_t answered = run->totals.answered, counted = run->server_after - run->server_before;

    switch (load_run_check(run)) {
    case LOAD_CHECK_NONE:
        snprintf(buffer, size, "%s", run->own_server ? "" : "another server: its count is unknown");
        break;
    case LOAD_CHECK_EQUAL:
        snprintf(buffer, size, "%" PRIu64 " responses = %" PRIu64 " counted by the server",
                 answered, counted);
        break;
    case LOAD_CHECK_OPEN:
        snprintf(buffer, size,
                 "%" PRIu64 " responses, %" PRIu64 " counted by the server: %" PRIu64
                 " were in progress at the end",
                 answered, counted, counted - answered);
        break;
    case LOAD_CHECK_OTHERS:
        snprintf(buffer, size,
                 "%" PRIu64 " responses; the server counted %" PRIu64
                 ": it also served other clients",
                 answered, counted);
        break;
    case LOAD_CHECK_DIFFERENT:
        snprintf(buffer, size,
                 "%" PRIu64 " responses, but only %" PRIu64
                 " counted by the server: an error, or it restarted",
                 answered, counted);
        break;
    }
    return buffer;
}

double load_run_span_s(const struct load_run *run)
{
    double span = run->totals.elapsed_s > LEAST_SPAN_S ? run->totals.elapsed_s : LEAST_SPAN_S;
    uint64_t planned_ms;

    if (!run->finished && run->settings.text[LOAD_REQUESTS][0] == '\0' &&
        units_parse_time_ms(run->settings.text[LOAD_DURATION], &planned_ms) == 0 &&
        (double)planned_ms / 1e3 > span)
        span = (double)planned_ms / 1e3;
    return span;
}

/* JSON */

static json_t *totals_json(const struct load_totals *totals)
{
    return json_pack(
        "{s:f, s:f, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "elapsed_s",
        totals->elapsed_s, "requests_per_s", totals->requests_per_s, "p50_ns",
        scene_json_number(totals->p50_ns), "p90_ns", scene_json_number(totals->p90_ns), "p99_ns",
        scene_json_number(totals->p99_ns), "max_ns", scene_json_number(totals->max_ns), "begun",
        (json_int_t)totals->begun, "answered", (json_int_t)totals->answered, "failed",
        (json_int_t)totals->failed, "bad_statuses", (json_int_t)totals->bad_statuses, "unanswered",
        (json_int_t)totals->unanswered, "connections_up", (json_int_t)totals->connections_up);
}

static json_t *point_json(const struct load_point *point)
{
    return json_pack(
        "[f,o,o,o,o,o,o,o]", point->at_s, scene_json_number(point->client_rate),
        scene_json_number(point->client_p50_ns), scene_json_number(point->client_p99_ns),
        scene_json_number(point->server_rate), scene_json_number(point->server_p50_ns),
        scene_json_number(point->server_p99_ns), scene_json_number(point->connections));
}

json_t *load_run_json(const struct load_run *run)
{
    json_t *points = json_array(), *marks = json_array();

    for (size_t i = 0; i < run->point_count; i++)
        json_array_append_new(points, point_json(&run->point[i]));
    for (size_t i = 0; i < run->mark_count; i++)
        json_array_append_new(
            marks, json_pack("{s:f, s:s}", "at_s", run->mark[i].at_s, "text", run->mark[i].text));
    return json_pack("{s:i, s:I, s:s, s:s, s:b, s:i, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}",
                     "webserverd_run", RUN_FORMAT, "started_ns", (json_int_t)run->started_ns, "url",
                     run->url, "server", run->server, "own_server", (int)run->own_server,
                     "exit_status", run->wsload_status, "failure", run->failure, "note", run->note,
                     "server_before", (json_int_t)run->server_before, "server_after",
                     (json_int_t)run->server_after, "settings", load_settings_json(&run->settings),
                     "totals", totals_json(&run->totals), "marks", marks, "points", points);
}

static void take_points(struct load_run *run, const json_t *points)
{
    for (size_t i = 0; i < json_array_size(points) && i < LOAD_POINTS_MAX; i++) {
        const json_t *values = json_array_get(points, i);
        double value[8];

        for (size_t j = 0; j < 8; j++) {
            const json_t *item = json_array_get(values, j);

            value[j] = json_is_number(item) ? json_number_value(item) : NAN;
        }
        run->point[run->point_count++] = (struct load_point){
            value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7]};
    }
}

int load_run_from_json(struct load_run *run, const json_t *object)
{
    const json_t *totals = json_object_get(object, "totals");
    const json_t *marks = json_object_get(object, "marks");
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];

    if (json_integer_value(json_object_get(object, "webserverd_run")) != RUN_FORMAT ||
        !json_is_object(totals))
        return -1;
    load_settings_from_json(&settings, json_object_get(object, "settings"));
    take_text(url, sizeof(url), object, "url");
    load_run_begin(run, &settings, url, json_count_of(object, "started_ns"));
    take_text(run->server, sizeof(run->server), object, "server");
    take_text(run->failure, sizeof(run->failure), object, "failure");
    take_text(run->note, sizeof(run->note), object, "note");
    run->own_server = json_is_true(json_object_get(object, "own_server"));
    run->wsload_status = (int)json_integer_value(json_object_get(object, "exit_status"));
    run->server_before = json_count_of(object, "server_before");
    run->server_after = json_count_of(object, "server_after");
    run->finished = true;
    take_totals(&run->totals, totals);
    run->totals.requests_per_s = json_number_of(totals, "requests_per_s", 0);
    run->totals.p50_ns = json_number_of(totals, "p50_ns", NAN);
    run->totals.p90_ns = json_number_of(totals, "p90_ns", NAN);
    run->totals.p99_ns = json_number_of(totals, "p99_ns", NAN);
    run->totals.max_ns = json_number_of(totals, "max_ns", NAN);
    run->totals.unanswered = json_count_of(totals, "unanswered");
    run->totals.done_percent = 100;
    for (size_t i = 0; i < json_array_size(marks); i++) {
        const json_t *mark = json_array_get(marks, i);
        const char *text = json_string_value(json_object_get(mark, "text"));

        load_run_mark(run, json_number_of(mark, "at_s", 0), text != NULL ? text : "");
    }
    take_points(run, json_object_get(object, "points"));
    return 0;
}

/* ---- Stored runs ---- */

enum { PATH_BYTES = 1024 };

/* The directory of the runs; "" if neither variable is set. */
static void store_directory(char *path, size_t size)
{
    user_files_path("XDG_STATE_HOME", ".local/state", "runs", path, size);
}

static void run_path(const char *name, char *path, size_t size)
{
    size_t length;

    store_directory(path, size);
    length = strlen(path);
    snprintf(path + length, size - length, "/%s", name);
}

static int read_run(const char *name, struct load_run *run)
{
    char path[PATH_BYTES];
    json_t *object;
    int result;

    run_path(name, path, sizeof(path));
    object = json_load_file(path, 0, NULL);
    result = object == NULL ? -1 : load_run_from_json(run, object);
    json_decref(object);
    return result;
}

static int newest_first(const void *a, const void *b)
{
    const struct load_entry *left = a, *right = b;

    if (left->started_ns != right->started_ns)
        return left->started_ns > right->started_ns ? -1 : 1;
    return strcmp(right->name, left->name);
}

static int add_entry(struct load_store *store, const char *name, const struct load_run *run)
{
    struct load_entry *larger =
        realloc(store->entries, (store->count + 1) * sizeof(*store->entries));
    struct load_entry *entry;

    if (larger == NULL)
        return -1;
    store->entries = larger;
    entry = &store->entries[store->count++];
    *entry = (struct load_entry){.started_ns = run->started_ns,
                                 .settings = run->settings,
                                 .totals = run->totals,
                                 .check = load_run_check(run)};
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    memcpy(entry->url, run->url, sizeof(entry->url));
    return 0;
}

static void read_runs(struct load_store *store, DIR *directory, struct load_run *run)
{
    const struct dirent *entry;

    while ((entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name;
        size_t length = strlen(name);

        if (length > 5 && length < LOAD_NAME_BYTES && name[0] != '.' &&
            strcmp(name + length - 5, ".json") == 0 && read_run(name, run) == 0)
            add_entry(store, name, run);
    }
    if (store->count > 0)
        qsort(store->entries, store->count, sizeof(*store->entries), newest_first);
}

int load_store_read(struct load_store *store, char *why, size_t size)
{
    char path[PATH_BYTES];
    struct load_run *run = malloc(sizeof(*run));
    DIR *directory;

    load_store_release(store);
    store_directory(path, sizeof(path));
    directory = path[0] != '\0' ? opendir(path) : NULL;
    if (directory != NULL && run != NULL)
        read_runs(store, directory, run);
    free(run);
    if (directory != NULL) {
        closedir(directory);
        return 0;
    }
    if (path[0] == '\0' || errno == ENOENT)
        return 0; /* none has been stored yet */
    snprintf(why, size, "cannot read %.200s: %s", path, strerror(errno));
    return -1;
}

void load_store_release(struct load_store *store)
{
    free(store->entries);
    *store = (struct load_store){0};
}

/* Writes a hidden file and renames it, so that readers never see an incomplete run. */
static int write_run(const struct load_run *run, const char *name)
{
    char path[PATH_BYTES], hidden[PATH_BYTES], hidden_name[LOAD_NAME_BYTES + 8];
    json_t *object = load_run_json(run);
    int result;

    store_directory(path, sizeof(path));
    run_path(name, hidden, sizeof(hidden));
    if (object == NULL || path[0] == '\0' || user_files_make_parents(hidden) != 0) {
        json_decref(object);
        return -1;
    }
    snprintf(hidden_name, sizeof(hidden_name), ".%s", name);
    run_path(hidden_name, hidden, sizeof(hidden));
    run_path(name, path, sizeof(path));
    result = json_dump_file(object, hidden, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (result == 0 && rename(hidden, path) == 0)
        return 0;
    unlink(hidden);
    return -1;
}

int load_store_remove(struct load_store *store, size_t i, char *why, size_t size)
{
    char path[PATH_BYTES];

    run_path(store->entries[i].name, path, sizeof(path));
    if (unlink(path) != 0 && errno != ENOENT) {
        snprintf(why, size, "cannot delete %.200s: %s", path, strerror(errno));
        return -1;
    }
    memmove(&store->entries[i], &store->entries[i + 1],
            (store->count - i - 1) * sizeof(*store->entries));
    store->count--;
    return 0;
}

int load_store_add(struct load_store *store, const struct load_run *run, char *why, size_t size)
{
    char name[LOAD_NAME_BYTES];
    time_t second = (time_t)(run->started_ns / NS_PER_S);
    struct tm parts;
    size_t length;

    gmtime_r(&second, &parts);
    length = strftime(name, sizeof(name), "%Y%m%dT%H%M%S", &parts);
    snprintf(name + length, sizeof(name) - length, "-%03u.json",
             (unsigned)(run->started_ns % NS_PER_S / NS_PER_MS));
    if (write_run(run, name) != 0 || add_entry(store, name, run) != 0) {
        snprintf(why, size, "cannot store the run: %s",
                 errno != 0 ? strerror(errno) : "neither XDG_STATE_HOME nor HOME is set");
        return -1;
    }
    qsort(store->entries, store->count, sizeof(*store->entries), newest_first);
    while (store->count > LOAD_STORE_MAX)
        if (load_store_remove(store, store->count - 1, why, size) != 0)
            return -1;
    return 0;
}

int load_store_get(const struct load_entry *entry, struct load_run *run, char *why, size_t size)
{
    if (read_run(entry->name, run) == 0)
        return 0;
    snprintf(why, size, "cannot read the run %s", entry->name);
    return -1;
}

void load_compare(const struct load_totals *before, const struct load_totals *after,
                  struct load_difference *differences)
{
    const struct load_difference all[LOAD_DIFFERENCES] = {
        {"requests/s", before->requests_per_s, after->requests_per_s, GRAPH_COUNT, false},
        {"p50", before->p50_ns, after->p50_ns, GRAPH_TIME, true},
        {"p90", before->p90_ns, after->p90_ns, GRAPH_TIME, true},
        {"p99", before->p99_ns, after->p99_ns, GRAPH_TIME, true},
        {"max", before->max_ns, after->max_ns, GRAPH_TIME, true},
        {"answered", (double)before->answered, (double)after->answered, GRAPH_COUNT, false},
        {"failed", (double)before->failed, (double)after->failed, GRAPH_COUNT, true},
        {"bad statuses", (double)before->bad_statuses, (double)after->bad_statuses, GRAPH_COUNT,
         true},
    };

    memcpy(differences, all, sizeof(all));
}

/* A run from start to end */

enum { SETTLE_MS = 300, SETTLE_MOST_MS = 3000 };

void load_process_start(struct load_process *process, const struct load_settings *settings,
                        const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const char *argv[LOAD_ARGUMENTS_MAX], *url = settings->text[LOAD_TARGET];
    char target[LOAD_TEXT_BYTES], control[8], why[CONTROLLER_TEXT];

    if (!controller_allows_change(scene->controller))
        return;
    load_target_default(now->server.listening, target, sizeof(target));
    url = url[0] != '\0' ? url : target;
    if (url[0] == '\0') {
        controller_report(scene->controller, true,
                          "the server listens on no TCP address: enter a target");
        return;
    }
    snprintf(control, sizeof(control), "%d", CHILD_CONTROL_FD);
    load_settings_arguments(settings, target, control, argv);
    if (child_start(&process->child, argv, why, sizeof(why)) != 0) {
        controller_report(scene->controller, true, "%s", why);
        return;
    }
    load_run_begin(process->run, settings, url, clock_wall_ns());
    process->run->own_server = load_target_matches(url, now->server.listening);
    process->run->server_before = now->sums[METRIC_requests];
    snprintf(process->run->server, sizeof(process->run->server), "%.30s %.20s", now->server.name,
             now->server.version);
    process->event_ns = process->run->started_ns;
    marks_add(scene->marks, MARK_load, process->run->started_ns, "load run begins");
    process->phase = LOAD_RUNNING;
}

/* Changes of the server become marks, and so do the moments when its connections have followed. */
static void mark_changes(struct load_process *process, const struct scene *scene)
{
    const struct event_row *rows[16];
    size_t count =
        event_list_rows(scene->events, true, LEVEL_INFO, UINT64_MAX, rows, ARRAY_LENGTH(rows));

    while (count > 0) {
        const struct event_row *event = rows[--count];
        const char *by = strstr(event->text, ", by uid"); /* ends the text of a change */
        size_t length = by != NULL ? (size_t)(by - event->text) : strlen(event->text);
        char text[LOAD_MARK_BYTES];

        if (event->last_ns <= process->event_ns ||
            (by == NULL && strstr(event->text, "connections moved") == NULL))
            continue;
        process->event_ns = event->last_ns;
        snprintf(text, sizeof(text), "%.*s", (int)length, event->text);
        load_run_mark(process->run, (double)(event->last_ns - process->run->started_ns) / 1e9,
                      text);
    }
}

static void take_progress_line(void *context, const char *line)
{
    struct load_process *process = context;
    const struct scene *scene = process->scene;
    struct load_server_sample server = {NAN, NAN, NAN};
    json_t *object;

    if (scene->moment == MOMENT_LIVE)
        server = (struct load_server_sample){scene_rate(scene, METRIC_requests),
                                             model_percentile(scene->model, 50),
                                             model_percentile(scene->model, 99)};
    if (load_run_progress(process->run, line, &server))
        return;
    object = json_loads(line, 0, NULL);
    if (json_object_get(object, "why") != NULL)
        controller_report(process->controller, true, "%s",
                          json_string_value(json_object_get(object, "why")));
    json_decref(object);
}

static void finish_run(struct load_process *process)
{
    char why[CONTROLLER_TEXT], words[CONTROLLER_TEXT];

    process->phase = LOAD_DONE;
    if (process->run->totals.begun == 0) {
        controller_report(process->controller, true, "%s",
                          process->run->failure[0] != '\0' ? process->run->failure
                                                           : "wsload did not start a request");
        return;
    }
    load_run_check_text(process->run, words, sizeof(words));
    controller_report(process->controller, false, "run ended%s%s", words[0] != '\0' ? ": " : "",
                      words);
    if (load_store_add(process->store, process->run, why, sizeof(why)) != 0)
        controller_report(process->controller, true, "%s", why);
}

/*
 * The server counts a response shortly after the client received it, and is sampled about ten times
 * a second: its count is final when it has stopped changing.
 */
static void settle_count(struct load_process *process, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);

    if (process->phase != LOAD_SETTLING || scene->moment != MOMENT_LIVE)
        return;
    if (now->sums[METRIC_requests] != process->counted || process->unchanged_ns == 0) {
        process->counted = now->sums[METRIC_requests];
        process->unchanged_ns = now->time_ns;
    }
    process->run->server_after = process->counted;
    if (now->time_ns >= process->unchanged_ns + SETTLE_MS * NS_PER_MS ||
        now->time_ns >= process->ended_ns + SETTLE_MOST_MS * NS_PER_MS)
        finish_run(process);
}

void load_process_update(struct load_process *process, const struct scene *scene)
{
    int status;

    process->scene = scene;
    process->controller = scene->controller;
    if (load_process_active(process))
        mark_changes(process, scene);
    if (child_update(&process->child, take_progress_line, process, &status)) {
        process->run->wsload_status = status;
        load_run_report(process->run, process->child.text, process->child.output_length);
        process->phase = LOAD_SETTLING;
        marks_add(scene->marks, MARK_load, clock_wall_ns(), "load run ends");
        process->ended_ns = model_now(scene->model)->time_ns;
        process->unchanged_ns = 0;
    }
    settle_count(process, scene);
}

int load_process_init(struct load_process *process, struct load_store *store)
{
    child_init(&process->child);
    process->store = store;
    process->run = calloc(1, sizeof(*process->run));
    return process->run != NULL ? 0 : -1;
}

void load_process_release(struct load_process *process)
{
    child_release(&process->child);
    free(process->run);
}

bool load_process_active(const struct load_process *process)
{
    return process->phase == LOAD_RUNNING || process->phase == LOAD_SETTLING;
}
