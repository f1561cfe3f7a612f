/* The cache: its entries, memory, evictions and hit ratio, and the hit ratio before and after the
 * last change of size or policy. */

#include "common/clock.h"
#include "common/macros.h"
#include "console/data/server_info.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "console/views/panels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column_number { HITS, SIZE, AGE, COPIES, PATH, COLUMNS };

static const struct column columns[COLUMNS] = {
    [HITS] = {.title = "HITS", .width = 8, .importance = 9, .right = true},
    [SIZE] = {.title = "SIZE", .width = 9, .importance = 8, .right = true, .output = OUTPUT_BYTES},
    [AGE] = {.title = "AGE", .width = 8, .importance = 7, .right = true, .output = OUTPUT_NS},
    [COPIES] = {.title = "COPIES", .width = 6, .importance = 3, .right = true},
    [PATH] = {.title = "PATH", .width = 24, .importance = 10, .stretch = 1, .key = true},
};

enum { HINT_WIDTH = 78 }; /* width of the complete hint */

/* A change of size or policy: the previous values and hit ratio. */
struct change {
    char size_before[32], policy_before[16];
    uint64_t wall_ns; /* 0: no change */
    double ratio_before;
};

struct state {
    enum cache_order order;
    char size[32], policy[16]; /* those in force */
    struct change change;
    const struct cache_row **rows;
    size_t room;
};

static size_t cache_count(void *state, const struct scene *scene)
{
    struct state *own = state;
    const struct cache_row **larger;

    if (scene->moment == MOMENT_PAST)
        return 0;
    if (scene->cache->count > own->room) {
        larger = realloc(own->rows, scene->cache->count * sizeof(*own->rows));
        if (larger == NULL)
            return 0;
        own->rows = larger;
        own->room = scene->cache->count;
    }
    cache_list_sort(scene->cache, own->order, false, own->rows);
    return scene->cache->count;
}

static void cache_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    const struct cache_row *entry = ((struct state *)state)->rows[row];
    uint64_t now = scene->cache->taken_ns;

    cell_count(&cells[HITS], TONE_VALUE, (double)entry->hits);
    cell_bytes(&cells[SIZE], TONE_NORMAL, (double)entry->bytes);
    cell_age(&cells[AGE], TONE_NORMAL, now > entry->stored_ns ? now - entry->stored_ns : 0);
    cell_exact(&cells[COPIES], TONE_DIM, entry->copies);
    cell_text(&cells[PATH], entry->stale == entry->copies ? TONE_DIM : TONE_NORMAL, entry->text);
}

static uint64_t cache_id(void *state, const struct scene *scene, size_t row)
{
    return (uint64_t)(((struct state *)state)->rows[row] - scene->cache->rows);
}

static void cache_detail(void *state, const struct scene *scene, size_t row, FILE *out)
{
    const struct cache_row *entry = ((struct state *)state)->rows[row];
    uint64_t now = scene->cache->taken_ns;
    char text[TEXT_SHORT], bytes[TEXT_SHORT];

    fprintf(out, "path\t%s\n", entry->text);
    fprintf(out, "hits\t%" PRIu64 "\n", entry->hits);
    fprintf(out, "memory\t%s (%" PRIu64 " bytes) in %" PRIu32 " %s\n",
            text_bytes(bytes, (double)entry->bytes), entry->bytes, entry->copies,
            entry->copies == 1 ? "copy" : "copies");
    fprintf(out, "oldest copy\t%s, stored at ",
            text_since(text, now > entry->stored_ns ? now - entry->stored_ns : 0));
    fprintf(out, "%s\n", text_clock(text, entry->stored_ns));
    if (entry->stale > 0)
        fprintf(out, "stale\t%" PRIu32 " out of the cache, but still being sent\n", entry->stale);
    if (scene_allows_changes(scene))
        fprintf(out, "d purges it, x drops everything.\n");
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = cache_count,
    .fill = cache_fill,
    .id = cache_id,
    .detail = cache_detail,
};

static void draw_budget(const struct state *state, const struct scene *scene,
                        const struct canvas *canvas)
{
    double used = (double)model_now(scene->model)->sums[METRIC_cache_bytes];
    double most = (double)model_now(scene->model)->sums[METRIC_cache_limit];
    char text[TEXT_SHORT], other[TEXT_SHORT], line[160] = "";
    int x = canvas_text(canvas, 0, 0, TONE_TITLE, "memory") + 1,
        bar = canvas->width >= 100 ? 30 : 12;

    bar_draw(canvas, 0, x, bar, scene->style, most > 0 ? used / most : 0,
             used > 0.9 * most ? TONE_NOTE : TONE_GRAPH);
    x = canvas_print(canvas, 0, x + bar + 1, TONE_VALUE, "%s of %s", text_bytes(text, used),
                     text_bytes(other, most));
    summary_add(line, sizeof(line), canvas->width - x - 2, "%s in each worker", state->size);
    summary_add(line, sizeof(line), canvas->width - x - 2, "policy %s", state->policy);
    canvas_text(canvas, 0, x + 2, TONE_DIM, line);
}

