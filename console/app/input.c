/*
 * A key goes to the open dialog. Without a dialog its action goes to the open overlay, the view,
 * the view's list, and act_everywhere() below, in this order. Hold Shift to select text with
 * the mouse.
 */
#include "console/app/session.h"

#include "common/macros.h"
#include "console/views/subject.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE_S = 60, REPLAY_STEP_S = 5, WHEEL_LINES = 3, SPAN_MOVES = 15 };

/* Actions */

/* Moves by a minute, or by a fifteenth of a longer span. */
static void move_far(struct session *session, int direction)
{
    int seconds = session->options->span_s / SPAN_MOVES;

    if (watch_replays(session->watch) || seconds < MINUTE_S)
        seconds = MINUTE_S;
    timeline_move(session, direction * seconds);
}

/* Goes to the next mark, or with a negative DIRECTION to the previous one. */
static void move_to_mark(struct session *session, int direction)
{
    struct scene scene = session_scene(session);
    uint64_t from_ns = session->timeline.mark_ns != 0 ? session->timeline.mark_ns : scene.wall_ns;
    const struct mark *mark = marks_next(scene.marks, from_ns, direction < 0);

    if (mark != NULL)
        timeline_show_mark(session, mark->time_ns);
    else if (direction < 0)
        controller_report(session->controller, false, "no earlier mark");
    else
        controller_report(session->controller, false, "no later mark");
}

/*
 * Toggles the words for the key columns of ROW in FILTER. Returns their number, or -1: the filter
 * would be too long.
 */
static int toggle_keys(struct session *session, size_t row, struct filter *filter)
{
    struct scene scene = session_scene(session);
    const struct grid *grid = session_grid(session);
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];
    int words = 0;

    grid_fill(grid, &scene, row, cells);
    for (size_t i = 0; i < grid->list->column_count; i++) {
        const char *text = cells[i].text + strspn(cells[i].text, " ");

        if (!grid->list->columns[i].key || cells[i].no_key || text[0] == '\0')
            continue;
        words++;
        if (filter_toggle(filter, column_name(&grid->list->columns[i], name), text,
                          !cells[i].cut) != 0)
            return -1;
    }
    return words;
}

/* Filters by the key columns of the selected row, or removes that filter. */
static void filter_by_row(struct session *session)
{
    struct grid *grid = session_grid(session);
    struct filter filter = session->filter;
    size_t row;
    int words;

    if (grid->list == NULL || !grid_subject(grid, &row)) {
        controller_report(session->controller, true, "select a row first (Up, Down)");
        return;
    }
    words = toggle_keys(session, row, &filter);
    if (words < 0) {
        controller_report(session->controller, true, "the filter is too long");
        return;
    }
    session_set_filter(session, &filter);
    if (words == 0)
        controller_report(session->controller, true, "this row has nothing to filter by");
}

/* Writes the details of ROW if they are open, else its path or the first of its keys. */
static void write_copied(struct session *session, size_t row, FILE *out)
{
    struct scene scene = session_scene(session);
    const struct grid *grid = session_grid(session);
    const struct list *list = grid->list;
    struct cell cells[TABLE_COLUMNS_MAX];
    const char *found = NULL;
    char name[TABLE_NAME_BYTES];

    if (session->overlays.detail && list->detail != NULL) {
        list->detail(grid->state, &scene, row, out);
        return;
    }
    grid_fill(grid, &scene, row, cells);
    for (size_t i = 0; i < list->column_count; i++) {
        const char *text = cells[i].text + strspn(cells[i].text, " ");

        if (session->overlays.detail)
            fprintf(out, "%s\t%s\n", list->columns[i].title, text);
        else if (list->columns[i].key && text[0] != '\0' &&
                 (found == NULL || strcmp(column_name(&list->columns[i], name), "path") == 0))
            found = text;
    }
    if (!session->overlays.detail)
        fputs(found != NULL ? found : cells[0].text, out);
}

