/*
 * The load: a form, a run of wsload seen from both ends on one time axis, its pace changed while it
 * goes on, and the runs of the past, two of them compared.
 */

#include "common/clock.h"
#include "common/macros.h"
#include "console/cells.h"
#include "console/child.h"
#include "console/layout.h"
#include "console/load_draw.h"
#include "console/text.h"
#include "console/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum column_number { WHEN, RATE, P50, P99, FAILED, CHECK, WHAT, URL, COLUMNS };

static const struct column columns[COLUMNS] = {
    [WHEN] = {.title = "WHEN", .width = 15, .importance = 9},
    [RATE] = {.title = "REQ/S", .width = 6, .importance = 10, .right = true},
    [P50] = {.title = "P50", .width = 7, .importance = 6, .right = true},
    [P99] = {.title = "P99", .width = 7, .importance = 8, .right = true},
    [FAILED] = {.title = "FAILED", .width = 6, .importance = 5, .right = true},
    [CHECK] = {.title = "COUNTS", .width = 6, .importance = 4},
    [WHAT] = {.title = "WHAT", .width = 22, .importance = 7, .stretch = true, .key = true},
    [URL] = {.title = "URL", .width = 24, .importance = 1},
};

enum { FORM_LABEL = 14, SETTLE_MS = 300, SETTLE_MOST_MS = 3000, KEPT_LINES = 7 };

enum phase { PHASE_NONE, PHASE_RUNNING, PHASE_SETTLING, PHASE_DONE };

struct state {
    bool ready; /* what follows was set up */
    struct load_settings settings;
    int field;
    size_t preset; /* the next one to be taken */
    struct child child;
    enum phase phase;
    struct load_run *run, *past; /* the one under way; one that was loaded, to be looked at */
    char past_name[RUN_NAME_BYTES];
    struct run_store store;
    bool listing;                  /* past runs are shown */
    char compared[RUN_NAME_BYTES]; /* "": none was picked */
    const struct scene *scene;     /* during update() */
    struct desk *desk;
    uint64_t event_ns;          /* of the last change of the server that was marked */
    uint64_t ended_ns, counted; /* when the client ended; the server's count when last looked */
    uint64_t counted_ns;
};

static int set_up(struct state *state)
{
    char why[DESK_TEXT];

    if (state->ready)
        return 0;
    child_init(&state->child);
    load_settings_init(&state->settings);
    state->run = calloc(1, sizeof(*state->run));
    state->past = calloc(1, sizeof(*state->past));
    state->ready = state->run != NULL && state->past != NULL;
    run_store_read(&state->store, why, sizeof(why));
    return state->ready ? 0 : -1;
}

/* Past runs */

static size_t count(void *state, const struct scene *scene)
{
    struct state *own = state;

    (void)scene;
    return set_up(own) == 0 ? own->store.count : 0;
}

static void fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct state *own = state;
    const struct run_entry *entry = &own->store.entries[row];
    const struct load_totals *totals = &entry->totals;
    time_t second = (time_t)(entry->started_ns / NS_PER_S);
    struct tm parts;

    localtime_r(&second, &parts);
    strftime(cells[WHEN].text, sizeof(cells[WHEN].text), "%b %d %H:%M:%S", &parts);
    cells[WHEN].tone = strcmp(entry->name, own->compared) == 0 ? TONE_NOTE : TONE_NORMAL;
    cell_count(&cells[RATE], TONE_VALUE, totals->requests_per_s);
    cell_latency(&cells[P50], TONE_NORMAL, totals->p50_ns);
    cell_latency(&cells[P99], TONE_NORMAL, totals->p99_ns);
    cell_exact(&cells[FAILED], totals->failed > 0 ? TONE_WARN : TONE_DIM, totals->failed);
    cell_text(&cells[CHECK], entry->check == LOAD_CHECK_DIFFERENT ? TONE_WARN : TONE_GOOD,
              entry->check == LOAD_CHECK_NONE        ? "-"
              : entry->check == LOAD_CHECK_DIFFERENT ? (scene->ascii ? "no" : "✗")
                                                     : (scene->ascii ? "ok" : "✓"));
    load_settings_brief(&entry->settings, cells[WHAT].text, sizeof(cells[WHAT].text));
    cell_text(&cells[URL], TONE_DIM, entry->url);
}