static void draw_flow(const struct scene *scene, const struct canvas *canvas)
{
    const struct model *model = scene->model;
    const uint64_t *sums = model_now(model)->sums;
    char text[TEXT_SHORT], line[200] = "";
    int width = canvas->width;

    summary_add(line, sizeof(line), width, "hit ratio %s",
                text_percent(text, model_figure(model, FIGURE_cache_hit_ratio)));
    summary_add(line, sizeof(line), width, "entries %" PRIu64, sums[METRIC_cache_entries]);
    summary_add(line, sizeof(line), width, "hits/s %s",
                text_count(text, model_rate(model, METRIC_cache_hits)));
    summary_add(line, sizeof(line), width, "misses/s %s",
                text_count(text, model_rate(model, METRIC_cache_misses)));
    summary_add(line, sizeof(line), width, "evicted/s %s",
                text_count(text, model_rate(model, METRIC_cache_evicted)));
    summary_add(line, sizeof(line), width, "evicted %" PRIu64, sums[METRIC_cache_evicted]);
    summary_add(line, sizeof(line), width, "invalidated %" PRIu64, sums[METRIC_cache_invalidated]);
    if (sums[METRIC_bytes_saved] > 0)
        summary_add(line, sizeof(line), width, "saved by codings %s",
                    text_bytes(text, (double)sums[METRIC_bytes_saved]));
    canvas_text(canvas, 0, 0, TONE_NORMAL, line);
}

/* The mean hit ratio over the last SECONDS; seconds without lookups do not count. */
static double mean_ratio(const struct scene *scene, size_t seconds)
{
    double values[SEGMENT_HISTORY_SAMPLES], sum = 0;
    size_t known = 0;

    seconds = seconds < ARRAY_LENGTH(values) ? seconds : ARRAY_LENGTH(values);
    history_series(scene->history, SERIES_HIT_RATIO, values, seconds);
    for (size_t i = 0; i < seconds; i++)
        if (isfinite(values[i])) {
            sum += values[i];
            known++;
        }
    return known > 0 ? sum / (double)known : NAN;
}

static void draw_change(const struct state *state, const struct scene *scene,
                        const struct canvas *canvas)
{
    const struct change *change = &state->change;
    char before[TEXT_SHORT], after[TEXT_SHORT], since[TEXT_SHORT];
    uint64_t ago = scene->wall_ns > change->wall_ns ? scene->wall_ns - change->wall_ns : 0;

    if (change->wall_ns == 0) {
        canvas_item(canvas, 0, 0, TONE_DIM, "e changes the size, n the policy%s",
                    canvas->width < HINT_WIDTH ? ""
                                               : "; then the hit ratio before and after is here");
        return;
    }
    canvas_print(canvas, 0, 0, TONE_NOTE, "%s %s -> %s %s  hit ratio %s before, %s in the %s since",
                 change->size_before, change->policy_before, state->size, state->policy,
                 text_percent(before, change->ratio_before),
                 text_percent(after, mean_ratio(scene, (size_t)(ago / NS_PER_S))),
                 text_since(since, ago));
}

