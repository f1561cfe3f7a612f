/*
 * The load: a form, a run of wsload as client and server see it, changes while it runs, and the
 * list and comparison of stored runs.
 */

#include "common/clock.h"
#include "common/macros.h"
#include "console/load/draw.h"
#include "console/load/run.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "console/views/panels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum column_number { WHEN, RATE, P50, P99, FAILED, CHECK, WHAT, URL, COLUMNS };

static const struct column columns[COLUMNS] = {
    [WHEN] = {.title = "STARTED", .width = 15, .importance = 9, .output = OUTPUT_TIME},
    [RATE] =
        {.title = "REQ/S", .width = 6, .importance = 10, .right = true, .name = "requests_per_s"},
    [P50] = {.title = "P50", .width = 7, .importance = 6, .right = true, .output = OUTPUT_NS},
    [P99] = {.title = "P99", .width = 7, .importance = 8, .right = true, .output = OUTPUT_NS},
    [FAILED] = {.title = "FAILED", .width = 6, .importance = 5, .right = true},
    [CHECK] = {.title = "COUNTS", .width = 6, .importance = 4},
    [WHAT] = {.title = "SETTINGS", .width = 22, .importance = 7, .stretch = 1, .key = true},
    [URL] = {.title = "TARGET", .width = 24, .importance = 1},
};

enum { PLOT_LINES = 7, ADVICE_WIDTH = 78 };

struct state {
    bool ready; /* the other members are initialised */
    struct load_settings settings;
    int field;
    struct load_form form;
    size_t preset; /* the next preset */
    struct load_process process;
    struct load_store store;
    bool listing;          /* the list of past runs is shown */
    bool agreed;           /* the next update starts a run */
    struct load_run *past; /* the past run that is shown */
    char past_name[LOAD_NAME_BYTES];
    char compared[LOAD_NAME_BYTES]; /* run A of a comparison; "": none */
    struct controller *controller;  /* valid while a dialog is open */
};

static int set_up(struct state *state)
{
    char why[CONTROLLER_TEXT];

    if (state->ready)
        return 0;
    load_settings_init(&state->settings);
    state->past = calloc(1, sizeof(*state->past));
    state->ready = state->past != NULL && load_process_init(&state->process, &state->store) == 0;
    load_store_read(&state->store, why, sizeof(why));
    return state->ready ? 0 : -1;
}

/* Stored runs */

static size_t load_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    (void)scene;
    return set_up(own) == 0 ? own->store.count : 0;
}

static void load_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct state *own = state;
    const struct load_entry *entry = &own->store.entries[row];
    const struct load_totals *totals = &entry->totals;
    time_t second = (time_t)(entry->started_ns / NS_PER_S);
    struct tm parts;

    localtime_r(&second, &parts);
    strftime(cells[WHEN].text, sizeof(cells[WHEN].text), "%b %d %H:%M:%S", &parts);
    cells[WHEN].time_ns = entry->started_ns;
    cells[WHEN].tone = strcmp(entry->name, own->compared) == 0 ? TONE_NOTE : TONE_NORMAL;
    cell_count(&cells[RATE], TONE_VALUE, totals->requests_per_s);
    cell_latency(&cells[P50], TONE_NORMAL, totals->p50_ns);
    cell_latency(&cells[P99], TONE_NORMAL, totals->p99_ns);
    cell_count(&cells[FAILED], totals->failed > 0 ? TONE_WARN : TONE_DIM, (double)totals->failed);
    cell_text(&cells[CHECK], entry->check == LOAD_CHECK_DIFFERENT ? TONE_WARN : TONE_GOOD,
              entry->check == LOAD_CHECK_NONE || entry->check == LOAD_CHECK_OTHERS ? "-"
              : entry->check == LOAD_CHECK_DIFFERENT ? (scene->ascii ? "no" : "✗")
                                                     : (scene->ascii ? "ok" : "✓"));
    load_settings_summary(&entry->settings, cells[WHAT].text, sizeof(cells[WHAT].text));
    cell_text(&cells[URL], TONE_DIM, entry->url);
}

static uint64_t load_id(void *state, const struct scene *scene, size_t row)
{
    (void)scene;
    return ((struct state *)state)->store.entries[row].started_ns;
}

