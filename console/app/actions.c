#include "console/app/session.h"

#include "common/clock.h"
#include "common/macros.h"

#include <curses.h>
#include <stdio.h>
#include <string.h>

enum { MINUTE = 60, REPLAY_STEP = 5 };

void program_show_view(struct program *program, size_t view)
{
    struct scene scene;

    program->view = view;
    program->help = false;
    program->detail = false;
    controller_close_page(program->controller);
    scene = program_scene(program);
    if (scene.grid->list != NULL && model_now(scene.model) != NULL)
        grid_update(scene.grid, &scene); /* the next key may come before it is drawn */
}

void program_turn_to(struct program *program, const char *name)
{
    if (watch_replays(program->watch)) {
        controller_report(program->controller, true,
                          "this is a recording: start a console without --replay");
        return;
    }
    if (program->options->record != NULL) {
        controller_report(program->controller, true,
                          "this server is being recorded: a file holds one only");
        return;
    }
    snprintf(program->next->name, sizeof(program->next->name), "%s", name);
    program->next->wanted = program->ending = true;
}

void program_turn_to_lab(struct program *program, const struct lab_scenario *scenario)
{
    if (program->options->record != NULL) {
        controller_report(program->controller, true,
                          "this server is being recorded: a scenario has another one");
        return;
    }
    program->next->lab = scenario;
    program->next->lab_wanted = program->ending = true;
}

/* Time */

static void freeze(struct program *program)
{
    if (program->frozen || watch_replays(program->watch))
        return;
    program->frozen = true;
    if (watch_sample(program->watch, clock_monotonic_ns(), clock_wall_ns(), WANT_ALL) != 0)
        program->failure = "out of memory";
}

static void toggle_freeze(struct program *program)
{
    if (program->frozen || watch_replays(program->watch))
        program->frozen = !program->frozen;
    else
        freeze(program);
    program->back = 0;
    program->next_sample_ns = 0;
}

static void seek(struct program *program, long seconds)
{
    double length_ns = (double)replay_length_ns(watch_replay(program->watch));
    double at_ns = program->replay_at_ns + (double)seconds * (double)NS_PER_S;

    program->replay_at_ns = at_ns < 0 ? 0 : at_ns > length_ns ? length_ns : at_ns;
    program->next_sample_ns = 0;
}

/* Puts the moment SECONDS from the one shown in force; of a recording, or of the history. */
static void travel(struct program *program, long seconds)
{
    long back = (long)program->back - seconds;

    if (watch_replays(program->watch)) {
        seek(program, seconds);
        return;
    }
    if (!program->frozen && seconds > 0)
        return; /* live: there is nothing later */
    freeze(program);
    program->back = watch_look_back(program->watch, back > 0 ? (size_t)back : 0);
}

static int next_span(int span_s)
{
    size_t i = 0;

    while (i < OPTIONS_SPANS && options_spans_s[i] != span_s)
        i++;
    return options_spans_s[(i + 1) % OPTIONS_SPANS];
}

static bool act_on_time(struct program *program, enum action action)
{
    long step = watch_replays(program->watch) ? REPLAY_STEP : 1;

    switch (action) {
    case ACTION_FREEZE:
        toggle_freeze(program);
        return true;
    case ACTION_EARLIER:
        travel(program, -step);
        return true;
    case ACTION_LATER:
        travel(program, step);
        return true;
    case ACTION_MUCH_EARLIER:
        travel(program, -MINUTE);
        return true;
    case ACTION_MUCH_LATER:
        travel(program, MINUTE);
        return true;
    case ACTION_SPAN:
        program->options->span_s = next_span(program->options->span_s);
        return true;
    default:
        return false;
    }
}

/* The filter */

static void filter_as_typed(void *context, const char *text)
{
    struct program *program = context;
    char why[CONTROLLER_TEXT];

    filter_set(&program->filter, text, why, sizeof(why)); /* half a word may be wrong: as before */
}

static void filter_entered(void *context, const char *text)
{
    struct program *program = context;
    char why[CONTROLLER_TEXT];

    if (filter_set(&program->filter, text, why, sizeof(why)) != 0)
        controller_report(program->controller, true, "%s", why);
}

static void filter_given_up(void *context)
{
    struct program *program = context;

    program->filter = program->filter_before;
}

/* The filter's line is opened; what is typed is in force at once. */
static void ask_filter(struct program *program, const char *initial)
{
    struct dialog *dialog = controller_dialog(program->controller);

    program->filter_before = program->filter;
    controller_prompt(program->controller, " filter: ", initial, filter_entered, program);
    dialog->changed = filter_as_typed;
    dialog->gone = filter_given_up;
    dialog->history = &program->filters;
}

/* The word for the selected row: its key column, as the list declares it. */
static void filter_by_row(struct program *program)
{
    struct scene scene = program_scene(program);
    struct grid *grid = program_grid(program);
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];
    size_t row, key = 0;

    if (grid->list == NULL || !grid_selected(grid, &row)) {
        controller_report(program->controller, true, "select a row first: Up and Down do");
        return;
    }
    while (key < grid->list->column_count && !grid->list->columns[key].key)
        key++;
    if (key == grid->list->column_count) {
        controller_report(program->controller, true, "there is nothing in this list to filter by");
        return;
    }
    grid_fill(grid, &scene, row, cells);
    if (filter_toggle(&program->filter, column_name(&grid->list->columns[key], name),
                      cells[key].text) != 0)
        controller_report(program->controller, true, "the filter would get too long");
}

