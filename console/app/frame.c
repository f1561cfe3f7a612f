#include "console/app/session.h"

#include "common/clock.h"
#include "common/instance.h"
#include "console/lab/player.h"
#include "console/scene/help.h"
#include "console/scene/scene.h"
#include "console/ui/text.h"
#include "console/views/subject.h"
#include "console/views/views.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_COLUMNS = 512,
    LEAST_TIMELINE = 8,
    MESSAGE_LINES = 8,
    COUNTS_WIDTH = 43,   /* for the numbers of threads and workers */
    IDENTITY_WIDTH = 22, /* for uptime and pid */
    HEAD_GAP = 2,
};

/* The bar with the tabs of the views */

/*
 * The keys of help and quit, in the bar if it has room for them; else the foot shows that of the
 * help.
 */
#define TABS_HELP "? help"
#define TABS_KEYS TABS_HELP "  q quit"

/*
 * A tab has its key and its name, with two blanks or one. Where that is too wide, the last tabs
 * have short names, and the last of these only their keys; the one shown keeps its name.
 */
struct tab_plan {
    bool loose;
    size_t full, named; /* the first views that have their name; that have any */
};

/* As last drawn. */
static struct {
    int from[VIEW_COUNT], to[VIEW_COUNT]; /* columns; the same: no tab */
    bool help_and_quit;                   /* the bar has their keys */
} drawn_tabs;

bool frame_has_tab(const struct scene *scene, size_t view, size_t shown)
{
    const struct view *this = view_table[view];

    return view == shown ||
           (view_has_data(this, scene) && (this->hidden == NULL || !this->hidden(scene)));
}

static const char *tab_key(size_t view)
{
    return key_table[view_table[view]->action].shown;
}

static const char *tab_name(const struct tab_plan *plan, size_t view, size_t shown)
{
    const struct view *this = view_table[view];

    if (view == shown || view < plan->full)
        return this->name;
    return view >= plan->named ? "" : this->short_name != NULL ? this->short_name : this->name;
}

enum { BADGE_BYTES = 24 };

/* Writes "(2)", or "". Returns TEXT. */
static const char *tab_badge(const struct scene *scene, size_t view, char *text)
{
    size_t count = view_table[view]->badge != NULL ? view_table[view]->badge(scene) : 0;

    text[0] = '\0';
    if (count > 0)
        snprintf(text, BADGE_BYTES, "(%zu)", count);
    return text;
}

static int tab_width(const struct scene *scene, const struct tab_plan *plan, size_t view,
                     size_t shown)
{
    int width = (int)strlen(tab_key(view)) + (plan->loose ? 2 : 1);
    int name = (int)strlen(tab_name(plan, view, shown));
    char badge[BADGE_BYTES];

    if (!frame_has_tab(scene, view, shown))
        return 0;
    return width + (int)strlen(tab_badge(scene, view, badge)) + (name > 0 ? 1 + name : 0);
}

static int all_width(const struct scene *scene, const struct tab_plan *plan, size_t shown)
{
    int width = plan->loose ? 0 : 1;

    for (size_t i = 0; i < VIEW_COUNT; i++)
        width += tab_width(scene, plan, i, shown);
    return width;
}

static struct tab_plan plan_tabs(const struct scene *scene, size_t shown, int width)
{
    struct tab_plan plan = {true, VIEW_COUNT, VIEW_COUNT};

    plan.loose = all_width(scene, &plan, shown) <= width;
    while (plan.full > 0 && all_width(scene, &plan, shown) > width)
        plan.full--;
    while (plan.named > 0 && all_width(scene, &plan, shown) > width)
        plan.named--;
    return plan;
}

static void draw_tabs(const struct canvas *bar, const struct scene *scene, size_t shown,
                      bool covered)
{
    static const char program[] = "wsconsole";
    int after = 1 + (int)strlen(program) + 2, x;
    struct tab_plan plan = plan_tabs(scene, shown, bar->width);
    int width = all_width(scene, &plan, shown);

    x = plan.loose && after + width <= bar->width ? after : 0;
    drawn_tabs.help_and_quit = plan.loose && x + width + (int)strlen(TABS_KEYS) + 1 <= bar->width;
    canvas_repeat(bar, 0, 0, bar->width, TONE_BAR, L' ');
    if (x > 0)
        canvas_text(bar, 0, 1, TONE_BAR, program);
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        bool current = i == shown && !covered;
        const char *name = tab_name(&plan, i, shown);
        enum tone tone = current ? TONE_TAB : TONE_BAR;
        char badge[BADGE_BYTES];
        int end;

        drawn_tabs.from[i] = x;
        drawn_tabs.to[i] = x += tab_width(scene, &plan, i, shown);
        if (drawn_tabs.from[i] == x)
            continue;
        end = canvas_print(bar, 0, drawn_tabs.from[i] + 1, tone, "%s%s%s", tab_key(i),
                           name[0] != '\0' ? " " : "", name);
        end = canvas_text(bar, 0, end, current ? tone : TONE_BAR_KEY, tab_badge(scene, i, badge));
        if (current) {
            canvas_text(bar, 0, drawn_tabs.from[i], tone, "[");
            canvas_text(bar, 0, end, tone, "]");
        }
    }
    if (drawn_tabs.help_and_quit)
        canvas_right(bar, 0, bar->width - 1, TONE_BAR, TABS_KEYS);
}