static void load_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct load_entry *entry = &((struct state *)state)->store.entries[row];
    const struct load_totals *totals = &entry->totals;
    char text[TEXT_SHORT];

    (void)scene;
    fprintf(out, "target\t%s\n", entry->url);
    for (int i = LOAD_CONNECTIONS; i < LOAD_FIELDS; i++)
        if (entry->settings.text[i][0] != '\0')
            fprintf(out, "%s\t%s\n", load_field_table[i].label, entry->settings.text[i]);
    fprintf(out, "duration\t%s\n", text_latency(text, totals->elapsed_s * (double)NS_PER_S));
    fprintf(out, "requests/s\t%.1f\n", totals->requests_per_s);
    fprintf(out, "answered\t%" PRIu64 "\n", totals->answered);
    fprintf(out, "failed\t%" PRIu64 "\n", totals->failed);
    fprintf(out, "bad statuses\t%" PRIu64 "\n", totals->bad_statuses);
    fprintf(out, "p50\t%s\n", text_latency(text, totals->p50_ns));
    fprintf(out, "p90\t%s\n", text_latency(text, totals->p90_ns));
    fprintf(out, "p99\t%s\n", text_latency(text, totals->p99_ns));
    fprintf(out, "max\t%s\n", text_latency(text, totals->max_ns));
    fprintf(out, "c selects it for a comparison, d deletes it.\n");
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = load_count,
    .fill = load_fill,
    .id = load_id,
    .detail = load_detail,
};

static const struct load_entry *entry_named(const struct state *state, const char *name)
{
    for (size_t i = 0; i < state->store.count; i++)
        if (name[0] != '\0' && strcmp(state->store.entries[i].name, name) == 0)
            return &state->store.entries[i];
    return NULL;
}

/* The selected run, read from its file when the selection changes; NULL: none. */
static const struct load_run *selected_run(struct state *state, const struct scene *scene)
{
    char why[CONTROLLER_TEXT];
    size_t row;

    if (!grid_selected(scene->grid, &row))
        return NULL;
    if (strcmp(state->past_name, state->store.entries[row].name) != 0) {
        snprintf(state->past_name, sizeof(state->past_name), "%s", state->store.entries[row].name);
        if (load_store_get(&state->store.entries[row], state->past, why, sizeof(why)) != 0)
            memset(state->past, 0, sizeof(*state->past));
    }
    return state->past;
}

static void load_update(void *state, const struct scene *scene)
{
    struct state *own = state;

    if (!own->ready || model_now(scene->model) == NULL)
        return;
    if (own->agreed) {
        load_process_start(&own->process, &own->settings, scene);
        own->listing = own->agreed = false;
    }
    load_process_update(&own->process, scene);
}

static int load_descriptor(void *state)
{
    struct state *own = state;

    return own->ready ? child_descriptor(&own->process.child) : -1;
}

static const char *load_unfinished(void *state)
{
    const struct state *own = state;

    return own->ready && load_process_active(&own->process)
               ? "A load run is in progress. Stop it and leave?"
               : NULL;
}

static void load_release(void *state)
{
    struct state *own = state;

    if (own->ready)
        load_process_release(&own->process);
    load_store_release(&own->store);
    free(own->past);
}

/* Keys */

static void field_edited(void *context, const char *text)
{
    struct state *state = context;
    char why[CONTROLLER_TEXT];

    if (load_settings_set(&state->settings, (enum load_field)state->field, text, why,
                          sizeof(why)) != 0)
        controller_report(state->controller, true, "%s", why);
}

static void edit_field(struct state *state, const struct scene *scene)
{
    const struct load_field_info *info = &load_field_table[state->field];
    char label[64];

    state->controller = scene->controller;
    if (info->kind == LOAD_SWITCH) {
        field_edited(state, strcmp(state->settings.text[state->field], "on") == 0 ? "off" : "on");
        return;
    }
    snprintf(label, sizeof(label), "%s: ", info->label);
    controller_prompt(scene->controller, label, state->settings.text[state->field], field_edited,
                      state);
}

static void change_entered(void *context, const char *text)
{
    struct state *state = context;

    if (!child_send(&state->process.child, text))
        controller_report(state->controller, true, "the run has ended");
}