static void cache_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    bool says_change = ((struct state *)state)->change.wall_ns != 0 || scene_allows_changes(scene);
    const struct layout_part parts[] = {
        {.min = 1, .importance = 5},
        {.min = 1, .importance = 4},
        {.min = says_change, .importance = 2},
        {.min = PANEL_FULL_HEIGHT, .max = 12, .weight = 1, .importance = 1, .gap = 1},
        {.min = 4, .weight = 2, .importance = 6, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    if (places[0].height > 0)
        draw_budget(state, scene, &places[0]);
    if (places[1].height > 0)
        draw_flow(scene, &places[1]);
    if (places[2].height > 0)
        draw_change(state, scene, &places[2]);
    if (places[3].height > 0)
        metric_panel_draw(&panel_cache, scene, &places[3], false);
    if (scene->moment == MOMENT_PAST)
        canvas_text(&places[4], 1, 0, TONE_DIM,
                    "The history does not record the entries; Right returns to now.");
    else
        grid_draw(scene->grid, scene, &places[4]);
    if (scene->grid->sorted_by == 0 && canvas->width >= 60)
        canvas_print(&places[4], 0, canvas->width - 12, TONE_DIM, "v: by %s",
                     cache_order_names[((struct state *)state)->order]);
}

/*
 * Detects changes of size or policy, also by other clients. Not in a recording, where time can go
 * back.
 */
static void cache_update(void *state, const struct scene *scene)
{
    struct state *own = state;
    char size[32], policy[16];

    if (scene->moment == MOMENT_PAST || scene->config[0] == '\0')
        return;
    config_text_value(scene->config, "cache.size", size, sizeof(size));
    config_text_value(scene->config, "cache.policy", policy, sizeof(policy));
    if (own->size[0] != '\0' && scene->moment != MOMENT_REPLAY &&
        (strcmp(size, own->size) != 0 || strcmp(policy, own->policy) != 0)) {
        own->change =
            (struct change){.wall_ns = scene->wall_ns, .ratio_before = mean_ratio(scene, 30)};
        memcpy(own->change.size_before, own->size, sizeof(size));
        memcpy(own->change.policy_before, own->policy, sizeof(policy));
    }
    memcpy(own->size, size, sizeof(size));
    memcpy(own->policy, policy, sizeof(policy));
}

static void new_size(void *context, const char *text)
{
    char line[CONTROLLER_TEXT];

    snprintf(line, sizeof(line), "cache-size %.100s", text);
    controller_command(context, line);
}

static void purge_selected(const struct state *state, const struct scene *scene)
{
    char line[CONTROLLER_TEXT + CACHE_PATH_BYTES];
    size_t row;

    if (!grid_subject(scene->grid, &row)) {
        controller_report(scene->controller, true,
                          "select an entry first (Up, Down), then d purges it");
        return;
    }
    if (state->rows[row]->path[strcspn(state->rows[row]->path, " \t\r\n\v\f")] != '\0') {
        controller_report(scene->controller, true,
                          "the path has blanks, which a command cannot have: purge its directory");
        return;
    }
    if (strlen(state->rows[row]->path) + 1 == CACHE_PATH_BYTES) {
        controller_report(scene->controller, true,
                          "the path is longer than the table keeps: purge its directory");
        return;
    }
    snprintf(line, sizeof(line), "cache-purge %s", state->rows[row]->path);
    controller_command(scene->controller, line);
}

static bool cache_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;

    switch (action) {
    case ACTION_MODE:
        own->order = (enum cache_order)((own->order + 1) % CACHE_ORDERS);
        return true;
    case ACTION_REMOVE:
        purge_selected(own, scene);
        return true;
    case ACTION_STOP:
        controller_command(scene->controller, "cache-flush");
        return true;
    case ACTION_EDIT:
        if (controller_allows_change(scene->controller))
            controller_prompt(scene->controller, "cache size of each worker (64M, 1G): ", own->size,
                              new_size, scene->controller);
        return true;
    case ACTION_NEXT:
        controller_command(scene->controller, strcmp(own->policy, "lru") == 0 ? "cache-policy sieve"
                                                                              : "cache-policy lru");
        return true;
    default:
        return false;
    }
}

static void cache_release(void *state)
{
    free(((struct state *)state)->rows);
}

static json_t *cache_json(void *state, const struct scene *scene)
{
    struct state *own = state;
    const uint64_t *sums = model_now(scene->model)->sums;

    cache_update(own, scene);
    return json_pack(
        "{s:I, s:I, s:s, s:s, s:o, s:I, s:I, s:I, s:o}", "used_bytes",
        (json_int_t)sums[METRIC_cache_bytes], "limit_bytes", (json_int_t)sums[METRIC_cache_limit],
        "size", own->size, "policy", own->policy, "hit_ratio",
        scene_json_number(model_figure(scene->model, FIGURE_cache_hit_ratio)), "evicted",
        (json_int_t)sums[METRIC_cache_evicted], "invalidated",
        (json_int_t)sums[METRIC_cache_invalidated], "saved_bytes",
        (json_int_t)sums[METRIC_bytes_saved], "entries", grid_json(scene->grid, scene));
}

static const char *const help[] = {
    "The entries of the workers' caches, and the memory they use.",
    "COPIES: number of workers that hold the path. HITS: since it was stored.",
    "d purges the selected entry, x drops everything.",
    "e changes the size, n the policy; both show the hit ratio before and after.",
    "v sorts by hits, size, age or path.",
    NULL};

static const struct view_hint hints[] = {
    {ACTION_MODE, "order", false, HINT_ROWS},  {ACTION_NEXT, "policy", true, HINT_ALWAYS},
    {ACTION_EDIT, "size", true, HINT_ALWAYS},  {ACTION_REMOVE, "purge", true, HINT_ROWS},
    {ACTION_STOP, "flush", true, HINT_ALWAYS}, {ACTION_NONE, "", false, HINT_ALWAYS}};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("memory", cache_bytes),
    FIGURE_NUMBER("hit ratio", cache_hit_ratio),
    METRIC_NUMBER("entries", cache_entries),
    METRIC_NUMBER("hits/s", cache_hits),
    METRIC_NUMBER("misses/s", cache_misses),
    METRIC_NUMBER("evicted", cache_evicted),
    METRIC_NUMBER("invalidated", cache_invalidated),
    TEXT_NUMBER("HITS", "Requests that the entry has served since it was stored"),
    TEXT_NUMBER("AGE", "Time since the oldest copy was stored"),
    TEXT_NUMBER("COPIES", "Number of workers that hold the entry"),
    NUMBERS_END,
};

const struct view view_cache = {
    .name = "cache",
    .action = ACTION_VIEW_CACHE,
    .has_span = true,
    .section = SEGMENT_CACHE,
    .empty = "",
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .wants = WANT_CACHE,
    .state_size = sizeof(struct state),
    .list = &list,
    .draw = cache_draw,
    .key = cache_key,
    .json = cache_json,
    .update = cache_update,
    .release = cache_release,
};