/* What one drawing shows. */
struct frame {
    const struct session *session;
    struct overlays *overlays; /* drawing clamps their scroll positions */
    struct scene scene;
    const struct snapshot *now; /* NULL: no daemon */
    const struct source *source;
    const struct replay *replay; /* NULL: the session is live */
};

/* The view on the screen: a subject covers the one that its tab names. */
static const struct view *shown_view(const struct session *session)
{
    return session->overlays.subject ? &subject_view : session_view(session);
}

enum action frame_action_at(const struct screen *screen, int y, int x)
{
    const struct canvas *foot = &screen->foot;
    int help = (int)strlen(TABS_HELP), keys = (int)strlen(TABS_KEYS), from;

    if (screen->tiny)
        return ACTION_NONE;
    if (!drawn_tabs.help_and_quit)
        return y != foot->y                  ? ACTION_NONE
               : x >= foot->width - 1 - help ? ACTION_HELP
                                             : help_brief_at(x);
    from = screen->bar.width - 1 - keys;
    if (y == screen->bar.y && x >= from)
        return x < from + help ? ACTION_HELP : x >= from + help + 2 ? ACTION_QUIT : ACTION_NONE;
    return y == foot->y ? help_brief_at(x) : ACTION_NONE;
}

int frame_view_at(const struct screen *screen, int y, int x)
{
    for (size_t i = 0; i < VIEW_COUNT && !screen->tiny && y == screen->bar.y; i++)
        if (x >= drawn_tabs.from[i] && x < drawn_tabs.to[i])
            return (int)i;
    return -1;
}

/* The line about the server: its name and health, then its identity; at the right its sizes */

/* The key and the name of the view that shows more about ALERT; "": none. */
static void write_alert_key(const struct alert *alert, char *text, size_t size)
{
    const char *view = alert->health != NULL ? alert->health->view : "events";

    text[0] = '\0';
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (strcmp(view_table[i]->name, view) == 0)
            snprintf(text, size, ": %s %s", tab_key(i), view);
}

/* Draws the worst alert and the number of the others from column X on. Returns the column after. */
static int draw_alerts(const struct frame *frame, const struct canvas *head, int x)
{
    size_t more;
    const struct alert *alert = alerts_worst(frame->scene.alerts, &more);
    const struct alert_facts facts = {.model = frame->scene.model,
                                      .processes = frame->scene.processes};
    char text[ALERT_WORDS_BYTES], key[40];
    enum tone tone;

    if (alert == NULL)
        return canvas_text(head, 0, x, TONE_NORMAL, "healthy");
    tone = alert->acknowledged                                                ? TONE_NORMAL
           : alert->health == NULL || alert->health->severity == SEVERITY_BAD ? TONE_BAD
                                                                              : TONE_WARN;
    alert_describe(alert, &facts, frame->scene.marks, text, sizeof(text));
    text_micro(text, sizeof(text));
    write_alert_key(alert, key, sizeof(key));
    x = canvas_text(head, 0, x, tone, text);
    x = canvas_item(head, 0, x, TONE_NORMAL, "%s", key);
    if (more > 0)
        x = canvas_item(head, 0, x, TONE_NORMAL, "  +%zu", more);
    return alert->acknowledged ? x : canvas_item(head, 0, x, TONE_DIM, "  a acknowledges");
}

/* Draws what is known of the server instead of its health, if it does not answer. */
static int draw_health(const struct frame *frame, const struct canvas *head, int x)
{
    switch (source_state(frame->source)) {
    case SOURCE_ENDED:
        return canvas_print(head, 0, x, TONE_BAD, "%s; this is its last sample",
                            source_why(frame->source));
    case SOURCE_SILENT:
        return canvas_text(head, 0, x, TONE_BAD, source_why(frame->source));
    default:
        return frame->scene.moment == MOMENT_PAST ? x - HEAD_GAP : draw_alerts(frame, head, x);
    }
}