static void edit_running(struct state *state, const struct scene *scene)
{
    char initial[64];

    state->controller = scene->controller;
    snprintf(initial, sizeof(initial), "rate %.0f", state->process.run->totals.rate_wanted);
    if (!(state->process.run->totals.rate_wanted > 0))
        snprintf(initial, sizeof(initial), "connections %" PRIu64,
                 state->process.run->totals.connections);
    controller_prompt(scene->controller,
                      "change the run (rate 500, connections +20, threads 2): ", initial,
                      change_entered, state);
}

static void agree_to_run(void *context)
{
    ((struct state *)context)->agreed = true;
}

/* Load slows the target down, so a run is a change like any other. */
static void ask_run(struct state *state, const struct scene *scene)
{
    const char *target = state->settings.text[LOAD_TARGET];
    char question[CONTROLLER_TEXT * 2], summary[CONTROLLER_TEXT / 2];

    if (!controller_allows_change(scene->controller))
        return;
    snprintf(question, sizeof(question), "Run load with %s against %s?",
             load_settings_summary(&state->settings, summary, sizeof(summary)),
             target[0] != '\0' ? target : "the server on this screen");
    controller_confirm(scene->controller, question, agree_to_run, state);
}

/* Keys of the list of stored runs. */
static bool list_key(struct state *state, const struct scene *scene, enum action action)
{
    char why[CONTROLLER_TEXT];
    size_t row;

    if (action != ACTION_REMOVE && action != ACTION_COMPARE)
        return false;
    if (!grid_selected(scene->grid, &row)) {
        controller_report(scene->controller, true, "select a run first (Up, Down)%s",
                          action == ACTION_COMPARE ? ", then c" : "");
    } else if (action == ACTION_REMOVE) {
        if (load_store_remove(&state->store, row, why, sizeof(why)) != 0)
            controller_report(scene->controller, true, "%s", why);
    } else if (strcmp(state->compared, state->store.entries[row].name) == 0) {
        state->compared[0] = '\0';
        controller_report(scene->controller, false, "comparison cancelled");
    } else {
        snprintf(state->compared, sizeof(state->compared), "%s", state->store.entries[row].name);
        controller_report(scene->controller, false, "this is run A; now select run B");
    }
    return true;
}

/* Keys of the form. */
static bool form_key(struct state *state, const struct scene *scene, enum action action)
{
    const struct load_preset *preset = &load_preset_table[state->preset];

    switch (action) {
    case ACTION_UP:
        state->field = (state->field + LOAD_FIELDS - 1) % LOAD_FIELDS;
        return true;
    case ACTION_DOWN:
        state->field = (state->field + 1) % LOAD_FIELDS;
        return true;
    case ACTION_OPEN:
        edit_field(state, scene);
        return true;
    case ACTION_EDIT:
        if (state->process.phase == LOAD_RUNNING)
            edit_running(state, scene);
        else
            edit_field(state, scene);
        return true;
    case ACTION_NEXT:
        load_settings_preset(&state->settings, state->preset);
        controller_report(scene->controller, false, "%s: %s", preset->name, preset->help);
        state->preset = (state->preset + 1) % load_preset_count;
        return true;
    default:
        return false;
    }
}

static bool load_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;

    if (set_up(own) != 0)
        return false;
    switch (action) {
    case ACTION_RUN:
        if (load_process_active(&own->process))
            controller_report(scene->controller, true,
                              "a run is active: x stops it, e changes its rate");
        else
            ask_run(own, scene);
        return true;
    case ACTION_STOP:
        child_stop(&own->process.child);
        return true;
    case ACTION_MODE:
        own->listing = !own->listing;
        grid_update(scene->grid, scene); /* the next key may arrive before the list is drawn */
        return true;
    default:
        return own->listing ? list_key(own, scene, action) : form_key(own, scene, action);
    }
}

/* A click on a field selects it, the second one edits it; a click on a hint acts like its key. */
static bool load_click(void *state, const struct scene *scene, int y, int x)
{
    struct state *own = state;
    int field = load_form_field_at(&own->form, y, x);
    enum action hint = load_form_action_at(&own->form, y, x);

    if (field >= 0 && field == own->field)
        edit_field(own, scene);
    else if (field >= 0)
        own->field = field;
    else if (hint != ACTION_NONE)
        load_key(own, scene, hint);
    return field >= 0 || hint != ACTION_NONE;
}