static uint64_t id(void *state, const struct scene *scene, size_t row)
{
    (void)scene;
    return ((struct state *)state)->store.entries[row].started_ns;
}

static void detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct run_entry *entry = &((struct state *)state)->store.entries[row];
    const struct load_totals *totals = &entry->totals;
    char text[TEXT_SHORT];

    (void)scene;
    fprintf(out, "target\t%s\n", entry->url);
    for (int i = LOAD_CONNECTIONS; i < LOAD_FIELDS; i++)
        if (entry->settings.text[i][0] != '\0')
            fprintf(out, "%s\t%s\n", load_field_table[i].label, entry->settings.text[i]);
    fprintf(out, "took\t%.1f s\n", totals->elapsed_s);
    fprintf(out, "requests/s\t%.1f\n", totals->requests_per_s);
    fprintf(out, "answered\t%" PRIu64 "\n", totals->answered);
    fprintf(out, "failed\t%" PRIu64 "\n", totals->failed);
    fprintf(out, "bad statuses\t%" PRIu64 "\n", totals->bad_statuses);
    fprintf(out, "p50\t%s\n", text_latency(text, totals->p50_ns));
    fprintf(out, "p90\t%s\n", text_latency(text, totals->p90_ns));
    fprintf(out, "p99\t%s\n", text_latency(text, totals->p99_ns));
    fprintf(out, "max\t%s\n", text_latency(text, totals->max_ns));
    fprintf(out, "c picks it for a comparison, d forgets it.\n");
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = count,
    .fill = fill,
    .id = id,
    .detail = detail,
};

static const struct run_entry *entry_named(const struct state *state, const char *name)
{
    for (size_t i = 0; i < state->store.count; i++)
        if (name[0] != '\0' && strcmp(state->store.entries[i].name, name) == 0)
            return &state->store.entries[i];
    return NULL;
}

/* The selected one whole, read when it is another than before; NULL: none is selected. */
static const struct load_run *selected_run(struct state *state, const struct scene *scene)
{
    char why[DESK_TEXT];
    size_t row;

    if (!grid_selected(scene->grid, &row))
        return NULL;
    if (strcmp(state->past_name, state->store.entries[row].name) != 0) {
        snprintf(state->past_name, sizeof(state->past_name), "%s", state->store.entries[row].name);
        if (run_store_load(&state->store.entries[row], state->past, why, sizeof(why)) != 0)
            memset(state->past, 0, sizeof(*state->past));
    }
    return state->past;
}

/* A run under way */

static struct load_server_sample server_now(const struct scene *scene)
{
    if (scene->moment != MOMENT_LIVE)
        return (struct load_server_sample){NAN, NAN, NAN};
    return (struct load_server_sample){model_rate(scene->model, METRIC_requests),
                                       model_percentile(scene->model, 50),
                                       model_percentile(scene->model, 99)};
}

static void start(struct state *state, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const char *argv[LOAD_ARGUMENTS_MAX], *url = state->settings.text[LOAD_TARGET];
    char target[LOAD_TEXT_BYTES], control[8], why[DESK_TEXT];

    if (!desk_allows(scene->desk))
        return;
    load_target_of(now->server.listening, target, sizeof(target));
    url = url[0] != '\0' ? url : target;
    if (url[0] == '\0') {
        desk_say(scene->desk, true, "the server listens on no TCP address: fill in a target");
        return;
    }
    snprintf(control, sizeof(control), "%d", CHILD_CONTROL_FD);
    load_settings_arguments(&state->settings, target, control, argv);
    if (child_start(&state->child, argv, why, sizeof(why)) != 0) {
        desk_say(scene->desk, true, "%s", why);
        return;
    }
    load_run_begin(state->run, &state->settings, url, clock_wall_ns());
    state->run->own_server = load_target_is(url, now->server.listening);
    state->run->server_before = now->sums[METRIC_requests];
    snprintf(state->run->server, sizeof(state->run->server), "%.30s %.20s", now->server.name,
             now->server.version);
    state->event_ns = state->run->started_ns;
    state->phase = PHASE_RUNNING;
    state->listing = false;
}