static void draw_head(const struct frame *frame, const struct canvas *head)
{
    const struct snapshot *now = frame->now;
    struct canvas half = canvas_part(head, 0, 0, 1, head->width / 2);
    char line[512];
    int x = 0, end, width;

    if (source_state(frame->source) != SOURCE_ENDED) /* its reason has the name */
        x = canvas_text(&half, 0, 0, TONE_VALUE, now->server.name);
    x = draw_health(frame, head, x > 0 ? (x < half.width ? x : half.width) + HEAD_GAP : 0) +
        HEAD_GAP;
    width = head->width - x - IDENTITY_WIDTH;
    width = width > COUNTS_WIDTH ? width : COUNTS_WIDTH;
    summary_processes(now, line, sizeof(line), width < head->width - x ? width : head->width - x);
    end = canvas_right(head, 0, head->width, now->stopping ? TONE_WARN : TONE_NORMAL, line);
    summary_identity(now, line, sizeof(line), end - HEAD_GAP - x);
    canvas_text(head, 0, x, TONE_DIM, line);
}

/* The line above the foot: the time shown (unless live), or the filter */

/*
 * Draws the seconds of the history, or for an older moment its steps, as a graph of one line, with
 * a mark at the time shown.
 */
static void draw_timeline(const struct frame *frame, const struct canvas *line, int x)
{
    static double values[HISTORY_VALUES];
    const struct scene *scene = &frame->scene;
    size_t length = history_length(scene->history), back = frame->session->timeline.back, peak;
    wchar_t cells[LINE_COLUMNS];
    int width = line->width - x - 1, column;

    width = width < LINE_COLUMNS ? width : LINE_COLUMNS;
    if (width < LEAST_TIMELINE || length == 0)
        return;
    if (back < length) {
        history_whole(scene->history, SERIES_REQUESTS, values, length);
    } else {
        length = history_all_steps(scene->history, SERIES_REQUESTS, values);
        back /= HISTORY_STEP_S;
    }
    peak = graph_peak(values, length);
    graph_draw(scene->style, values, length, peak < length ? values[peak] : 1, 1, width, cells);
    canvas_cells(line, 0, x, width, TONE_BAR, cells);
    column = graph_column_of(scene->style, back < length ? length - 1 - back : 0, length, width);
    canvas_cells(line, 0, x + column, 1, TONE_SELECTED, cells + column);
}

/* The mark that was moved to, or that of the second shown; NULL: none. */
static const struct mark *mark_shown(const struct frame *frame)
{
    const struct marks *marks = frame->scene.marks;
    uint64_t to_ns = frame->session->timeline.mark_ns;

    if (to_ns != 0)
        return marks_between(marks, marks->count, to_ns - 1, to_ns);
    to_ns = frame->scene.wall_ns;
    return marks_between(marks, marks->count, to_ns > NS_PER_S ? to_ns - NS_PER_S : 0, to_ns);
}

/* Draws "T serving threads ... changed"; returns false if the second shown has no mark. */
static bool draw_mark(const struct frame *frame, const struct canvas *line, int x)
{
    const struct mark *mark = mark_shown(frame);
    struct canvas rest = canvas_part(line, 0, x, 1, line->width - x - 1);

    if (mark == NULL || rest.width < LEAST_TIMELINE)
        return false;
    canvas_print(&rest, 0, 0, TONE_BAR_KEY, "%c", mark_table[mark->kind].letter);
    canvas_text(&rest, 0, 2, TONE_BAR, mark->text);
    return true;
}

/* Draws the position in the recording as a progress bar. */
static void draw_replay_progress(const struct frame *frame, const struct canvas *line, int x)
{
    uint64_t length = replay_length_ns(frame->replay);
    int width = line->width - x - 1;

    if (width < LEAST_TIMELINE || length == 0)
        return;
    canvas_repeat(line, 0, x, width, TONE_BAR, frame->scene.ascii ? L'-' : L'─');
    canvas_repeat(
        line, 0,
        x + (int)((double)(width - 1) * (double)replay_at_ns(frame->replay) / (double)length), 1,
        TONE_BAR_KEY, frame->scene.ascii ? L'#' : L'●');
}

