/*
 * The top lists over a sliding window: paths, clients, user agents, referers, errors, slowest
 * paths, protocols. The grid shows one list; the others are below it if there is room.
 */

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "console/data/server_info.h"
#include "console/scene/controller.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/*
 * The list of clients also has connections and limits by address; that of errors, hidden columns.
 */
enum column_number {
    REQUESTS,
    RATE,
    SHARE,
    KEY,
    MEAN,
    MAX,
    BYTES,
    MOST,
    COLUMNS,
    CONNECTIONS = COLUMNS,
    LEFT,
    LIMITED,
    CLIENT_COLUMNS,
    STATUS = COLUMNS,
    PATH,
    ERROR_COLUMNS
};

#define COLUMNS_OF(key_title, is_key)                                                              \
    [REQUESTS] = {.title = "REQUESTS", .width = 8, .importance = 10, .right = true},               \
    [RATE] = {.title = "REQ/S",                                                                    \
              .width = 6,                                                                          \
              .importance = 6,                                                                     \
              .right = true,                                                                       \
              .name = "requests_per_s"},                                                           \
    [SHARE] = {.title = "SHARE",                                                                   \
               .width = 6,                                                                         \
               .importance = 4,                                                                    \
               .right = true,                                                                      \
               .name = "share_percent"},                                                           \
    [KEY] = {.title = (key_title), .width = 16, .importance = 11, .stretch = 1, .key = (is_key)},  \
    [MEAN] = {.title = "MEAN", .width = 7, .importance = 3, .right = true, .output = OUTPUT_NS},   \
    [MAX] = {.title = "MAX", .width = 7, .importance = 3, .right = true, .output = OUTPUT_NS},     \
    [BYTES] = {.title = "BYTES",                                                                   \
               .width = 8,                                                                         \
               .importance = 2,                                                                    \
               .right = true,                                                                      \
               .output = OUTPUT_BYTES},                                                            \
    [MOST] = {.title = "AT MOST", .width = 7, .importance = 5, .right = true}

/* The keys have the names of the log's columns, so that a filter by row fits the log. */
static const struct column path_columns[COLUMNS] = {COLUMNS_OF("PATH", true)};
static const struct column agent_columns[COLUMNS] = {COLUMNS_OF("AGENT", true)};
static const struct column referer_columns[COLUMNS] = {COLUMNS_OF("REFERER", true)};
static const struct column protocol_columns[COLUMNS] = {COLUMNS_OF("PROTOCOL", true)};

/* The key of an error is its status and path. */
static const struct column error_columns[ERROR_COLUMNS] = {
    COLUMNS_OF("ERROR", false),
    [STATUS] = {.title = "STATUS", .hidden = true, .key = true},
    [PATH] = {.title = "PATH", .hidden = true, .key = true},
};

static const struct column client_columns[CLIENT_COLUMNS] = {
    COLUMNS_OF("CLIENT", true),
    [CONNECTIONS] =
        {.title = "CONNS", .width = 5, .importance = 9, .right = true, .name = "connections"},
    [LEFT] = {.title = "LEFT", .width = 6, .importance = 7, .right = true},
    [LIMITED] =
        {.title = "LIMITED", .width = 7, .importance = 8, .right = true, .name = "rate_limited"},
};

static const char *const list_titles[TOP_LISTS] = {
    [TOP_PATHS] = "most requested paths",
    [TOP_CLIENTS] = "clients",
    [TOP_AGENTS] = "user agents",
    [TOP_REFERERS] = "referers",
    [TOP_ERRORS] = "errors",
    [TOP_SLOWEST] = "slowest paths",
    [TOP_PROTOCOLS] = "protocols",
};

enum { NAMES_WIDTH = 69 }; /* width of the names of all lists */

struct state {
    enum top_list shown;
    int window_s; /* covered by the data */
    int span_s;   /* requested */
    const struct top *source;
    enum top_list collected; /* the list in VIEW */
    uint64_t moment;         /* when it was collected; 0: never */
    struct top_view view;
    struct clients clients; /* joined with the top list of clients */
};

/*
 * Collects once a second, because a long window has many sketches; in a recording at each moment, so
 * that it does not depend on those shown before.
 */
static void collect_top_list(struct state *state, const struct scene *scene, enum top_list list)
{
    uint64_t moment =
        scene->moment == MOMENT_REPLAY ? scene->wall_ns : scene->wall_ns / NS_PER_S + 1;

    if (state->source == scene->top && state->collected == list && state->moment == moment &&
        state->span_s == scene->span_s && state->view.seen > 0)
        return;
    state->source = scene->top;
    state->collected = list;
    state->moment = moment;
    state->span_s = scene->span_s;
    state->window_s = top_collect(scene->top, list, scene->wall_ns, scene->span_s, &state->view);
}