/* What the daemon says that somebody changed becomes a mark on the axis. */
static void mark_changes(struct state *state, const struct scene *scene)
{
    const struct event_row *rows[16];
    size_t count =
        event_list_rows(scene->events, true, LEVEL_INFO, UINT64_MAX, rows, ARRAY_LENGTH(rows));

    while (count > 0) {
        const struct event_row *event = rows[--count];
        const char *by = strstr(event->text, ", by uid");
        char text[LOAD_MARK_BYTES];

        if (event->last_ns <= state->event_ns || by == NULL)
            continue;
        state->event_ns = event->last_ns;
        snprintf(text, sizeof(text), "%.*s", (int)(by - event->text), event->text);
        load_run_mark(state->run, (double)(event->last_ns - state->run->started_ns) / 1e9, text);
    }
}

static void take_line(void *context, const char *line)
{
    struct state *state = context;
    struct load_server_sample server = server_now(state->scene);
    json_t *object;

    if (load_run_progress(state->run, line, &server))
        return;
    object = json_loads(line, 0, NULL);
    if (json_object_get(object, "why") != NULL)
        desk_say(state->desk, true, "%s", json_string_value(json_object_get(object, "why")));
    json_decref(object);
}

static void finish(struct state *state)
{
    char why[DESK_TEXT], sentence[DESK_TEXT];
    bool bad = load_run_check(state->run) == LOAD_CHECK_DIFFERENT;

    state->phase = PHASE_DONE;
    if (state->run->totals.begun == 0) {
        desk_say(state->desk, true, "%s",
                 state->run->failure[0] != '\0' ? state->run->failure : "wsload did not begin");
        return;
    }
    load_check_sentence(state->run, true, sentence, sizeof(sentence));
    desk_say(state->desk, bad, "load run done: %s", sentence);
    if (run_store_add(&state->store, state->run, why, sizeof(why)) != 0)
        desk_say(state->desk, true, "%s", why);
}

/*
 * The server counts an answer a moment after the client has it, and is looked at some ten times a
 * second: its count is taken once it stands still.
 */
static void settle(struct state *state, const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);

    if (state->phase != PHASE_SETTLING || scene->moment != MOMENT_LIVE)
        return;
    if (now->sums[METRIC_requests] != state->counted || state->counted_ns == 0) {
        state->counted = now->sums[METRIC_requests];
        state->counted_ns = now->time_ns;
    }
    state->run->server_after = state->counted;
    if (now->time_ns >= state->counted_ns + SETTLE_MS * NS_PER_MS ||
        now->time_ns >= state->ended_ns + SETTLE_MOST_MS * NS_PER_MS)
        finish(state);
}

static void update(void *state, const struct scene *scene)
{
    struct state *own = state;
    int status;

    if (!own->ready || model_now(scene->model) == NULL)
        return;
    own->scene = scene;
    own->desk = scene->desk;
    if (own->phase == PHASE_RUNNING || own->phase == PHASE_SETTLING)
        mark_changes(own, scene);
    if (child_update(&own->child, take_line, own, &status)) {
        own->run->exit_status = status;
        load_run_report(own->run, own->child.text, own->child.output_length);
        own->phase = PHASE_SETTLING;
        own->ended_ns = model_now(scene->model)->time_ns;
        own->counted_ns = 0;
    }
    settle(own, scene);
}

static int descriptor(void *state)
{
    struct state *own = state;

    return own->ready ? child_descriptor(&own->child) : -1;
}

static void release(void *state)
{
    struct state *own = state;

    if (own->ready)
        child_release(&own->child);
    run_store_release(&own->store);
    free(own->run);
    free(own->past);
}

/* Keys */

static void edited(void *context, const char *text)
{
    struct state *state = context;
    char why[DESK_TEXT];

    if (load_settings_set(&state->settings, (enum load_field)state->field, text, why,
                          sizeof(why)) != 0)
        desk_say(state->desk, true, "%s", why);
}

static void edit_field(struct state *state, const struct scene *scene)
{
    const struct load_field_info *info = &load_field_table[state->field];
    char label[64];

    state->desk = scene->desk;
    if (info->kind == LOAD_SWITCH) {
        edited(state, strcmp(state->settings.text[state->field], "on") == 0 ? "off" : "on");
        return;
    }
    snprintf(label, sizeof(label), "%s: ", info->label);
    desk_prompt(scene->desk, label, state->settings.text[state->field], edited, state);
}

static void pace_typed(void *context, const char *text)
{
    struct state *state = context;

    if (!child_tell(&state->child, text))
        desk_say(state->desk, true, "the run is over");
}