static void draw_replay(const struct frame *frame, const struct canvas *line)
{
    char clock[TEXT_SHORT], at[TEXT_SHORT], length[TEXT_SHORT];
    double speed = frame->session->options->replay_speed;
    int x = canvas_print(line, 0, 1, TONE_BAR_KEY, "%s %.8s",
                         frame->session->timeline.frozen ? "REPLAY paused" : "REPLAY",
                         text_clock(clock, frame->scene.wall_ns));

    x = canvas_print(line, 0, x, TONE_BAR, "  %s of %s",
                     text_since(at, replay_at_ns(frame->replay) / NS_PER_S * NS_PER_S),
                     text_since(length, replay_length_ns(frame->replay) / NS_PER_S * NS_PER_S));
    if (speed < 1 || speed > 1)
        x = canvas_print(line, 0, x, TONE_BAR, "  x%g", speed);
    if (replay_error(frame->replay) != NULL)
        canvas_text(line, 0, x + 2, TONE_BAD, replay_error(frame->replay));
    else if (frame->session->timeline.mark_ns == 0 || !draw_mark(frame, line, x + 2))
        draw_replay_progress(frame, line, x + 2);
}

static void draw_time(const struct frame *frame, const struct canvas *line)
{
    const struct scene *scene = &frame->scene;
    char clock[TEXT_SHORT], ago[TEXT_SHORT];
    int x;

    canvas_repeat(line, 0, 0, line->width, TONE_BAR, L' ');
    if (scene->moment == MOMENT_REPLAY) {
        draw_replay(frame, line);
        return;
    }
    text_clock(clock, scene->wall_ns);
    if (scene->moment == MOMENT_PAST)
        x = canvas_print(line, 0, 1, TONE_BAR_KEY, "%.8s  %s ago", clock,
                         text_since(ago, frame->session->timeline.back * NS_PER_S));
    else
        x = canvas_print(line, 0, 1, TONE_BAR_KEY, "FROZEN at %.8s", clock);
    if (!draw_mark(frame, line, x + 2))
        draw_timeline(frame, line, x + 2);
}

/* The bottom line: a message, else the keys */

/* Draws a message; one that is wider than the foot starts in the lines above it. */
static void draw_message(const struct canvas *foot, bool bad, const char *message)
{
    char text[LINE_COLUMNS];
    const char *pieces[MESSAGE_LINES], *rest = text;
    size_t lengths[MESSAGE_LINES];
    int count = 0;

    snprintf(text, sizeof(text), "%s%s", bad ? "not done: " : "", message);
    for (; *rest != '\0' && count < MESSAGE_LINES; count++) {
        pieces[count] = rest;
        lengths[count] = text_piece(rest, foot->width - 2);
        rest += lengths[count];
        rest += strspn(rest, " ");
    }
    for (int i = 0; i < count; i++) {
        struct canvas line = {
            .y = foot->y - (count - 1 - i), .x = foot->x, .height = 1, .width = foot->width};

        canvas_repeat(&line, 0, 0, line.width, TONE_BAR, L' ');
        canvas_print(&line, 0, 1, bad ? TONE_BAD : TONE_BAR_KEY, "%.*s", (int)lengths[i],
                     pieces[i]);
    }
}

static bool drawn_empty; /* the view had no data when it was last drawn */

/* Each key does something else live, in the past and in a recording, or nothing. */
static struct help_context help_context_of(const struct session *session, const struct view *view,
                                           const struct scene *scene)
{
    const struct grid *grid = scene->grid;
    bool frozen = session->timeline.frozen, replay = watch_replays(session->watch);
    bool attached = model_now(scene->model) != NULL;
    bool list = grid->list != NULL && grid->rows.height > 0;
    uint64_t mark_ns = session->timeline.mark_ns != 0 ? session->timeline.mark_ns : scene->wall_ns;
    size_t row;

    return (struct help_context){
        .changes = controller_restriction(session->controller) == NULL && !replay &&
                   controller_offers_commands(session->controller),
        .server = attached && view->server_keys && controller_offers_threads(session->controller),
        .empty = drawn_empty,
        .list = list,
        .rows = list && grid->shown > 0,
        .selecting = grid->list != NULL && grid_selected(grid, &row),
        .span = attached && (session->overlays.subject || session_view(session)->has_span),
        .moment = attached,
        .later = replay || session->timeline.back > 0,
        .mark_later = marks_next(scene->marks, mark_ns, false) != NULL,
        .mark_earlier = marks_next(scene->marks, mark_ns, true) != NULL,
        .freeze = !replay  ? (frozen ? "resume" : "freeze")
                  : frozen ? "play"
                           : "pause",
        .earlier = replay   ? "5 s back"
                   : frozen ? "1 s back"
                            : "past",
    };
}

