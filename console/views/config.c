/*
 * The configuration in force: each key with its value, its origin and how it can be changed. The
 * file can be checked and reloaded; the server's error report is shown.
 */

#include "common/escape.h"
#include "common/macros.h"
#include "console/data/child.h"
#include "console/data/server_info.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/table.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum column_number { KEY, VALUE, ORIGIN, CHANGE, DEFAULT, COLUMNS };

static const struct column columns[COLUMNS] = {
    [KEY] =
        {.title = "KEY", .width = 31, .min_width = 20, .importance = 10, .tail = true, .key = true},
    [VALUE] = {.title = "VALUE", .width = 16, .importance = 9, .stretch = 1},
    [ORIGIN] = {.title = "ORIGIN", .width = 20, .importance = 7, .tail = true, .stretch = 1},
    [CHANGE] = {.title = "CHANGE", .width = 6, .importance = 8},
    [DEFAULT] = {.title = "DEFAULT", .width = 16, .importance = 2},
};

enum {
    LINES_MOST = 400,
    REPORT_LINES = 40,
    REPORT_WIDTH = 200,
    PATH_BYTES = 1024,
    REPLY_BYTES = 4 * SEGMENT_CONFIG_BYTES,
    NARROW = 50,
    WIDE = 66,
};

/* The part of the daemon's `config` reply that is not in shared memory. */
struct origin {
    char from[96], change[12], command[24], fallback[64];
};

struct state {
    struct config_line *lines; /* LINES_MOST */
    struct origin *origins;    /* one for each line */
    size_t count;
    char *text;  /* the text that the lines were read from; SEGMENT_CONFIG_BYTES */
    char *reply; /* the reply that the origins were read from; REPLY_BYTES */
    struct child check;
    bool reload_asked; /* confirmed: the next update checks the file */
    bool reload_next;  /* reload after a check without errors */
    struct controller *controller;
    char report[REPORT_LINES][REPORT_WIDTH]; /* printed by the last check or reload */
    int report_lines;
    bool report_bad;
};

static int allocate_config(struct state *state)
{
    if (state->lines != NULL)
        return 0;
    child_init(&state->check);
    state->lines = calloc(LINES_MOST, sizeof(*state->lines));
    state->origins = calloc(LINES_MOST, sizeof(*state->origins));
    state->text = calloc(1, SEGMENT_CONFIG_BYTES);
    state->reply = calloc(1, REPLY_BYTES);
    return state->lines == NULL || state->origins == NULL || state->text == NULL ||
                   state->reply == NULL
               ? -1
               : 0;
}

/* Parses the text again if it has changed. */
static void read_config_text(struct state *state, const char *config)
{
    char section[CONFIG_KEY_BYTES] = "";
    const char *at = config;

    if (allocate_config(state) != 0 || strcmp(state->text, config) == 0)
        return;
    snprintf(state->text, SEGMENT_CONFIG_BYTES, "%s", config);
    memset(state->origins, 0, LINES_MOST * sizeof(*state->origins));
    for (state->count = 0; state->count < LINES_MOST; state->count++)
        if (!config_text_next(&at, section, &state->lines[state->count]))
            break;
    state->reply[0] = '\0';
}

/* Origins */