static void edit_pace(struct state *state, const struct scene *scene)
{
    char initial[64];

    state->desk = scene->desk;
    snprintf(initial, sizeof(initial), "rate %.0f", state->run->totals.rate_wanted);
    if (!(state->run->totals.rate_wanted > 0))
        snprintf(initial, sizeof(initial), "connections %" PRIu64, state->run->totals.connections);
    desk_prompt(scene->desk, "change the run (rate 500, connections +20, threads 2): ", initial,
                pace_typed, state);
}

static void next_preset(struct state *state, const struct scene *scene)
{
    size_t preset = state->preset;

    load_settings_preset(&state->settings, preset);
    desk_say(scene->desk, false, "%s: %s", load_preset_name(preset), load_preset_help(preset));
    state->preset = (preset + 1) % load_preset_count();
}

static void forget_selected(struct state *state, const struct scene *scene)
{
    char why[DESK_TEXT];
    size_t row;

    if (!grid_selected(scene->grid, &row))
        desk_say(scene->desk, true, "select a run first (Up, Down)");
    else if (run_store_remove(&state->store, row, why, sizeof(why)) != 0)
        desk_say(scene->desk, true, "%s", why);
}

static void pick_for_comparison(struct state *state, const struct scene *scene)
{
    size_t row;

    if (!grid_selected(scene->grid, &row)) {
        desk_say(scene->desk, true, "select a run first (Up, Down), then c");
        return;
    }
    if (strcmp(state->compared, state->store.entries[row].name) == 0)
        state->compared[0] = '\0';
    else
        snprintf(state->compared, sizeof(state->compared), "%s", state->store.entries[row].name);
    desk_say(scene->desk, false,
             state->compared[0] != '\0' ? "picked as A: select another run, it is B"
                                        : "nothing is compared any more");
}

/* Keys of the list of past runs. */
static bool list_key(struct state *state, const struct scene *scene, enum request request)
{
    switch (request) {
    case REQUEST_REMOVE:
        forget_selected(state, scene);
        return true;
    case REQUEST_COMPARE:
        pick_for_comparison(state, scene);
        return true;
    default:
        return false;
    }
}

/* Keys of the form. */
static bool form_key(struct state *state, const struct scene *scene, enum request request)
{
    switch (request) {
    case REQUEST_UP:
        state->field = (state->field + LOAD_FIELDS - 1) % LOAD_FIELDS;
        return true;
    case REQUEST_DOWN:
        state->field = (state->field + 1) % LOAD_FIELDS;
        return true;
    case REQUEST_OPEN:
        edit_field(state, scene);
        return true;
    case REQUEST_EDIT:
        if (state->phase == PHASE_RUNNING)
            edit_pace(state, scene);
        else
            edit_field(state, scene);
        return true;
    case REQUEST_NEXT:
        next_preset(state, scene);
        return true;
    default:
        return false;
    }
}

static bool key(void *state, const struct scene *scene, enum request request)
{
    struct state *own = state;

    if (set_up(own) != 0)
        return false;
    switch (request) {
    case REQUEST_RUN:
        if (own->child.pid != 0 || own->phase == PHASE_SETTLING)
            desk_say(scene->desk, true, "a run is under way: x stops it, e changes its pace");
        else
            start(own, scene);
        return true;
    case REQUEST_STOP:
        child_stop(&own->child);
        return true;
    case REQUEST_MODE:
        own->listing = !own->listing;
        return true;
    default:
        return own->listing ? list_key(own, scene, request) : form_key(own, scene, request);
    }
}

/* Drawing */

static void draw_form(const struct state *state, const struct scene *scene,
                      const struct canvas *canvas)
{
    int first = state->field < canvas->height ? 0 : state->field - canvas->height + 1;
    char target[LOAD_TEXT_BYTES];

    load_target_of(model_now(scene->model)->server.listening, target, sizeof(target));
    for (int y = 0; y < canvas->height && first + y < LOAD_FIELDS; y++) {
        int i = first + y;
        const char *text = state->settings.text[i];
        bool here = i == state->field;

        if (here)
            canvas_repeat(canvas, y, 0, FORM_LABEL + 24, TONE_SELECTED, L' ');
        canvas_text(canvas, y, 1, here ? TONE_SELECTED : TONE_TITLE, load_field_table[i].label);
        canvas_text(canvas, y, FORM_LABEL,
                    here              ? TONE_SELECTED
                    : text[0] != '\0' ? TONE_VALUE
                                      : TONE_DIM,
                    text[0] != '\0'    ? text
                    : i == LOAD_TARGET ? target
                                       : "-");
        if (canvas->width >= 90)
            canvas_text(canvas, y, FORM_LABEL + 28, TONE_DIM, load_field_table[i].help);
    }
}