/* The hints of the view on the screen at present; NULL: none. */
static const struct view_hint *hints_of(const struct session *session, const struct scene *scene)
{
    const struct view *view = shown_view(session);

    if (model_now(scene->model) == NULL || !view_has_data(view, scene))
        return NULL;
    if (session->overlays.subject)
        return subject_hints(&session->subject, scene);
    return view->hints_now != NULL ? view->hints_now(session->views[session->view].state, scene)
                                   : view->hints;
}

bool frame_find_in_help(struct session *session, int direction)
{
    struct scene scene = session_scene(session);

    return help_find(&session->overlays.help_scroll, session->screen.body.width,
                     shown_view(session), model_now(scene.model), session->overlays.sought,
                     direction);
}

size_t frame_actions(const struct session *session, struct help_item *items)
{
    struct scene scene = session_scene(session);
    const struct help_context context = help_context_of(session, shown_view(session), &scene);

    return help_items(hints_of(session, &scene), &context, items);
}

/* Whether the help or a popup covers the view. */
static bool text_is_open(const struct frame *frame)
{
    const struct overlays *overlays = frame->overlays;

    return overlays->help || overlays->detail || overlays->actions ||
           controller_page(frame->session->controller) != NULL;
}

static void draw_hints(const struct frame *frame, const struct canvas *foot, int end)
{
    const struct session *session = frame->session;
    const struct help_context context =
        help_context_of(session, shown_view(session), &frame->scene);

    if (text_is_open(frame))
        help_draw_brief_text(foot, 1, end, !frame->overlays->detail);
    else
        help_draw_brief(foot, 1, end, hints_of(session, &frame->scene), &context);
}

static void draw_foot(const struct frame *frame, const struct canvas *foot)
{
    const struct controller *controller = frame->session->controller;
    const char *restriction = controller_restriction(controller), *message;
    uint64_t recorded = watch_recorded(frame->session->watch);
    char text[CONTROLLER_TEXT], bytes[TEXT_SHORT];
    int end = foot->width - 1;
    struct canvas free_part;
    bool bad;

    canvas_repeat(foot, 0, 0, foot->width, TONE_BAR, L' ');
    if (!drawn_tabs.help_and_quit)
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, TABS_HELP) - 2;
    if (restriction != NULL)
        end = canvas_right(foot, 0, end, TONE_BAR, restriction) - 2;
    if (recorded > 0) {
        snprintf(text, sizeof(text), "REC %s", text_bytes(bytes, (double)recorded));
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, text) - 2;
    }
    if (controller_calls_waiting(controller) > 0)
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, "waiting for the daemon") - 2;
    else if (frame->now != NULL && !text_is_open(frame) && !frame->overlays->subject &&
             grid_summary(frame->scene.grid, text, sizeof(text))[0] != '\0')
        end = canvas_right(foot, 0, end, TONE_BAR, text) - 2;
    message = controller_message(controller, &bad);
    free_part = canvas_part(foot, 0, 0, 1, end);
    if (controller_pending(controller, text, sizeof(text)))
        canvas_text(&free_part, 0, 1, TONE_BAR_KEY, text);
    else if (message != NULL)
        draw_message(foot, bad, message);
    else if (source_state(frame->source) == SOURCE_ENDED)
        canvas_text(&free_part, 0, 1, TONE_BAR_KEY, "attaches when it runs again");
    else
        draw_hints(frame, foot, end);
}

/* A popup over the view: the details of the selected row, or a reply of the daemon */

enum {
    TEXT_BYTES = 16384,
    LINES_MOST = 200,
    WIDEST = 110,
    LABEL_MOST = 24,
    FRAME = 2, /* lines and columns of the border */
};

struct lines {
    char text[TEXT_BYTES];
    char *line[LINES_MOST];
    int count;
    int label; /* columns of the widest label */
};

static void write_row(struct lines *lines, const struct scene *scene)
{
    const struct grid *grid = scene->grid;
    FILE *out = fmemopen(lines->text, sizeof(lines->text) - 1, "w");
    struct cell cells[TABLE_COLUMNS_MAX];
    size_t row;

    if (out == NULL)
        return;
    if (grid == NULL || !grid_selected(grid, &row)) {
        fprintf(out, "It no longer exists.\n");
    } else if (grid->list->detail != NULL) {
        grid->list->detail(grid->state, scene, row, out);
    } else {
        grid_fill(grid, scene, row, cells);
        for (size_t i = 0; i < grid->list->column_count; i++)
            fprintf(out, "%s\t%s\n", grid->list->columns[i].title, cells[i].text);
    }
    fclose(out);
}