static const char keys_help[] =
    "r runs, x stops, e changes rate and connections of a run, n loads a preset.";

static const char *const help[] = {
    "Runs wsload and shows both ends on one time axis:",
    "dots are the client's values, circles the server's.",
    "Numbers below the graphs mark changes of settings and moves of connections.",
    "At the end both counts are compared; a tick means no request was lost.",
    keys_help,
    "The keys above the form are clickable; a second click on a field edits it.",
    "v lists past runs (in $XDG_STATE_HOME/webserverd/runs), c compares two.",
    NULL};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    TEXT_NUMBER("requests/s",
                "Responses per second: at present; at the end of a run, of all of it"),
    TEXT_NUMBER("p50, p99",
                "Time that half of the responses, or 99 of 100, took at most: the client's of the "
                "whole run, the server's of the last second"),
    TEXT_NUMBER(
        "max p99",
        "The server's highest p99 of any second. The server counts a request's time from its "
        "first byte on, the client from when it was due"),
    TEXT_NUMBER("answered", "Complete responses, any status"),
    TEXT_NUMBER("failed", "Requests without a complete response: refused, reset, timed out ..."),
    TEXT_NUMBER("bad statuses", "Responses with an unexpected status; they are answered as well"),
    TEXT_NUMBER("COUNTS", "Past runs: a tick if the server counted as many requests as the client"),
    NUMBERS_END,
};

/* Drawing */

/* Draws the help of the view before the first run. */
static void draw_advice(const struct scene *scene, const struct canvas *canvas)
{
    bool all = scene_allows_changes(scene);
    int y = 0;

    for (size_t i = 0; y < canvas->height && help[i] != NULL; i++)
        if (all || help[i] != keys_help)
            canvas_text(canvas, y++, 1, TONE_DIM, help[i]);
}

enum { FORM_WIDTH = 99, BESIDE_WIDTH = FORM_WIDTH + 80, PANELS_WIDTH = 100 };

/* Before the first run: the form, the help below or beside it, and what the server does now. */
static void draw_before(struct state *state, const struct scene *scene, const struct canvas *canvas)
{
    bool beside = canvas->width >= BESIDE_WIDTH, wide = canvas->width >= PANELS_WIDTH;
    bool advice = canvas->width >= ADVICE_WIDTH && canvas->height > LOAD_FIELDS + 6;
    const struct layout_part parts[] = {
        {.min = 1, .importance = 3},
        {.min = 3, .max = LOAD_FIELDS, .weight = 8, .importance = 6},
        {.min = advice && !beside ? 5 : 0, .max = 7, .weight = 8, .importance = 4, .gap = 1},
        {.min = wide ? PANEL_FULL_HEIGHT : 0, .weight = 1, .importance = 1, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)], left, right;

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    load_form_draw_hints(&state->form,
                         scene_allows_changes(scene) ? LOAD_HINTS_FORM : LOAD_HINTS_NO_CHANGES,
                         &places[0]);
    if (beside) {
        places[2] = canvas_part(&places[1], 0, FORM_WIDTH, places[1].height, canvas->width);
        places[1].width = FORM_WIDTH - 2;
    }
    load_form_draw(&state->form, &state->settings, state->field, scene, &places[1]);
    if (advice && places[2].height > 0)
        draw_advice(scene, &places[2]);
    if (places[3].height == 0)
        return;
    left = canvas_part(&places[3], 0, 0, places[3].height, canvas->width / 2 - 1);
    right = canvas_part(&places[3], 0, left.width + 2, places[3].height, canvas->width);
    metric_panel_draw(&panel_requests, scene, &left, false);
    metric_panel_draw(&panel_latency, scene, &right, false);
}