static void copy_row(struct session *session)
{
    const struct grid *grid = session_grid(session);
    char *text = NULL;
    size_t row, length;
    FILE *out;

    if (grid->list == NULL || !grid_subject(grid, &row)) {
        controller_report(session->controller, true, "select a row first (Up, Down)");
        return;
    }
    out = open_memstream(&text, &length);
    if (out == NULL)
        return;
    write_copied(session, row, out);
    if (fclose(out) == 0) {
        screen_copy(text);
        controller_report(session->controller, false, "copied, if the terminal allows it: %.*s",
                          (int)strcspn(text, "\n"), text);
    }
    free(text);
}

/* Shows the requests of the selected row. Returns false if its key does not select requests. */
static bool open_subject(struct session *session)
{
    struct filter filter = {0};
    char why[CONTROLLER_TEXT];
    size_t row;

    return grid_subject(session_grid(session), &row) && toggle_keys(session, row, &filter) > 0 &&
           session_show_subject(session, &filter, why, sizeof(why)) == 0;
}

static void open_actions(struct session *session)
{
    struct scene scene = session_scene(session);

    if (model_now(scene.model) == NULL)
        return; /* no server, no view */
    session->overlays.actions = true;
    session->overlays.action_selected = 0;
    session->overlays.actions_scroll = (struct scroll){0};
}

/*
 * Enter shows the details of a row, then the requests of its subject; or first these and then the
 * details, if the list says so. Enter again closes the details.
 */
static void open_row(struct session *session)
{
    struct scene scene = session_scene(session);
    struct grid *grid = session_grid(session);
    struct overlays *overlays = &session->overlays;
    size_t row;

    if (grid->list == NULL ||
        (overlays->subject ? !overlays->detail && !grid_selected(grid, &row) : grid->shown == 0)) {
        open_actions(session);
        return;
    }
    if (!grid->selecting && !overlays->subject)
        grid_key(grid, &scene, ACTION_DOWN);
    if (!overlays->subject && grid->list->opens != overlays->detail && open_subject(session)) {
        overlays->detail = false;
        return;
    }
    overlays->detail = !overlays->detail;
    overlays->detail_scroll = (struct scroll){0};
}

/* To the next view that has a tab. */
static void move_view(struct session *session, int step)
{
    struct scene scene = session_scene(session);
    size_t view = session->view;

    do
        view = (view + VIEW_COUNT + (size_t)step) % VIEW_COUNT;
    while (!frame_has_tab(&scene, view, session->view));
    session_show_view(session, view);
}

static void next_span(struct session *session)
{
    size_t i = 0;

    while (i < OPTIONS_SPANS && options_spans_s[i] != session->options->span_s)
        i++;
    session->options->span_s = options_spans_s[(i + 1) % OPTIONS_SPANS];
}

/* Closes the topmost of: overlay, filter, selection. */
static void close_topmost(struct session *session)
{
    if (session_close_overlay(session))
        return;
    if (filter_active(&session->filter))
        session_set_filter(session, &(struct filter){0});
    else
        grid_deselect(session_grid(session));
}

/* The moment shown, and how graphs show the time. */
static void act_on_time(struct session *session, enum action action)
{
    /* One step is longer in a recording. */
    int step = watch_replays(session->watch) ? REPLAY_STEP_S : 1;

    switch (action) {
    case ACTION_FREEZE:
        timeline_toggle_freeze(session);
        break;
    case ACTION_EARLIER:
        timeline_move(session, -step);
        break;
    case ACTION_LATER:
        timeline_move(session, step);
        break;
    case ACTION_MUCH_EARLIER:
        move_far(session, -1);
        break;
    case ACTION_MUCH_LATER:
        move_far(session, 1);
        break;
    case ACTION_NEXT:
    case ACTION_MARK_NEXT:
        move_to_mark(session, 1);
        break;
    case ACTION_MARK_PREVIOUS:
        move_to_mark(session, -1);
        break;
    case ACTION_SPAN:
        next_span(session);
        break;
    case ACTION_SCALE:
        session->options->log_scale = !session->options->log_scale;
        break;
    default:
        break;
    }
}