/* The part of the count that is certain. */
static double certain_of(const struct sketch_entry *entry)
{
    return entry->count - entry->error;
}

/* Marks a number that may be higher. */
static void mark_least(struct cell *cell)
{
    size_t length = strlen(cell->text);

    snprintf(cell->text + length, sizeof(cell->text) - length, "+");
}

static size_t top_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    collect_top_list(own, scene, own->shown);
    return own->view.sketch.used;
}

static void fill_entry(const struct state *own, const struct sketch_entry *entry,
                       struct cell *cells)
{
    bool least = round(entry->count) > round(certain_of(entry));
    double all = own->view.seen + own->view.missed;

    cell_count(&cells[REQUESTS], least ? TONE_NOTE : TONE_VALUE, round(certain_of(entry)));
    cell_rate(&cells[RATE], TONE_NORMAL, certain_of(entry) / own->window_s);
    cell_percent(&cells[SHARE], TONE_NORMAL, all > 0 ? certain_of(entry) / all : NAN);
    cell_text(&cells[KEY],
              own->shown == TOP_ERRORS ? status_tone(entry->key[0] == '5' ? 500 : 400)
                                       : TONE_NORMAL,
              entry->key);
    cells[KEY].cut = strlen(entry->key) + 1 == SKETCH_KEY_BYTES;
    cell_latency(&cells[MEAN], TONE_NORMAL,
                 certain_of(entry) > 0 ? entry->duration_ns / certain_of(entry) : NAN);
    cell_latency(&cells[MAX], TONE_NORMAL, entry->longest_ns);
    cell_bytes(&cells[BYTES], TONE_NORMAL, entry->bytes);
    cell_count(&cells[MOST], least ? TONE_NOTE : TONE_DIM, round(entry->count));
    if (least) {
        mark_least(&cells[REQUESTS]);
        mark_least(&cells[BYTES]);
    }
}

static void top_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct state *own = state;

    (void)scene;
    fill_entry(own, &own->view.sketch.entry[row], cells);
}

static void error_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const char *path;

    top_fill(state, scene, row, cells);
    path = strchr(cells[KEY].text, ' ');
    cell_print(&cells[STATUS], TONE_NORMAL, "%.3s", cells[KEY].text);
    cell_text(&cells[PATH], TONE_NORMAL, path != NULL ? path + 1 : "");
    cells[PATH].cut = cells[KEY].cut;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static uint64_t top_id(void *state, const struct scene *scene, size_t row)
{
    (void)scene;
    return hash_text(((struct state *)state)->view.sketch.entry[row].key);
}

/* The list of clients: those with requests, and those with open connections or a used limit. */

static size_t client_count(void *state, const struct scene *scene)
{
    struct state *own = state;

    collect_top_list(own, scene, TOP_CLIENTS);
    return clients_join(&own->clients, &own->view.sketch,
                        scene->moment == MOMENT_PAST ? NULL : scene->clients) == 0
               ? own->clients.count
               : 0;
}

static const char *client_address(const struct client *client, char *buffer)
{
    return client->requests != NULL ? client->requests->key
                                    : client_key_text(client->row->key, buffer);
}

/* connections.max_per_ip; 0: connections are not counted by address. */
static uint64_t most_connections(const struct scene *scene)
{
    char value[32];
    uint64_t most = 0;

    config_text_value(scene->config, "connections.max_per_ip", value, sizeof(value));
    return units_parse_number(value, &most) == 0 ? most : 0;
}

static void client_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct state *own = state;
    const struct client *client = &own->clients.client[row];
    double used, left = NAN; /* requests left of the burst; NAN: no rate limit */
    char buffer[CLIENT_KEY_TEXT];

    if (client->requests != NULL)
        fill_entry(own, client->requests, cells);
    else
        cell_exact(&cells[REQUESTS], TONE_DIM, 0);
    cell_text(&cells[KEY], TONE_NORMAL, client_address(client, buffer));
    if (scene->moment == MOMENT_PAST)
        return;
    cell_count(&cells[CONNECTIONS], TONE_VALUE,
               most_connections(scene) == 0 ? NAN
               : client->row != NULL        ? (double)client->row->connections
                                            : 0);
    used = client->row != NULL ? client->row->used : 0;
    if (scene->clients->limits)
        left = used < scene->clients->burst ? floor(scene->clients->burst - used) : 0;
    cell_count(&cells[LEFT], left < 1 ? TONE_WARN : TONE_NORMAL, left);
    if (scene->clients->limits)
        cell_count(&cells[LIMITED],
                   client->row != NULL && client->row->limited > 0 ? TONE_WARN : TONE_DIM,
                   client->row != NULL ? (double)client->row->limited : 0);
}