/* Splits the text into lines and finds the widest label (the text before a tab). */
static void split_lines(struct lines *lines)
{
    char *rest = NULL;

    for (char *line = strtok_r(lines->text, "\n", &rest); line != NULL && lines->count < LINES_MOST;
         line = strtok_r(NULL, "\n", &rest)) {
        int label = (int)strcspn(line, "\t");

        lines->line[lines->count++] = line;
        if (line[label] == '\t' && label <= LABEL_MOST && label > lines->label)
            lines->label = label;
    }
}

static int popup_width(const struct lines *lines, int most)
{
    int width = 0;

    for (int i = 0; i < lines->count; i++) {
        const char *tab = strchr(lines->line[i], '\t');
        int length =
            tab != NULL ? lines->label + 2 + text_columns(tab + 1) : text_columns(lines->line[i]);

        width = length > width ? length : width;
    }
    return width < most ? width : most;
}

static void draw_border(const struct canvas *box, bool ascii)
{
    int bottom = box->height - 1, right = box->width - 1;

    for (int y = 0; y <= bottom; y++)
        canvas_repeat(box, y, 0, box->width, TONE_NORMAL, L' ');
    for (int y = 1; y < bottom; y++) {
        canvas_repeat(box, y, 0, 1, TONE_DIM, ascii ? L'|' : L'│');
        canvas_repeat(box, y, right, 1, TONE_DIM, ascii ? L'|' : L'│');
    }
    for (int y = 0; y <= bottom; y += bottom > 0 ? bottom : 1) {
        canvas_repeat(box, y, 0, box->width, TONE_DIM, ascii ? L'-' : L'─');
        canvas_repeat(box, y, 0, 1, TONE_DIM, ascii ? L'+' : y == 0 ? L'┌' : L'└');
        canvas_repeat(box, y, right, 1, TONE_DIM, ascii ? L'+' : y == 0 ? L'┐' : L'┘');
    }
}

/*
 * Draws a line, wrapped, with a hanging indent up to the column after its first gap of two blanks,
 * as in
 * "key  help". Returns the line number after it.
 */
static int draw_popup_line(const struct canvas *inside, int y, const struct lines *lines,
                           char *line, bool selected)
{
    enum tone tone = selected ? TONE_SELECTED : TONE_NORMAL;
    char *tab = strchr(line, '\t'), piece[WIDEST * MB_LEN_MAX + 1];
    const char *value = tab != NULL ? tab + 1 : line, *gap = strstr(value, "  ");
    int from = tab != NULL ? lines->label + 2 : 0;
    int hang = gap != NULL ? (int)(gap - value) + (int)strspn(gap, " ") : 0;

    if (hang >= (inside->width - from) * 2 / 3)
        hang = 0;
    if (selected)
        canvas_repeat(inside, y, 0, inside->width, tone, L' ');
    if (tab != NULL)
        canvas_print(inside, y, 0, selected ? tone : TONE_TITLE, "%.*s", (int)(tab - line), line);
    do {
        snprintf(piece, sizeof(piece), "%.*s", (int)text_piece(value, inside->width - from), value);
        canvas_text(inside, y++, from, tone, piece);
        value += strlen(piece);
        value += strspn(value, " ");
        from += hang;
        hang = 0;
    } while (*value != '\0');
    return y;
}

/* Where the lines of a box were last drawn; the last entry is the end of the last line. */
static struct {
    struct canvas inside;
    int row[LINES_MOST + 1], count;
} drawn_box;