/* The actions that work in every view. */
static void act_everywhere(struct session *session, enum action action)
{
    switch (action) {
    case ACTION_FILTER:
        prompt_open_filter(session);
        break;
    case ACTION_FILTER_ROW:
        filter_by_row(session);
        break;
    case ACTION_COPY:
        copy_row(session);
        break;
    case ACTION_OPEN:
        open_row(session);
        break;
    case ACTION_THREADS_MORE:
    case ACTION_THREADS_FEWER:
    case ACTION_WORKERS_MORE:
    case ACTION_WORKERS_FEWER:
    case ACTION_OFFLOAD_MORE:
    case ACTION_OFFLOAD_FEWER:
        controller_adjust(session->controller, action);
        break;
    case ACTION_LOCK:
        controller_toggle_lock(session->controller);
        break;
    case ACTION_VIEW_NEXT:
        move_view(session, 1);
        break;
    case ACTION_VIEW_PREVIOUS:
        move_view(session, -1);
        break;
    case ACTION_ALERTS:
        if (alerts_acknowledge(watch_alerts(session->watch)) == 0)
            session_show_alerts(session);
        break;
    case ACTION_COMMAND:
        prompt_open_command(session);
        break;
    case ACTION_INSTANCES:
        session_switch_instance(session, "");
        break;
    case ACTION_LAB:
        if (session->lab == NULL || !lab_continue(session->lab))
            session_switch_scenario(session, NULL);
        session->timeline.next_sample_ns = 0;
        break;
    case ACTION_LAB_PANEL:
        session->overlays.lab = session->lab != NULL && !session->overlays.lab;
        session->overlays.lab_scroll = (struct scroll){0};
        break;
    case ACTION_HELP:
        session->overlays.help = !session->overlays.help;
        session->overlays.sought[0] = '\0';
        break;
    case ACTION_MENU:
        open_actions(session);
        break;
    case ACTION_CLOSE:
        close_topmost(session);
        break;
    case ACTION_REDRAW:
        screen_invalidate();
        break;
    case ACTION_QUIT:
        if (!session_close_overlay(session))
            session_end(session);
        break;
    default:
        act_on_time(session, action);
        break;
    }
}

/* Keys */

/* Scrolls and searches, as less does. */
static bool act_in_help(struct session *session, enum action action)
{
    struct overlays *overlays = &session->overlays;

    switch (action) {
    case ACTION_FILTER:
        prompt_open_search(session);
        return true;
    case ACTION_NEXT:
    case ACTION_MARK_PREVIOUS:
        frame_find_in_help(session, action == ACTION_NEXT ? 1 : -1);
        return true;
    default:
        return scroll_key(&overlays->help_scroll, action);
    }
}

/*
 * Offers the action to the overlay, the view and its list. Returns false if none of them uses it.
 */
static bool act_in_view(struct session *session, enum action action)
{
    struct scene scene = session_scene(session);
    const struct view *view = session_view(session);
    struct overlays *overlays = &session->overlays;
    bool page = action == ACTION_PAGE_UP || action == ACTION_PAGE_DOWN;

    if (overlays->help)
        return act_in_help(session, action);
    if (controller_page(session->controller) != NULL) {
        if (action == ACTION_OPEN) {
            controller_close_page(session->controller);
            return true;
        }
        if (scroll_key(&overlays->page_scroll, action))
            return true;
    }
    if (overlays->lab && page)
        return scroll_key(&overlays->lab_scroll, action);
    if (model_now(scene.model) == NULL)
        return false;
    if (overlays->detail && page)
        return scroll_key(&overlays->detail_scroll, action);
    if (overlays->subject && !overlays->detail)
        return scroll_key(&overlays->subject_scroll, action) ||
               subject_key(&scene, &session->subject, action);
    if (view->key != NULL && view->key(session->views[session->view].state, &scene, action))
        return true;
    return grid_key(scene.grid, &scene, action);
}

static void act_by_key(struct session *session, enum action action);

/* Does what item NUMBER of the menu says. */
static void act_by_item(struct session *session, size_t number)
{
    struct help_item items[ACTION_COUNT];
    size_t count = frame_actions(session, items);

    session->overlays.actions = false;
    if (number < count)
        act_by_key(session, items[number].action);
}