static void take_string(char *to, size_t size, const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    escape_bytes(to, size, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static void take_origin(struct state *state, const json_t *object)
{
    const char *key = json_string_value(json_object_get(object, "key"));

    for (size_t i = 0; key != NULL && i < state->count; i++)
        if (strcmp(state->lines[i].key, key) == 0) {
            struct origin *origin = &state->origins[i];

            take_string(origin->from, sizeof(origin->from), object, "origin");
            take_string(origin->change, sizeof(origin->change), object, "change");
            take_string(origin->command, sizeof(origin->command), object, "command");
            take_string(origin->fallback, sizeof(origin->fallback), object, "default");
        }
}

/* Parses the reply unless it is the last one parsed. */
static void read_origins(struct state *state, const char *answer)
{
    json_t *object;
    const json_t *keys;

    if (state->lines == NULL || strcmp(state->reply, answer) == 0)
        return;
    snprintf(state->reply, REPLY_BYTES, "%s", answer);
    memset(state->origins, 0, LINES_MOST * sizeof(*state->origins));
    object = json_loads(answer, 0, NULL);
    keys = json_object_get(object, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        take_origin(state, json_array_get(keys, i));
    json_decref(object);
}

static void read_scene(struct state *state, const struct scene *scene)
{
    read_config_text(state, scene->config);
    read_origins(state, scene->origins);
}

/* The list */

static size_t config_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    read_scene(own, scene);
    return own->count;
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static void config_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct state *own = state;
    const struct config_line *line = &own->lines[row];
    const struct origin *origin = &own->origins[row];
    bool known = origin->from[0] != '\0', changed = strcmp(origin->from, "default") != 0;

    (void)scene;
    cell_text(&cells[KEY], TONE_NORMAL, line->key);
    cell_print(&cells[VALUE], known && changed ? TONE_VALUE : TONE_NORMAL, "%.280s", line->value);
    cell_text(&cells[ORIGIN], changed ? TONE_NOTE : TONE_DIM, or_dash(origin->from));
    cell_text(&cells[CHANGE], strcmp(origin->change, "live") == 0 ? TONE_GOOD : TONE_DIM,
              or_dash(origin->change));
    cell_text(&cells[DEFAULT], TONE_DIM, known ? origin->fallback : "-");
}

static const char *change_sentence(const struct origin *origin)
{
    return strcmp(origin->change, "live") == 0     ? "live (e edits it)"
           : strcmp(origin->change, "reload") == 0 ? "reload (edit the file, then r)"
           : strcmp(origin->change, "fixed") == 0  ? "restart of the server"
                                                   : "unknown";
}

static void config_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct config_line *line = &((struct state *)state)->lines[row];
    const struct origin *origin = &((struct state *)state)->origins[row];

    (void)scene;
    fprintf(out, "key\t%s\n", line->key);
    fprintf(out, "value\t%s\n", or_dash(line->value));
    fprintf(out, "default\t%s\n", or_dash(origin->fallback));
    fprintf(out, "origin\t%s\n", or_dash(origin->from));
    fprintf(out, "changes\t%s\n", change_sentence(origin));
    if (origin->command[0] != '\0')
        fprintf(out, "command\t%s\n", origin->command);
    if (line->help[0] != '\0')
        fprintf(out, "%s\n", line->help);
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = config_count,
    .fill = config_fill,
    .detail = config_detail,
};

/* Check and reload */

static void add_report(void *context, const char *line)
{
    struct state *state = context;
    char *place;

    if (state->report_lines == REPORT_LINES)
        return;
    place = state->report[state->report_lines++];
    escape_bytes(place, REPORT_WIDTH, line, strlen(line));
}

static void add_report_lines(struct state *state, const char *text, size_t length)
{
    char line[REPORT_WIDTH];

    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t here = end != NULL ? (size_t)(end - text) : length;

        snprintf(line, sizeof(line), "%.*s", (int)here, text);
        add_report(state, line);
        here += end != NULL;
        text += here;
        length -= here;
    }
}

static void clear_report(struct state *state, bool bad)
{
    state->report_lines = 0;
    state->report_bad = bad;
}

/* The path of the server's configuration file as seen from this process. Returns 0, or -1 if it was
 * started without a file. */
static int file_of(const struct state *state, const struct scene *scene, char *path, size_t size)
{
    char link[64], directory[PATH_BYTES / 2];
    ssize_t length;

    for (size_t i = 0; i < state->count; i++) {
        const char *from = state->origins[i].from, *colon = strrchr(from, ':');

        if (colon == NULL || !isdigit((unsigned char)colon[1]))
            continue;
        snprintf(link, sizeof(link), "/proc/%" PRId32 "/cwd", model_now(scene->model)->server.pid);
        length = readlink(link, directory, sizeof(directory) - 1);
        directory[length > 0 ? length : 0] = '\0';
        snprintf(path, size, "%s%s%.*s", from[0] == '/' ? "" : directory, from[0] == '/' ? "" : "/",
                 (int)(colon - from), from);
        return 0;
    }
    return -1;
}

/*
 * Whether the origins are known: the daemon's reply arrives shortly after the view is first shown.
 */
