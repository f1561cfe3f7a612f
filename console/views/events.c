/* The events: errors, warnings and changes of all processes of the server, grouped by kind; below
 * them the commands of this console and their replies. */

#include "common/macros.h"
#include "common/tables.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <inttypes.h>
#include <string.h>

enum column_number { LAST, LEVEL, COUNT, FROM, TEXT, FIRST, COLUMNS };

static const struct column columns[COLUMNS] = {
    [LAST] = {.title = "LAST", .width = 12, .importance = 7, .right = true, .output = OUTPUT_TIME},
    [LEVEL] = {.title = "LEVEL", .width = 5, .importance = 9, .key = true},
    [COUNT] = {.title = "COUNT", .width = 6, .importance = 8, .right = true},
    [FROM] = {.title = "FROM", .width = 21, .min_width = 10, .importance = 5},
    [TEXT] = {.title = "EVENT", .width = 50, .min_width = 20, .importance = 10, .stretch = 1},
    [FIRST] =
        {.title = "FIRST", .width = 12, .importance = 1, .right = true, .output = OUTPUT_TIME},
};

enum { NARROW = 60 };

struct state {
    bool single; /* not grouped */
    int least;   /* enum level */
    size_t row_count;
    const struct event_row *rows[EVENT_LIST_SINGLE];
};

static size_t events_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    own->row_count = event_list_rows(scene->events, own->single, (enum level)own->least,
                                     scene->moment == MOMENT_LIVE ? UINT64_MAX : scene->wall_ns,
                                     own->rows, ARRAY_LENGTH(own->rows));
    return own->row_count;
}

static enum tone level_tone(uint8_t level)
{
    return level == LEVEL_ERROR  ? TONE_BAD
           : level == LEVEL_WARN ? TONE_WARN
           : level == LEVEL_INFO ? TONE_NORMAL
                                 : TONE_DIM;
}

static void events_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct event_row *event = ((struct state *)state)->rows[row];
    enum tone tone = level_tone(event->level);

    (void)scene;
    cell_clock(&cells[LAST], TONE_DIM, event->last_ns);
    cell_text(&cells[LEVEL], tone, level_names[event->level]);
    cell_count(&cells[COUNT], event->count > 1 ? TONE_VALUE : TONE_DIM, (double)event->count);
    if (event->pid != 0)
        cell_print(&cells[FROM], TONE_NORMAL, "%s %" PRId32, role_names[event->role], event->pid);
    else /* seen in a recording */
        cell_text(&cells[FROM], TONE_NORMAL, role_names[event->role]);
    cell_text(&cells[TEXT], tone, event->text);
    cell_clock(&cells[FIRST], TONE_DIM, event->first_ns);
}

static void events_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct event_row *event = ((struct state *)state)->rows[row];
    char text[TEXT_SHORT];

    (void)scene;
    fprintf(out, "event\t%s\n", event->text);
    fprintf(out, "level\t%s\n", level_names[event->level]);
    fprintf(out, "from\t%s", role_names[event->role]);
    if (event->pid != 0)
        fprintf(out, ", pid %" PRId32, event->pid);
    fprintf(out, "\n");
    fprintf(out, "last\t%s\n", text_clock(text, event->last_ns));
    if (event->count > 1) {
        fprintf(out, "first\t%s\n", text_clock(text, event->first_ns));
        fprintf(out, "how often\t%" PRIu64 " times\n", event->count);
        fprintf(out, "Events that differ only in numbers are grouped; the newest is shown. "
                     "v shows each event.\n");
    }
}

static size_t events_badge(const struct scene *scene)
{
    return alerts_unseen(scene->alerts);
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = events_count,
    .fill = events_fill,
    .detail = events_detail,
};

/* True if LINE is a query, which changes nothing. */
static bool is_question(const char *line)
{
    size_t length = strcspn(line, " ");

    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strlen(command_table[i].name) == length &&
            strncmp(command_table[i].name, line, length) == 0)
            return command_table[i].changes == NEVER;
    return false;
}

/* Number of changes that this console requested. */
static size_t own_changes(const struct scene *scene)
{
    size_t asked = scene->controller != NULL ? controller_log_count(scene->controller) : 0,
           changes = 0;

    for (size_t i = 0; i < asked; i++)
        changes += !is_question(controller_log_record(scene->controller, i)->line);
    return changes;
}

static bool events_ready(const struct scene *scene)
{
    const struct event_row *row;

    return event_list_rows(scene->events, false, LEVEL_DEBUG, UINT64_MAX, &row, 1) > 0 ||
           own_changes(scene) > 0;
}