/* SELECTED is a line that is scrolled into sight; -1: none. */
static void draw_box(struct scroll *scroll, struct lines *lines, bool ascii,
                     const struct canvas *body, int selected)
{
    int most = (body->width < WIDEST ? body->width : WIDEST) - 2 * FRAME, height = 0, y;
    struct canvas box, inside = {.height = 0};

    split_lines(lines);
    inside.width = popup_width(lines, most);
    for (int i = 0; i < lines->count; i++) {
        drawn_box.row[i] = height;
        height = draw_popup_line(&inside, height, lines, lines->line[i], false); /* nowhere */
    }
    drawn_box.row[lines->count] = height;
    drawn_box.count = lines->count;
    box.height = height + FRAME < body->height ? height + FRAME : body->height;
    box = canvas_part(body, body->height - box.height, (body->width - inside.width) / 2 - FRAME,
                      box.height, inside.width + 2 * FRAME);
    draw_border(&box, ascii);
    inside = canvas_part(&box, 1, FRAME, box.height - FRAME, inside.width);
    if (selected >= 0 && selected < lines->count) {
        int top = drawn_box.row[selected], least = drawn_box.row[selected + 1] - inside.height;

        scroll->top = scroll->top > top ? top : scroll->top < least ? least : scroll->top;
    }
    scroll_fit(scroll, height, inside.height);
    drawn_box.inside = inside;
    y = -scroll->top;
    for (int i = 0; i < lines->count; i++) {
        drawn_box.row[i] = y;
        y = draw_popup_line(&inside, y, lines, lines->line[i], i == selected);
    }
    drawn_box.row[lines->count] = y;
    canvas_text(&box, box.height - 1, FRAME, TONE_DIM,
                height > inside.height ? " PgUp PgDn, Esc closes " : " Esc closes ");
}

static struct lines lines; /* too large for the stack */

/* Draws the details of the selected row over BODY. */
static void draw_row_popup(struct scroll *scroll, const struct scene *scene,
                           const struct canvas *body)
{
    memset(&lines, 0, sizeof(lines));
    write_row(&lines, scene);
    draw_box(scroll, &lines, scene->ascii, body, -1);
}

static void draw_text_popup(struct scroll *scroll, const char *text, bool ascii,
                            const struct canvas *body)
{
    memset(&lines, 0, sizeof(lines));
    snprintf(lines.text, sizeof(lines.text), "%s", text);
    draw_box(scroll, &lines, ascii, body, -1);
}

/* Draws the menu of what can be done over BODY. */
static void draw_actions(const struct frame *frame, const struct canvas *body)
{
    struct help_item items[ACTION_COUNT];
    size_t count = frame_actions(frame->session, items);
    FILE *out;

    memset(&lines, 0, sizeof(lines));
    out = fmemopen(lines.text, sizeof(lines.text) - 1, "w");
    if (out == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\t%c%s\n", key_table[items[i].action].shown,
                toupper((unsigned char)items[i].words[0]), items[i].words + 1);
    fclose(out);
    draw_box(&frame->overlays->actions_scroll, &lines, frame->scene.ascii, body,
             (int)frame->overlays->action_selected);
}

int frame_action_item_at(int y, int x)
{
    if (!canvas_holds(&drawn_box.inside, y, x))
        return -1;
    for (int i = 0; i < drawn_box.count; i++)
        if (y - drawn_box.inside.y >= drawn_box.row[i] &&
            y - drawn_box.inside.y < drawn_box.row[i + 1])
            return i;
    return -1;
}

/* The body without a daemon: why, and what to do */

static void draw_absent(const struct frame *frame, const struct canvas *body)
{
    const char *name = source_name(frame->source);
    bool usual = strcmp(name, INSTANCE_DEFAULT_NAME) == 0;
    int y = body->height > 10 ? body->height / 3 : 0, x = body->width > 60 ? 4 : 0;

    canvas_text(body, y, x, TONE_WARN, source_why(frame->source));
    canvas_text(body, y + 2, x, TONE_NORMAL, "Start it in another terminal:");
    canvas_text(body, y + 3, x, TONE_VALUE, "  webserverd -f FILE");
    if (usual) {
        canvas_text(body, y + 4, x, TONE_DIM, "If it has another name: wsconsole -n NAME");
    } else {
        canvas_print(body, y + 4, x, TONE_DIM, "with name = %s in section [server] of FILE,", name);
        canvas_print(body, y + 5, x, TONE_DIM, "or a program that calls board_open(\"%s\", PORT)",
                     name);
    }
    canvas_text(body, y + 6, x, TONE_NORMAL, "This console attaches when it runs.");
}

static void draw_view(const struct frame *frame, const struct canvas *body)
{
    const struct view *view = session_view(frame->session);

    if (frame->overlays->subject && frame->scene.subject != NULL)
        subject_draw(&frame->overlays->subject_scroll, &frame->scene, &frame->session->subject,
                     body);
    else if (!view_has_data(view, &frame->scene))
        canvas_print(body, body->height / 3, 0, TONE_DIM, "%s does not publish this.",
                     frame->now->server.name);
    else if ((drawn_empty = view->ready != NULL && !view->ready(&frame->scene)))
        canvas_wrapped(body, body->height / 3, TONE_DIM, view->empty);
    else
        view->draw(frame->session->views[frame->session->view].state, &frame->scene, body);
    if (frame->overlays->detail)
        draw_row_popup(&frame->overlays->detail_scroll, &frame->scene, body);
}