static void draw_main(struct state *state, const struct scene *scene, const struct canvas *canvas)
{
    bool form = !load_process_active(&state->process) || canvas->height >= 30;
    int totals;

    if (state->process.phase == LOAD_NOT_RUN) {
        draw_before(state, scene, canvas);
        return;
    }
    totals = load_draw_totals_lines(state->process.run, canvas->width);
    const struct layout_part parts[] = {
        {.min = 1, .importance = 3},
        {.min = 3, .max = LOAD_FIELDS, .weight = 8, .importance = form ? 6 : 0},
        {.min = 3, .max = totals, .weight = 8, .importance = 5, .gap = 1},
        {.min = form ? 5 : canvas->height - totals - 3, .weight = 8, .importance = 4, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    if (places[0].height > 0)
        load_form_draw_hints(&state->form,
                             state->process.phase == LOAD_RUNNING ? LOAD_HINTS_RUNNING
                             : scene_allows_changes(scene)        ? LOAD_HINTS_FORM
                                                                  : LOAD_HINTS_NO_CHANGES,
                             &places[0]);
    if (places[1].height > 0)
        load_form_draw(&state->form, &state->settings, state->field, scene, &places[1]);
    if (places[2].height > 0)
        load_draw_totals(state->process.run, scene, &places[2]);
    if (places[3].height > 0)
        load_draw_plots(state->process.run, scene, &places[3]);
}

static void draw_past(struct state *state, const struct scene *scene, const struct canvas *canvas)
{
    const struct load_run *run;
    const struct load_entry *compared = entry_named(state, state->compared), *selected;
    const struct layout_part parts[] = {
        {.min = 1, .importance = 2},
        {.min = 3, .max = (int)state->store.count + 2, .weight = 1, .importance = 3},
        {.min = compared != NULL ? LOAD_DIFFERENCES + 2 : LOAD_TOTALS + PLOT_LINES,
         .weight = 1,
         .importance = 1,
         .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)], upper, lower;
    int totals;

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    load_form_draw_hints(&state->form, LOAD_HINTS_RUNS, &places[0]);
    grid_draw(scene->grid, scene, &places[1]);
    run = selected_run(state, scene);
    if (run == NULL || places[2].height == 0)
        return;
    selected = entry_named(state, state->past_name);
    if (compared != NULL && selected != NULL && compared != selected) {
        load_draw_comparison(compared, selected, &places[2]);
        return;
    }
    totals = load_draw_totals_lines(run, canvas->width);
    upper = canvas_part(&places[2], 0, 0, totals, canvas->width);
    lower = canvas_part(&places[2], totals + 1, 0, places[2].height - totals - 1, canvas->width);
    load_draw_totals(run, scene, &upper);
    load_draw_plots(run, scene, &lower);
}

static void load_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;

    if (set_up(own) != 0)
        return;
    own->form = (struct load_form){0};
    if (own->listing)
        draw_past(own, scene, canvas);
    else
        draw_main(own, scene, canvas);
}

static const struct view_hint *hints_now(const void *state, const struct scene *scene)
{
    static const struct view_hint form[] = {{ACTION_RUN, "run", true, HINT_ALWAYS},
                                            {ACTION_NEXT, "preset", true, HINT_ALWAYS},
                                            {ACTION_EDIT, "edit", true, HINT_ALWAYS},
                                            {ACTION_MODE, "past runs", false, HINT_ALWAYS},
                                            {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint running[] = {{ACTION_STOP, "stop", false, HINT_ALWAYS},
                                               {ACTION_EDIT, "change", false, HINT_ALWAYS},
                                               {ACTION_MODE, "past runs", false, HINT_ALWAYS},
                                               {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint runs[] = {{ACTION_MODE, "form", false, HINT_ALWAYS},
                                            {ACTION_OPEN, "details", false, HINT_ROWS},
                                            {ACTION_COMPARE, "compare", false, HINT_SELECTED},
                                            {ACTION_REMOVE, "delete", false, HINT_SELECTED},
                                            {ACTION_NONE, "", false, HINT_ALWAYS}};
    const struct state *own = state;

    (void)scene;
    return own->listing ? runs : own->process.phase == LOAD_RUNNING ? running : form;
}

const struct view view_load = {
    .name = "load",
    .action = ACTION_VIEW_LOAD,
    .has_span = true,
    .empty = "",
    .hints_now = hints_now,
    .numbers = numbers,
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .draw = load_draw,
    .key = load_key,
    .click = load_click,
    .descriptor = load_descriptor,
    .update = load_update,
    .unfinished = load_unfinished,
    .release = load_release,
};