/* Moves in the menu; any other key closes it, and true if that is all. */
static bool act_in_actions(struct session *session, enum action action)
{
    struct help_item items[ACTION_COUNT];
    struct overlays *overlays = &session->overlays;
    struct scroll selected = {.top = (int)overlays->action_selected,
                              .page = overlays->actions_scroll.page};

    if (scroll_key(&selected, action)) {
        scroll_fit(&selected, (int)frame_actions(session, items), 1);
        overlays->action_selected = (size_t)selected.top;
        return true;
    }
    if (action == ACTION_OPEN) {
        act_by_item(session, overlays->action_selected);
        return true;
    }
    overlays->actions = false;
    return action == ACTION_MENU || action == ACTION_CLOSE || action == ACTION_QUIT;
}

static void act_by_key(struct session *session, enum action action)
{
    if (session->overlays.actions && act_in_actions(session, action))
        return;
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (view_table[i]->action == action) {
            session_show_view(session, i);
            return;
        }
    if (!act_in_view(session, action))
        act_everywhere(session, action);
}

/* Mouse */

/* To the second of a graph, BACK seconds before the time shown. */
static void move_to_second(struct session *session, long back)
{
    if (back > 0)
        timeline_move(session, -back);
    else if (!session->timeline.frozen)
        timeline_toggle_freeze(session);
}

static void click_screen(struct session *session, int y, int x)
{
    struct scene scene = session_scene(session);
    const struct view *view = session_view(session);
    int tab = frame_view_at(&session->screen, y, x);
    enum action action = frame_action_at(&session->screen, y, x);
    bool again;

    if (session->overlays.actions && frame_action_item_at(y, x) >= 0)
        act_by_item(session, (size_t)frame_action_item_at(y, x));
    else if (action != ACTION_NONE)
        act_by_key(session, action);
    else if (tab >= 0)
        session_show_view(session, (size_t)tab);
    else if (session->overlays.help || model_now(scene.model) == NULL)
        session->overlays.help = false;
    else if (session_close_overlay(session))
        return;
    else if (graph_second_at(y, x) >= 0)
        move_to_second(session, graph_second_at(y, x));
    else if (view->click != NULL && view->click(session->views[session->view].state, &scene, y, x))
        return;
    else if (grid_click(scene.grid, &scene, y, x, &again) && again)
        open_row(session);
}

/* Scrolls the overlay, the view or its list. */
static void wheel(struct session *session, enum action action)
{
    struct scene scene = session_scene(session);
    const struct view *view = session_view(session);
    struct scroll *overlay = session_overlay_scroll(session);

    for (int i = 0; i < WHEEL_LINES; i++) {
        if (session->overlays.actions)
            act_in_actions(session, action);
        else if (overlay != NULL)
            scroll_key(overlay, action);
        else if (model_now(scene.model) != NULL &&
                 (view->key == NULL ||
                  !view->key(session->views[session->view].state, &scene, action)))
            grid_key(scene.grid, &scene, action);
    }
}

static void handle_pointer(struct session *session)
{
    struct dialog *dialog = controller_dialog(session->controller);
    struct pointer_event event = screen_pointer();

    if (dialog_open(dialog)) {
        if (event.what == POINTER_CLICK)
            dialog_click(dialog, &session->screen.foot, event.y, event.x);
    } else if (event.what == POINTER_CLICK) {
        click_screen(session, event.y, event.x);
    } else {
        wheel(session, event.what == POINTER_WHEEL_UP ? ACTION_UP : ACTION_DOWN);
    }
}

void input_handle_key(struct session *session, int code)
{
    struct dialog *dialog = controller_dialog(session->controller);
    enum action action = key_action(code);

    session->dirty = true;
    if (session->screen.tiny && dialog->kind == DIALOG_CONFIRM && !dialog_is_cancel(code))
        return; /* the screen is too small to show the question */
    if ((code & KEY_PASTED) != 0 && dialog->kind == DIALOG_PROMPT)
        dialog_paste(dialog, code & ~KEY_PASTED);
    else if ((code & KEY_PASTED) != 0) /* its letters would be commands */
        controller_report(session->controller, true,
                          "pasted text is ignored outside a text field (: or /)");
    else if (code == KEY_MOUSE)
        handle_pointer(session);
    else if (dialog_open(dialog))
        dialog_key(dialog, code);
    else if (action != ACTION_NONE)
        act_by_key(session, action);
}