static bool origins_known(const struct scene *scene)
{
    if (scene->origins[0] == '\0')
        controller_report(scene->controller, true,
                          "origins are not known yet: wait for the ORIGIN column");
    return scene->origins[0] != '\0';
}

static void start_check(struct state *state, const struct scene *scene, bool reload_next)
{
    char path[PATH_BYTES], why[CONTROLLER_TEXT];
    const char *argv[] = {"webserverd", "-t", "-f", path, NULL};

    if (state->check.pid != 0) {
        controller_report(scene->controller, true, "a check is already running");
        return;
    }
    if (!origins_known(scene))
        return;
    if (file_of(state, scene, path, sizeof(path)) != 0) {
        controller_report(scene->controller, true,
                          "no file: the server runs with defaults and -o only");
        return;
    }
    clear_report(state, false);
    state->reload_next = reload_next;
    state->controller = scene->controller;
    if (child_start(&state->check, argv, why, sizeof(why)) != 0)
        controller_report(scene->controller, true, "%s", why);
    else
        controller_report(scene->controller, false, "checking %s", path);
}

/* The reply to `reload`: the changed keys, or the errors of the file, line by line. */
static void take_reload(void *context, bool ok, const char *answer)
{
    struct state *state = context;
    json_t *object = ok ? json_loads(answer, 0, NULL) : NULL;
    const char *error = json_string_value(json_object_get(object, "error"));
    const json_t *changed = json_object_get(object, "changed");
    char line[REPORT_WIDTH] = "reloaded; changed:";

    clear_report(state, error != NULL || object == NULL);
    if (error != NULL || object == NULL) {
        add_report_lines(state, error != NULL ? error : answer,
                         strlen(error != NULL ? error : answer));
    } else {
        for (size_t i = 0; i < json_array_size(changed); i++) {
            const char *key = json_string_value(json_array_get(changed, i));

            snprintf(line + strlen(line), sizeof(line) - strlen(line), " %s",
                     key != NULL ? key : "?");
        }
        add_report(state, json_array_size(changed) > 0 ? line : "reloaded; no changes");
    }
    controller_report(state->controller, state->report_bad, "%s",
                      state->report_bad ? "reload failed: the configuration is unchanged"
                                        : state->report[0]);
    json_decref(object);
}

static int config_descriptor(void *state)
{
    struct state *own = state;

    return own->lines != NULL ? child_descriptor(&own->check) : -1;
}

static void config_update(void *state, const struct scene *scene)
{
    struct state *own = state;
    int status;

    if (own->reload_asked) {
        own->reload_asked = false;
        start_check(own, scene, true);
    }
    if (own->lines == NULL || !child_update(&own->check, add_report, own, &status))
        return;
    add_report_lines(own, own->check.text, own->check.output_length);
    own->report_bad = status != 0;
    controller_report(own->controller, status != 0 && own->reload_next, "%s",
                      status != 0 ? "the file has errors; the server keeps its configuration"
                                  : "the file is valid");
    if (status == 0 && own->reload_next)
        controller_call(own->controller, "reload", take_reload, own);
}

static void config_release(void *state)
{
    struct state *own = state;

    if (own->lines != NULL)
        child_release(&own->check);
    free(own->lines);
    free(own->origins);
    free(own->text);
    free(own->reply);
}

/* Edit */

struct editing {
    struct controller *controller;
    char command[24];
};

static void config_edited(void *context, const char *text)
{
    const struct editing *editing = context;
    char line[CONTROLLER_TEXT];

    snprintf(line, sizeof(line), "%s %.200s", editing->command, text);
    controller_command(editing->controller, line);
}

static void edit_selected(const struct state *state, const struct scene *scene)
{
    static struct editing editing; /* while the prompt is open */
    const struct origin *origin;
    char label[CONFIG_KEY_BYTES + 8];
    size_t row;

    if (!grid_subject(scene->grid, &row)) {
        controller_report(scene->controller, true, "select a key first (Up, Down)");
        return;
    }
    if (!origins_known(scene))
        return;
    origin = &state->origins[row];
    if (origin->command[0] == '\0') {
        controller_report(scene->controller, true, "%s changes %s", state->lines[row].key,
                          change_sentence(origin));
        return;
    }
    if (!controller_allows_change(scene->controller))
        return;
    editing.controller = scene->controller;
    snprintf(editing.command, sizeof(editing.command), "%s", origin->command);
    snprintf(label, sizeof(label), "%s: ", state->lines[row].key);
    controller_prompt(scene->controller, label, state->lines[row].value, config_edited, &editing);
}