static bool act_on_lists(struct program *program, enum action action)
{
    struct grid *grid = program_grid(program);

    switch (action) {
    case ACTION_FILTER:
        ask_filter(program, program->filter.text);
        return true;
    case ACTION_FILTER_ROW:
        filter_by_row(program);
        return true;
    case ACTION_OPEN:
        if (grid->list != NULL && grid->shown > 0) {
            struct scene scene = program_scene(program);

            if (!grid->selecting)
                grid_key(grid, &scene, ACTION_DOWN);
            program->detail = !program->detail;
            program->detail_scroll = (struct scroll){0};
        }
        return true;
    default:
        return false;
    }
}

/* Leaves one thing at a time: the help, the detail, the filter, the selection. */
static void close_something(struct program *program)
{
    if (program->help)
        program->help = false;
    else if (controller_page(program->controller) != NULL)
        controller_close_page(program->controller);
    else if (program->detail)
        program->detail = false;
    else if (filter_active(&program->filter))
        program->filter = (struct filter){0};
    else
        grid_deselect(program_grid(program));
}

/* True when it was one of the sizes of the server. */
static bool act_on_sizes(struct program *program, enum action action)
{
    static const struct {
        enum action action;
        enum tunable tunable;
        int step;
    } turns[] = {
        {ACTION_THREADS_MORE, TUNABLE_THREADS, 1},
        {ACTION_THREADS_FEWER, TUNABLE_THREADS, -1},
        {ACTION_WORKERS_MORE, TUNABLE_WORKERS, 1},
        {ACTION_WORKERS_FEWER, TUNABLE_WORKERS, -1},
        {ACTION_OFFLOAD_MORE, TUNABLE_OFFLOAD_THREADS, 1},
        {ACTION_OFFLOAD_FEWER, TUNABLE_OFFLOAD_THREADS, -1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(turns); i++)
        if (turns[i].action == action) {
            controller_adjust(program->controller, turns[i].tunable, turns[i].step);
            return true;
        }
    return false;
}

/* What means the same everywhere. */
static void act(struct program *program, enum action action)
{
    if (act_on_time(program, action) || act_on_lists(program, action) ||
        act_on_sizes(program, action))
        return;
    switch (action) {
    case ACTION_VIEW_NEXT:
        program_show_view(program, (program->view + 1) % VIEW_COUNT);
        break;
    case ACTION_VIEW_PREVIOUS:
        program_show_view(program, (program->view + VIEW_COUNT - 1) % VIEW_COUNT);
        break;
    case ACTION_COMMAND:
        order_open(program);
        break;
    case ACTION_INSTANCES:
        program_turn_to(program, "");
        break;
    case ACTION_LAB:
        if (program->lab == NULL || !lab_go_on(program->lab))
            program_turn_to_lab(program, NULL);
        program->next_sample_ns = 0;
        break;
    case ACTION_LAB_PANEL:
        program->lab_whole = program->lab != NULL && !program->lab_whole;
        program->lab_scroll = (struct scroll){0};
        break;
    case ACTION_HELP:
        program->help = !program->help;
        break;
    case ACTION_CLOSE:
        close_something(program);
        break;
    case ACTION_REDRAW:
        screen_spoilt();
        break;
    case ACTION_QUIT:
        if (program->help || program->detail || controller_page(program->controller) != NULL)
            close_something(program);
        else
            program->ending = true;
        break;
    default:
        break;
    }
}

static bool is_page(enum action action)
{
    return action == ACTION_PAGE_UP || action == ACTION_PAGE_DOWN;
}

/* What is open first, then the view, then its list. */
static bool act_in_view(struct program *program, enum action action)
{
    struct scene scene = program_scene(program);
    const struct view *view = view_table[program->view];

    if (program->help)
        return scroll_key(&program->help_scroll, action);
    if (controller_page(program->controller) != NULL && action == ACTION_OPEN) {
        controller_close_page(program->controller);
        return true;
    }
    if (controller_page(program->controller) != NULL && scroll_key(&program->page_scroll, action))
        return true;
    if (program->lab_whole && is_page(action))
        return scroll_key(&program->lab_scroll, action);
    if (model_now(scene.model) == NULL)
        return false;
    if (program->detail && is_page(action))
        return scroll_key(&program->detail_scroll, action);
    if (view->key != NULL && view->key(program->view_state[program->view], &scene, action))
        return true;
    return grid_key(scene.grid, &scene, action);
}

void act_on_key(struct program *program, int code)
{
    enum action action = key_action(code);

    program->dirty = true;
    if (code == KEY_MOUSE) {
        pointer_act(program);
        return;
    }
    if (dialog_open(controller_dialog(program->controller))) {
        dialog_key(controller_dialog(program->controller), code);
        return;
    }
    if (action == ACTION_NONE)
        return;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (view_table[i]->action == action) {
            program_show_view(program, i);
            return;
        }
    if (!act_in_view(program, action))
        act(program, action);
}