static uint64_t client_id(void *state, const struct scene *scene, size_t row)
{
    char buffer[CLIENT_KEY_TEXT];

    (void)scene;
    return hash_text(client_address(&((struct state *)state)->clients.client[row], buffer));
}

static void client_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct state *own = state;
    const struct client *client = &own->clients.client[row];
    const struct client_list *tables = scene->clients;
    struct cell cells[CLIENT_COLUMNS] = {0};
    uint64_t most = most_connections(scene);

    client_fill(state, scene, row, cells);
    fprintf(out, "client\t%s\n", cells[KEY].text);
    fprintf(out, "requests\t%s in the last %d s, %s/s\n", cells[REQUESTS].text, own->window_s,
            client->requests != NULL ? cells[RATE].text : "0");
    if (client->requests != NULL)
        fprintf(out, "latency\tmean %s, max %s\nbytes\t%s\n", cells[MEAN].text, cells[MAX].text,
                cells[BYTES].text);
    if (scene->moment == MOMENT_PAST)
        fprintf(out, "The history does not record its connections and limits.\n");
    else if (most == 0)
        fprintf(out, "connections\tnot counted: connections.max_per_ip is 0\n");
    else
        fprintf(out, "connections\t%s open, maximum %" PRIu64 "\n", cells[CONNECTIONS].text, most);
    if (scene->moment != MOMENT_PAST && tables->limits)
        fprintf(out,
                "rate limit\t%s of %" PRIu32 " requests of the burst left, %" PRIu32 " per second\n"
                "limited\t%s responses 429\n",
                cells[LEFT].text, tables->burst, tables->requests_per_second, cells[LIMITED].text);
    else if (scene->moment != MOMENT_PAST)
        fprintf(out, "rate limit\toff\n");
}

#define LIST(columns_, fill_)                                                                      \
    {                                                                                              \
        .columns = (columns_), .column_count = ARRAY_LENGTH(columns_), .count = top_count,         \
        .fill = (fill_), .id = top_id, .opens = true                                               \
    }

static const struct list lists[TOP_LISTS] = {
    [TOP_PATHS] = LIST(path_columns, top_fill),
    [TOP_CLIENTS] = {.columns = client_columns,
                     .column_count = CLIENT_COLUMNS,
                     .count = client_count,
                     .fill = client_fill,
                     .id = client_id,
                     .detail = client_detail,
                     .opens = true},
    [TOP_AGENTS] = LIST(agent_columns, top_fill),
    [TOP_REFERERS] = LIST(referer_columns, top_fill),
    [TOP_ERRORS] = LIST(error_columns, error_fill),
    [TOP_SLOWEST] = LIST(path_columns, top_fill),
    [TOP_PROTOCOLS] = LIST(protocol_columns, top_fill),
};

static void show_list(struct state *state, struct grid *grid, enum top_list which)
{
    state->shown = which;
    grid_set_list(grid, &lists[which]);
}

/* "max_per_ip 100  rate limit 50/s, burst 100" */
static void limits_text(const struct scene *scene, char *line, size_t size, int width)
{
    uint64_t most = most_connections(scene);

    line[0] = '\0';
    if (scene->moment == MOMENT_PAST)
        return;
    if (most > 0)
        summary_add(line, size, width, "max_per_ip %" PRIu64, most);
    else
        summary_add(line, size, width, "max_per_ip off");
    if (scene->clients->limits)
        summary_add(line, size, width, "rate limit %" PRIu32 "/s, burst %" PRIu32,
                    scene->clients->requests_per_second, scene->clients->burst);
    else
        summary_add(line, size, width, "rate limit off");
}

static bool top_ready(const struct scene *scene)
{
    static struct state paths; /* too large for the stack */

    collect_top_list(&paths, scene, TOP_PATHS);
    return paths.view.seen > 0 || scene->clients->count > 0;
}

/* Other programs publish no fields of requests (include/wsboard.h). */
static bool has_list(const struct scene *scene, int list)
{
    return (list != TOP_AGENTS && list != TOP_REFERERS) || model_now(scene->model) == NULL ||
           scene_is_webserverd(scene);
}