static void reload_confirmed(void *context)
{
    ((struct state *)context)->reload_asked = true;
}

static bool config_key(void *state, const struct scene *scene, enum action action)
{
    switch (action) {
    case ACTION_COMPARE:
        start_check(state, scene, false);
        return true;
    case ACTION_RUN:
        controller_ask(scene->controller, "reload", reload_confirmed, state);
        return true;
    case ACTION_EDIT:
        edit_selected(state, scene);
        return true;
    default:
        return false;
    }
}

/* Drawing */

/* The selected value, if the column is too narrow for it. */
static void draw_config_summary(const struct state *state, const struct scene *scene,
                                const struct canvas *canvas)
{
    bool wide = canvas->width >= WIDE;
    size_t row;

    if (canvas->width < NARROW && state->lines != NULL && grid_selected(scene->grid, &row) &&
        row < state->count)
        canvas_print(canvas, 0, 0, TONE_VALUE, "= %s", or_dash(state->lines[row].value));
    else if (scene_allows_changes(scene))
        canvas_text(canvas, 0, 0, TONE_DIM,
                    wide ? "c checks the file, r reloads it, e edits a live key"
                         : "c check  r reload  e edit  Enter all");
    else
        canvas_text(canvas, 0, 0, TONE_DIM, "Enter shows all of a key");
}

static void config_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;
    const struct layout_part parts[] = {
        {.min = 1, .importance = 1},
        {.min = 3, .weight = 1, .importance = 3},
        {.min = 2, .max = own->report_lines + 1, .weight = 2, .importance = 2, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    read_scene(own, scene);
    layout_stack(canvas, parts, own->report_lines > 0 ? 3 : 2, places);
    if (places[0].height > 0)
        draw_config_summary(own, scene, &places[0]);
    grid_draw(scene->grid, scene, &places[1]);
    if (own->report_lines == 0)
        return;
    canvas_text(&places[2], 0, 0, TONE_TITLE, "the file");
    for (int i = 0; i < own->report_lines && i + 1 < places[2].height; i++)
        canvas_text(&places[2], i + 1, 0, own->report_bad ? TONE_WARN : TONE_GOOD, own->report[i]);
}

static bool config_ready(const struct scene *scene)
{
    return scene->config[0] != '\0';
}

static const char *const help[] = {
    "All keys in force, and the origin of each value: file and line, -o,",
    "a command, or the default. CHANGE: live, reload (in the file), or fixed.",
    "c checks the file with webserverd -t, r checks and reloads it. If the file",
    "has errors they are listed, and the server keeps its configuration.",
    "e edits the selected key if it is live.",
    NULL};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    TEXT_NUMBER("VALUE", "The value in force; highlighted if it is not the default"),
    TEXT_NUMBER("ORIGIN", "File and line, -o, the command that set it and its user, or default"),
    TEXT_NUMBER(
        "CHANGE",
        "live: at once, by e or a command; reload: in the file, then r; fixed: by a restart"),
    TEXT_NUMBER("DEFAULT", "The value without a configuration"),
    NUMBERS_END,
};

static const struct view_hint hints[] = {{ACTION_EDIT, "edit", true, HINT_ROWS},
                                         {ACTION_COMPARE, "check", true, HINT_ALWAYS},
                                         {ACTION_RUN, "reload", true, HINT_ALWAYS},
                                         {ACTION_NONE, "", false, HINT_ALWAYS}};

const struct view view_config = {
    .name = "config",
    .short_name = "conf",
    .action = ACTION_VIEW_CONFIG,
    .section = SEGMENT_CONFIG,
    .empty = "The server has not published its configuration yet.",
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .wants = WANT_ORIGINS,
    .state_size = sizeof(struct state),
    .list = &list,
    .ready = config_ready,
    .draw = config_draw,
    .key = config_key,
    .descriptor = config_descriptor,
    .update = config_update,
    .release = config_release,
};