/* Until it is drawn again, the list is not on the screen: keys act on none of its rows. */
static void forget_list(const struct frame *frame)
{
    struct grid *grid = frame->scene.grid;

    drawn_empty = false;
    grid->titles = grid->rows = (struct canvas){0};
    if (!frame->overlays->subject) /* which may be opened from a row */
        grid->shown = 0;
}

static void draw_body(const struct frame *frame, const struct canvas *body)
{
    const char *page = controller_page(frame->session->controller);
    bool timed = frame->scene.moment != MOMENT_LIVE;
    bool filtered = filter_active(frame->scene.filter);
    int below = timed + filtered, height = body->height - below;
    struct canvas upper = canvas_part(body, 0, 0, height, body->width), view = upper, panel;
    struct canvas line = canvas_part(body, height, 0, 1, body->width);

    if (frame->overlays->help) {
        help_draw(&frame->overlays->help_scroll, body, shown_view(frame->session), frame->now,
                  frame->overlays->sought);
        return;
    }
    forget_list(frame);
    if (frame->now == NULL) {
        draw_absent(frame, body);
        return;
    }
    if (frame->session->lab != NULL) {
        struct lab_state lab = lab_state(frame->session->lab);

        lab_panel_layout(&upper, frame->overlays->lab, &view, &panel);
        lab_panel_draw(&lab, &panel, frame->overlays->lab ? &frame->overlays->lab_scroll : NULL,
                       frame->scene.ascii);
    }
    if (view.height > 0)
        draw_view(frame, &view);
    if (filtered) {
        static const char key[] = "Esc removes it";
        struct canvas place = canvas_part(&line, 0, 0, 1, line.width - (int)sizeof(key) - 1);

        canvas_repeat(&line, 0, 0, line.width, TONE_BAR, L' ');
        canvas_print(&place, 0, 1, TONE_BAR_KEY, "filter: %s", frame->scene.filter->text);
        canvas_right(&line, 0, line.width - 1, TONE_BAR, key);
    }
    line = canvas_part(body, body->height - 1, 0, 1, body->width);
    if (timed)
        draw_time(frame, &line);
    if (frame->overlays->actions)
        draw_actions(frame, &upper);
    else if (page != NULL)
        draw_text_popup(&frame->overlays->page_scroll, page, frame->scene.ascii, &upper);
}

/* Draws a single line, for a very small terminal. */
static void draw_tiny(const struct frame *frame, const struct canvas *all)
{
    const struct snapshot *now = frame->now;
    char rate[TEXT_SHORT], p99[TEXT_SHORT], line[256] = "";

    if (controller_dialog(frame->session->controller)->kind == DIALOG_CONFIRM) {
        canvas_text(all, 0, 0, TONE_WARN, "a question: enlarge, or Esc");
        return;
    }
    if (now == NULL || source_state(frame->source) == SOURCE_ENDED) {
        canvas_text(all, 0, 0, TONE_WARN, source_why(frame->source));
        return;
    }
    summary_append(line, sizeof(line), all->width, "%s requests/s",
                   text_count(rate, model_rate(frame->scene.model, METRIC_requests)));
    summary_append_threads(line, sizeof(line), all->width, snapshot_threads_actual(now),
                           now->workers_wanted * now->threads_wanted);
    summary_append(line, sizeof(line), all->width, "p99 %s",
                   text_latency(p99, model_percentile(frame->scene.model, 99)));
    canvas_text(all, 0, 0, TONE_NORMAL, line);
}

void frame_draw(struct session *session)
{
    const struct screen *screen = &session->screen;
    struct dialog *dialog = controller_dialog(session->controller);
    struct frame frame = {.session = session,
                          .overlays = &session->overlays,
                          .scene = session_scene(session),
                          .source = watch_source(session->watch),
                          .replay = watch_replay(session->watch)};

    frame.now = model_now(frame.scene.model);
    screen_begin();
    graph_forget();
    if (screen->tiny) {
        draw_tiny(&frame, &screen->all);
    } else {
        draw_tabs(&screen->bar, &frame.scene, session->view, session->overlays.help);
        if (frame.now != NULL)
            draw_head(&frame, &screen->head);
        draw_body(&frame, &screen->body);
        if (dialog_open(dialog))
            dialog_draw(dialog, &screen->foot, &screen->body, clock_monotonic_ns());
        else
            draw_foot(&frame, &screen->foot);
    }
    screen_show();
}