/* The names of all lists or, if they do not fit, that of the list shown; its window and limits. */
static void draw_top_summary(const struct state *state, const struct scene *scene,
                             const struct canvas *canvas)
{
    unsigned one_in = top_one_in(&state->view);
    char text[TEXT_SHORT], line[160];
    int x = 0;

    for (int i = 0; i < TOP_LISTS; i++)
        if (i == (int)state->shown)
            x = canvas_print(canvas, 0, x, TONE_TAB, "[%s]", top_list_names[i]);
        else if (canvas->width >= NAMES_WIDTH && has_list(scene, i))
            x = canvas_print(canvas, 0, x, TONE_DIM, " %s ", top_list_names[i]);
    x = canvas_item(canvas, 0, x + 2, TONE_NORMAL, "last %s",
                    text_since(text, (uint64_t)state->window_s * NS_PER_S));
    if (state->window_s + TOP_PANE_S < state->span_s)
        x = canvas_item(canvas, 0, x, TONE_NOTE, " of %s",
                        units_format_time_ms(text, sizeof(text), (uint64_t)state->span_s * 1000));
    if (one_in > 1)
        x = canvas_item(canvas, 0, x + 2, TONE_NOTE, "1 in %u sampled, counts scaled", one_in);
    if (canvas->width < NAMES_WIDTH)
        canvas_item(canvas, 0, x + 2, TONE_DIM, "v: next");
    if (state->shown != TOP_CLIENTS || canvas->width < NAMES_WIDTH)
        return;
    limits_text(scene, line, sizeof(line), canvas->width - x - 2);
    canvas_text(canvas, 0, x + 2, TONE_DIM, line);
}

/* Draws a list in short form: counts, bars, keys. */
static void draw_short(const struct scene *scene, const struct canvas *canvas, enum top_list which)
{
    static struct state others[TOP_LISTS];
    struct state *other = &others[which];
    enum { NUMBER = 8, BAR = 8 };

    collect_top_list(other, scene, which);
    canvas_text(canvas, 0, 0, TONE_TITLE, list_titles[which]);
    if (other->view.sketch.used == 0)
        canvas_text(canvas, 1, 0, TONE_DIM, "none");
    for (int i = 0; i < (int)other->view.sketch.used && i + 1 < canvas->height; i++) {
        const struct sketch_entry *entry = &other->view.sketch.entry[i];
        const struct sketch_entry *first = &other->view.sketch.entry[0];
        bool slow = which == TOP_SLOWEST;
        char text[TEXT_SHORT];

        canvas_right(canvas, i + 1, NUMBER, TONE_VALUE,
                     slow ? text_latency(text, entry->longest_ns)
                          : text_count(text, round(certain_of(entry))));
        bar_draw(canvas, i + 1, NUMBER + 1, BAR, scene->style,
                 slow ? entry->longest_ns / first->longest_ns
                      : certain_of(entry) / fmax(certain_of(first), 1),
                 TONE_GRAPH);
        canvas_text(canvas, i + 1, NUMBER + BAR + 2, TONE_NORMAL, entry->key);
    }
}

/* Draws the other lists in two or three columns. */
static void draw_others(const struct state *state, const struct scene *scene,
                        const struct canvas *canvas)
{
    int across = canvas->width >= 150 ? 3 : 2, others = -1, place = 0, width, height;

    for (int i = 0; i < TOP_LISTS; i++)
        others += has_list(scene, i);
    width = canvas->width / across;
    height = canvas->height / ((others + across - 1) / across);
    for (int i = 0; i < TOP_LISTS; i++) {
        struct canvas part;

        if (i == (int)state->shown || !has_list(scene, i))
            continue;
        part = canvas_part(canvas, place / across * height, place % across * width, height - 1,
                           width - 2);
        draw_short(scene, &part, (enum top_list)i);
        place++;
    }
}

static void top_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    const struct layout_part parts[] = {
        {.min = 1, .importance = 2},
        {.min = 4, .weight = 1, .importance = 3},
        {.min = canvas->width >= 150 ? 14 : 24, .weight = 1, .importance = 1, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    layout_stack(canvas, parts, canvas->width >= 100 ? 3 : 2, places);
    grid_draw(scene->grid, scene, &places[1]);
    if (places[0].height > 0)
        draw_top_summary(state, scene, &places[0]);
    if (canvas->width >= 100 && places[2].height > 0)
        draw_others(state, scene, &places[2]);
}

static bool top_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;
    char buffer[CLIENT_KEY_TEXT];
    int next = (int)own->shown;
    size_t row;

    if (own->shown == TOP_CLIENTS && client_keys_have(action)) {
        if (grid_subject(scene->grid, &row))
            client_keys_act(scene->controller, client_address(&own->clients.client[row], buffer),
                            action);
        else
            controller_report(scene->controller, true, "select a client first (Up, Down)");
        return true;
    }
    if (action != ACTION_MODE)
        return false;
    do
        next = (next + 1) % TOP_LISTS;
    while (!has_list(scene, next));
    show_list(own, scene->grid, (enum top_list)next);
    grid_update(scene->grid, scene); /* the next key may arrive before the list is drawn */
    return true;
}