static void draw_hint(const struct state *state, const struct canvas *canvas)
{
    canvas_text(canvas, 0, 0, TONE_DIM,
                state->phase == PHASE_RUNNING
                    ? "x stops  e changes rate or connections  + - server threads  m past runs"
                    : "r runs  Enter edits  n next preset  m past runs");
}

static bool under_way(const struct state *state)
{
    return state->phase == PHASE_RUNNING || state->phase == PHASE_SETTLING;
}

/* Lines of the totals that say something now. */
static int totals_lines(const struct state *state)
{
    const struct load_run *run = state->run;

    return 3 + run->finished + (run->note[0] != '\0' || run->failure[0] != '\0');
}

static void draw_main(const struct state *state, const struct scene *scene,
                      const struct canvas *canvas)
{
    bool any = state->phase != PHASE_NONE, form = !under_way(state) || canvas->height >= 30;
    int totals = any ? totals_lines(state) : 0;
    const struct layout_part parts[] = {
        {.least = 1, .importance = 3},
        {.least = 3, .most = LOAD_FIELDS, .weight = 8, .importance = form ? 6 : 0},
        {.least = 3, .most = totals, .weight = 8, .importance = 5, .gap = 1},
        {.least = form ? 5 : canvas->height - totals - 3, .weight = 8, .importance = 4, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    scene->grid->titles = scene->grid->rows = (struct canvas){0};
    layout_stack(canvas, parts, any ? 4 : 2, places);
    if (places[0].height > 0)
        draw_hint(state, &places[0]);
    if (places[1].height > 0)
        draw_form(state, scene, &places[1]);
    if (any && places[2].height > 0)
        load_draw_totals(state->run, scene, &places[2]);
    if (any && places[3].height > 0)
        load_draw_plots(state->run, scene, &places[3]);
}

static void draw_past(struct state *state, const struct scene *scene, const struct canvas *canvas)
{
    const struct load_run *run;
    const struct run_entry *compared = entry_named(state, state->compared), *selected;
    const struct layout_part parts[] = {
        {.least = 1, .importance = 2},
        {.least = 3, .most = (int)state->store.count + 2, .weight = 1, .importance = 3},
        {.least = compared != NULL ? RUN_DIFFERENCES + 2 : LOAD_TOTALS + KEPT_LINES,
         .weight = 1,
         .importance = 1,
         .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)], upper, lower;

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    canvas_text(&places[0], 0, 0, TONE_DIM, "past runs: c compares  d forgets  m back to the form");
    grid_draw(scene->grid, scene, &places[1]);
    run = selected_run(state, scene);
    if (run == NULL || places[2].height == 0)
        return;
    selected = entry_named(state, state->past_name);
    if (compared != NULL && selected != NULL && compared != selected) {
        load_draw_comparison(compared, selected, &places[2]);
        return;
    }
    upper = canvas_part(&places[2], 0, 0, LOAD_TOTALS, canvas->width);
    lower = canvas_part(&places[2], LOAD_TOTALS, 0, places[2].height - LOAD_TOTALS, canvas->width);
    load_draw_totals(run, scene, &upper);
    load_draw_plots(run, scene, &lower);
}

static void draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;

    if (set_up(own) != 0)
        return;
    if (own->listing)
        draw_past(own, scene, canvas);
    else
        draw_main(own, scene, canvas);
}

static const char *const help[] = {
    "Makes load with wsload and shows it from both ends on one time axis:",
    "dots are what the client saw, circles what the server counted.",
    "Numbers on the axis mark when a thread count or another knob changed.",
    "At the end both counts are compared; a tick means that none was lost.",
    "r runs, x stops, e changes rate and connections meanwhile, n takes a preset.",
    "m lists past runs (kept in $XDG_STATE_HOME/webserverd/runs), c compares two.",
    NULL};

const struct view view_load = {
    .name = "load",
    .request = REQUEST_VIEW_LOAD,
    .empty = "",
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .draw = draw,
    .key = key,
    .descriptor = descriptor,
    .update = update,
    .release = release,
};