static void draw_events_summary(const struct state *state, const struct scene *scene,
                                const struct canvas *canvas)
{
    char text[TEXT_SHORT];
    int x = 0;

    for (int level = LEVEL_ERROR; level >= LEVEL_INFO; level--) {
        uint64_t total = event_list_total(scene->events, (enum level)level);

        x = canvas_print(canvas, 0, x, total > 0 ? level_tone((uint8_t)level) : TONE_DIM, "%s %s",
                         level_names[level], text_count(text, (double)total)) +
            2;
    }
    if (canvas->width < NARROW)
        x = canvas_text(canvas, 0, x, TONE_DIM, state->single ? "each" : "by kind");
    else
        x = canvas_print(canvas, 0, x, TONE_DIM, "%s, %s and above",
                         state->single ? "each event" : "grouped by kind",
                         level_names[state->least]);
    if (event_list_missed(scene->events) > 0)
        canvas_print(canvas, 0, x + 2, TONE_NOTE, "%s missed",
                     text_count(text, (double)event_list_missed(scene->events)));
}

/* The commands of this console, the newest first. */
static void draw_own(const struct scene *scene, const struct canvas *canvas)
{
    size_t asked = controller_log_count(scene->controller);
    char text[TEXT_SHORT];
    int y = 0;

    canvas_text(canvas, 0, 0, TONE_TITLE, "commands of this console");
    for (size_t i = 0; i < asked && y + 1 < canvas->height; i++) {
        const struct command_record *entry = controller_log_record(scene->controller, i);
        int x;

        if (is_question(entry->line))
            continue;
        y++;
        x = canvas_text(canvas, y, 0, TONE_DIM, text_clock(text, entry->wall_ns));
        x = canvas_text(canvas, y, x + 2, TONE_NORMAL, entry->line);
        canvas_print(canvas, y, x + 2,
                     !entry->answered ? TONE_NOTE
                     : entry->ok      ? TONE_GOOD
                                      : TONE_BAD,
                     "%s %s", scene->ascii ? "->" : "→",
                     entry->answered ? entry->answer : "no reply yet");
    }
}

static void events_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    size_t asked = own_changes(scene);
    const struct layout_part parts[] = {
        {.min = 1, .importance = 1},
        {.min = 3, .weight = 1, .importance = 3},
        {.min = 2, .max = (int)asked + 1, .weight = 1, .importance = 2, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    layout_stack(canvas, parts, asked > 0 ? 3 : 2, places);
    grid_draw(scene->grid, scene, &places[1]);
    if (places[0].height > 0)
        draw_events_summary(state, scene, &places[0]);
    if (asked > 0 && places[2].height > 0)
        draw_own(scene, &places[2]);
}

static bool events_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;

    (void)scene;
    switch (action) {
    case ACTION_MODE:
        own->single = !own->single;
        return true;
    case ACTION_NEXT:
        own->least = (own->least + 1) % LEVEL_COUNT;
        return true;
    default:
        return false;
    }
}

static json_t *events_json(void *state, const struct scene *scene)
{
    json_t *totals = json_object();

    (void)state;
    for (int level = 0; level < LEVEL_COUNT; level++)
        json_object_set_new(
            totals, level_names[level],
            json_integer((json_int_t)event_list_total(scene->events, (enum level)level)));
    return json_pack("{s:o, s:o}", "totals", totals, "events", grid_json(scene->grid, scene));
}

static const char *const help[] = {
    "Errors, warnings and changes of all processes, grouped by kind.",
    "A change names the user and the process that made it.",
    "Below: the commands of this console and the replies of the daemon.",
    "v shows each event, n sets the minimum level, Enter shows all details.", NULL};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    TEXT_NUMBER("error, warn", "Events of that level that this console has read"),
    TEXT_NUMBER("missed", "Events that were overwritten before this console read them"),
    TEXT_NUMBER("LAST, FIRST", "Time of the newest and of the oldest event of a group"),
    TEXT_NUMBER("COUNT", "Events of a group: those that differ only in numbers"),
    TEXT_NUMBER("FROM", "The process that logged it, and its pid"),
    NUMBERS_END,
};

static const struct view_hint hints[] = {{ACTION_MODE, "ungroup", false, HINT_ALWAYS},
                                         {ACTION_NEXT, "level", false, HINT_ALWAYS},
                                         {ACTION_NONE, "", false, HINT_ALWAYS}};

const struct view view_events = {
    .name = "events",
    .short_name = "ev",
    .action = ACTION_VIEW_EVENTS,
    .section = SEGMENT_EVENTS,
    .badge = events_badge,
    .empty = "No events yet: no error, no warning, no change.",
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .ready = events_ready,
    .draw = events_draw,
    .key = events_key,
    .json = events_json,
};