static void top_once(void *state, const struct scene *scene, FILE *out)
{
    struct state *own = state;

    for (int i = 0; i < TOP_LISTS; i++) {
        if (!has_list(scene, i))
            continue;
        show_list(own, scene->grid, (enum top_list)i);
        grid_update(scene->grid, scene);
        fprintf(out, "%s%s\n", i > 0 ? "\n" : "", list_titles[i]);
        grid_print(scene->grid, scene, out);
    }
}

static json_t *top_json(void *state, const struct scene *scene)
{
    struct state *own = state;
    json_t *object = json_object();

    for (int i = 0; i < TOP_LISTS; i++) {
        if (!has_list(scene, i))
            continue;
        show_list(own, scene->grid, (enum top_list)i);
        grid_update(scene->grid, scene);
        json_object_set_new(object, top_list_names[i], grid_json(scene->grid, scene));
    }
    json_object_set_new(object, "window_s", json_integer(own->window_s));
    json_object_set_new(object, "requests_seen", json_integer((json_int_t)own->view.seen));
    json_object_set_new(object, "requests_missed", json_integer((json_int_t)own->view.missed));
    return object;
}

static void top_release(void *state)
{
    clients_release(&((struct state *)state)->clients);
}

static const char *const help[] = {
    "The most requested paths, clients, errors, the slowest paths, and the protocols:",
    "versions of HTTP and TLS, cipher suites, groups, resumed sessions.",
    "clients shows open connections by address, how many requests are LEFT of the",
    "burst, and how many were LIMITED (response 429); - means not counted.",
    "On a client, e limits its requests per second, x blocks it, d releases it.",
    "v shows the next list, t sets the window, at most 15 minutes; it is",
    "shorter if older requests are no longer known: \"last 40 s of 5m\".",
    "The first 1024 keys of ten seconds are counted exactly. With more, a count may be",
    "incomplete: 45+ is at least 45, and AT MOST is its upper bound.",
    "Above about 20,000 requests per second and thread the log is sampled, 1 in k,",
    "and the counts are scaled up. The history has its own lists.",
    "With host=NAME in the filter, the lists have only the requests for that host,",
    "beginning with those that the log still has.",
    NULL};

/* Other programs limit no clients. */
static const struct view_hint *top_hints(const void *state, const struct scene *scene)
{
    static const struct view_hint hints[] = {{ACTION_MODE, "list", false, HINT_ALWAYS},
                                             {ACTION_OPEN, "requests", false, HINT_ROWS},
                                             {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint hints_of_clients[] = {
        {ACTION_MODE, "list", false, HINT_ALWAYS},   {ACTION_OPEN, "requests", false, HINT_ROWS},
        {ACTION_EDIT, "limit", true, HINT_ROWS},     {ACTION_STOP, "block", true, HINT_ROWS},
        {ACTION_REMOVE, "release", true, HINT_ROWS}, {ACTION_NONE, "", false, HINT_ALWAYS}};
    const struct state *own = state;

    return own->shown == TOP_CLIENTS && scene_is_webserverd(scene) ? hints_of_clients : hints;
}

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("REQ/S", requests),
    METRIC_NUMBER("CONNS", connections_open),
    METRIC_NUMBER("LIMITED", requests_limited),
    NUMBERS_END,
};

const struct view view_top = {
    .name = "top",
    .action = ACTION_VIEW_TOP,
    .has_span = true,
    .section = SEGMENT_RINGS,
    .empty = "No request in this time range. t extends it; 7, then r starts load.",
    .hints_now = top_hints,
    .numbers = numbers,
    .help = help,
    .wants = WANT_CLIENTS,
    .state_size = sizeof(struct state),
    .list = &lists[TOP_PATHS],
    .lists = lists,
    .list_count = TOP_LISTS,
    .ready = top_ready,
    .draw = top_draw,
    .key = top_key,
    .once = top_once,
    .json = top_json,
    .release = top_release,
};
