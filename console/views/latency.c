/*
 * The latency by outcome: a table, a histogram on a logarithmic axis, and a heat map over time on
 * the same scale.
 */

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "console/views/panels.h"

#include <math.h>
#include <string.h>

enum column_number { OUTCOME, RATE, SHARE, MEAN, P50, P90, P99, P999, MAX, COLUMNS };

static const struct column columns[COLUMNS] = {
    [OUTCOME] = {.title = "OUTCOME", .width = 8, .importance = 10, .key = true},
    [RATE] =
        {.title = "REQ/S", .width = 6, .importance = 9, .right = true, .name = "requests_per_s"},
    [SHARE] =
        {.title = "SHARE", .width = 6, .importance = 4, .right = true, .name = "share_percent"},
    [MEAN] = {.title = "MEAN", .width = 7, .importance = 6, .right = true, .output = OUTPUT_NS},
    [P50] = {.title = "P50", .width = 7, .importance = 7, .right = true, .output = OUTPUT_NS},
    [P90] = {.title = "P90", .width = 7, .importance = 5, .right = true, .output = OUTPUT_NS},
    [P99] = {.title = "P99", .width = 7, .importance = 8, .right = true, .output = OUTPUT_NS},
    [P999] = {.title = "P99.9",
              .width = 7,
              .importance = 3,
              .right = true,
              .name = "p99_9",
              .output = OUTPUT_NS},
    [MAX] = {.title = "MAX", .width = 7, .importance = 6, .right = true, .output = OUTPUT_NS},
};

enum {
    BUCKETS = HISTOGRAM_COARSE_BUCKETS,
    RECENT_S = 10,      /* range of the histogram */
    LEAST_BUCKETS = 16, /* minimum range of the axis: a factor of 16 */
    LABEL = 9,          /* columns left of the axis */
    LEGEND_WIDTH = 61,  /* width of the full legend of the histogram */
    HEAT_CELLS = 512 * 128,
};

struct state {
    int shown; /* outcome in the heat map; OUTCOME_ALL comes first */
};

/* The buckets on an axis: FROM to TO - 1. */
struct range {
    uint32_t from, to;
};

static const char *outcome_name(int outcome)
{
    return outcome == OUTCOME_ALL ? "all" : outcome_names[outcome];
}

/*
 * Adds the seconds FROM_S to TO_S (wall clock) to BUCKETS. Over more than 15 minutes, only all
 * outcomes together are known. Returns false if none was recorded.
 */
static bool add_seconds(const struct scene *scene, int outcome, uint64_t from_s, uint64_t to_s,
                        uint64_t *buckets)
{
    bool known = false;

    if (outcome == OUTCOME_ALL && scene->span_s > OUTCOMES_SECONDS)
        return history_latency(scene->history, from_s, to_s, buckets);
    for (uint64_t second = from_s; second < to_s; second++)
        known |= outcomes_second(scene->outcomes, second, outcome, buckets);
    return known;
}

/* Adds up the last SECONDS before the moment shown. */
static void collect_latency(const struct scene *scene, int outcome, int seconds, uint64_t *buckets)
{
    uint64_t end = scene->wall_ns / NS_PER_S + 1;

    memset(buckets, 0, BUCKETS * sizeof(*buckets));
    add_seconds(scene, outcome, end - (uint64_t)seconds, end, buckets);
}

static uint64_t sum_buckets(const uint64_t *buckets)
{
    uint64_t count = 0;

    for (int i = 0; i < BUCKETS; i++)
        count += buckets[i];
    return count;
}

/*
 * A row of the table. Exact when live or frozen; in the history, limited by the width of the
 * buckets.
 */

struct numbers {
    double count, seconds, percentile[4]; /* 50, 90, 99, 99.9 */
    double mean, max;
};

static const double percents[] = {50, 90, 99, 99.9};

static struct numbers numbers_of(const struct scene *scene, int outcome)
{
    const struct histogram *recent = outcomes_recent(scene->outcomes, outcome);
    uint64_t buckets[BUCKETS], count = histogram_count(recent);
    struct numbers numbers = {.seconds = RECENT_S};

    if (scene->moment != MOMENT_PAST &&
        histogram_count(outcomes_recent(scene->outcomes, OUTCOME_ALL)) > 0) {
        numbers.count = (double)count;
        numbers.seconds = (double)outcomes_recent_ns(scene->outcomes) / 1e9;
        numbers.mean = count > 0 ? histogram_mean(recent) : NAN;
        numbers.max = count > 0 ? (double)histogram_max(recent) : NAN;
        for (size_t i = 0; i < ARRAY_LENGTH(percents); i++)
            numbers.percentile[i] =
                count > 0 ? (double)histogram_percentile(recent, percents[i]) : NAN;
        return numbers;
    }
    collect_latency(scene, outcome, RECENT_S, buckets);
    numbers.count = (double)sum_buckets(buckets);
    numbers.mean = outcomes_mean(buckets);
    numbers.max = outcomes_percentile(buckets, 100);
    for (size_t i = 0; i < ARRAY_LENGTH(percents); i++)
        numbers.percentile[i] = outcomes_percentile(buckets, percents[i]);
    return numbers;
}

/* The first row: without outcomes there is only that of all. */
static int first_outcome(const struct scene *scene)
{
    return model_now(scene->model)->server.one_outcome ? OUTCOME_ALL : 0;
}

/* The row below that of all: the waits in the queue between threads, if there is one. */
enum { QUEUE_WAIT = OUTCOME_ALL + 1 };

static bool has_queue_waits(const struct scene *scene)
{
    return scene_has(scene, SEGMENT_QUEUE_WAITS) && scene_sum(scene, METRIC_queue_capacity) > 0;
}

static size_t latency_count(void *state, const struct scene *scene)
{
    (void)state;
    return (size_t)OUTCOME_ALL + 1 + has_queue_waits(scene) - (size_t)first_outcome(scene);
}

/* Of about the last second. */
static void fill_queue_wait(const struct scene *scene, struct cell *cells)
{
    cell_text(&cells[OUTCOME], TONE_NOTE, "in queue");
    cell_rate(&cells[RATE], TONE_VALUE, scene_rate(scene, METRIC_queue_taken));
    cell_latency(&cells[MEAN], TONE_NORMAL, scene_figure(scene, FIGURE_queue_wait_mean));
    for (int i = 0; i < (int)ARRAY_LENGTH(percents); i++)
        cell_latency(&cells[P50 + i], TONE_NORMAL,
                     model_wait_percentile(scene->model, NULL, percents[i]));
    cell_latency(&cells[MAX], TONE_NORMAL, model_wait_percentile(scene->model, NULL, 100));
}

static void latency_fill(void *state, const struct scene *scene, size_t row, struct cell *cells)
{
    int outcome = first_outcome(scene) + (int)row;
    struct numbers numbers, all;
    double rate;

    (void)state;
    if (outcome == QUEUE_WAIT) {
        fill_queue_wait(scene, cells);
        return;
    }
    numbers = numbers_of(scene, outcome);
    all = numbers_of(scene, OUTCOME_ALL);
    rate = numbers.seconds > 0 ? numbers.count / numbers.seconds : NAN;
    cell_text(&cells[OUTCOME], outcome == OUTCOME_ERROR ? TONE_WARN : TONE_NORMAL,
              outcome_name(outcome));
    cell_rate(&cells[RATE], TONE_VALUE, rate);
    cell_percent(&cells[SHARE], TONE_NORMAL, all.count > 0 ? numbers.count / all.count : NAN);
    cell_latency(&cells[MEAN], TONE_NORMAL, numbers.mean);
    for (int i = 0; i < (int)ARRAY_LENGTH(percents); i++)
        cell_latency(&cells[P50 + i], TONE_NORMAL, numbers.percentile[i]);
    cell_latency(&cells[MAX], TONE_NORMAL, numbers.max);
}

static const struct list list = {
    .columns = columns,
    .column_count = COLUMNS,
    .count = latency_count,
    .fill = latency_fill,
};

/* The axis */

static struct range range_of(const uint64_t *buckets)
{
    struct range range = {BUCKETS, 0};

    for (uint32_t i = 0; i < BUCKETS; i++)
        if (buckets[i] > 0) {
            range.from = i < range.from ? i : range.from;
            range.to = i + 1;
        }
    if (range.to == 0)
        return (struct range){40,
                              40 + LEAST_BUCKETS * 2}; /* default: microseconds to a millisecond */
    range.from -= range.from > 0;
    range.to += range.to < BUCKETS;
    while (range.to - range.from < LEAST_BUCKETS) {
        range.from -= range.from > 0;
        range.to += range.to < BUCKETS;
    }
    return range;
}

/* The latency at PART of PARTS of the axis, ns. */
static double axis_value(const struct range *range, int part, int parts)
{
    uint32_t bucket = range->from + (uint32_t)((int64_t)(range->to - range->from) * part / parts);

    return (double)histogram_lowest(bucket << HISTOGRAM_COARSE_SHIFT);
}

/*
 * The count in PART of PARTS of the axis. A bucket wider than a part is divided evenly among its
 * parts.
 */
static double count_in_part(const struct range *range, const uint64_t *buckets, int part, int parts)
{
    double wide = (double)(range->to - range->from) / parts, from = range->from + part * wide;
    double to = from + wide, sum = 0;

    for (uint32_t i = (uint32_t)from; i < to && i < BUCKETS; i++) {
        double low = i > from ? i : from, high = i + 1 < to ? i + 1 : to;

        sum += (double)buckets[i] * (high - low);
    }
    return sum;
}

/* The histogram: bars of one character per outcome */

static wchar_t bar_glyph(const struct scene *scene, int outcome)
{
    static const wchar_t plain[OUTCOME_COUNT] = {L'|', L'#', L'o', L'x'};
    static const wchar_t blocks[OUTCOME_COUNT] = {L'█', L'▓', L'▒', L'x'};

    return scene->ascii ? plain[outcome] : blocks[outcome];
}

static enum tone bar_tone(int outcome)
{
    static const enum tone tones[OUTCOME_COUNT] = {TONE_GRAPH, TONE_NOTE, TONE_WARN,
                                                   TONE_GRAPH_BAD};

    return tones[outcome];
}

static void draw_histogram_legend(const struct scene *scene, const struct canvas *canvas)
{
    static const char *const scales[] = {"height: square root of the count", "sqrt(count)", "sqrt"};
    size_t scale = 0;
    int x = canvas_print(canvas, 0, 0, TONE_TITLE,
                         canvas->width < LEGEND_WIDTH ? "last %d s" : "histogram of the last %d s",
                         RECENT_S) +
            2;

    for (int i = first_outcome(scene); i < OUTCOME_COUNT; i++) {
        canvas_repeat(canvas, 0, x, 1, bar_tone(i), bar_glyph(scene, i));
        x = canvas_text(canvas, 0, x + 2, TONE_DIM, outcome_name(i)) + 2;
    }
    while (scale + 1 < ARRAY_LENGTH(scales) && canvas->width - x < (int)strlen(scales[scale]))
        scale++;
    canvas_right(canvas, 0, canvas->width, TONE_DIM, scales[scale]);
}

static void draw_axis(const struct scene *scene, const struct canvas *canvas,
                      const struct range *range, int y)
{
    enum { APART = 12 };
    char text[TEXT_SHORT];

    canvas_repeat(canvas, y, 0, canvas->width, TONE_DIM, scene->ascii ? L'-' : L'─');
    for (int x = 0; x + APART - 2 <= canvas->width; x += APART) {
        canvas_repeat(canvas, y, x, 1, TONE_DIM, scene->ascii ? L'+' : L'┬');
        canvas_text(canvas, y + 1, x, TONE_DIM,
                    text_latency(text, axis_value(range, x, canvas->width)));
    }
}

/* One column: the outcomes stacked, each in proportion to its count. */
static void draw_bar(const struct scene *scene, const struct canvas *canvas, int x,
                     const double *counts, double most)
{
    double sum = 0, below = 0;
    int height = canvas->height, y = height, top;

    for (int i = 0; i < OUTCOME_COUNT; i++)
        sum += counts[i];
    if (!(sum > 0))
        return;
    top = (int)lround(sqrt(sum / most) * height);
    top = top < 1 ? 1 : top;
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        int until;

        below += counts[i];
        until = height - (int)lround(below / sum * top);
        for (; y > until && y > 0; y--)
            canvas_repeat(canvas, y - 1, x, 1, bar_tone(i), bar_glyph(scene, i));
    }
}

/*
 * Counts the requests in column X of WIDTH by outcome; as those of the first one if outcomes were not
 * recorded. Returns their sum.
 */
static double count_column(const struct range *range, uint64_t buckets[][BUCKETS], int x, int width,
                           double *counts)
{
    double sum = 0;

    for (int i = 0; i < OUTCOME_COUNT; i++)
        sum += counts[i] = count_in_part(range, buckets[i], x, width);
    if (!(sum > 0))
        sum = counts[0] = count_in_part(range, buckets[OUTCOME_ALL], x, width);
    return sum;
}

static void draw_histogram(const struct scene *scene, const struct canvas *canvas,
                           const struct range *range)
{
    struct canvas bars = canvas_part(canvas, 1, 0, canvas->height - 3, canvas->width);
    uint64_t buckets[OUTCOME_COUNT + 1][BUCKETS];
    double counts[OUTCOME_COUNT], most = 0;

    for (int i = 0; i <= OUTCOME_COUNT; i++)
        collect_latency(scene, i, RECENT_S, buckets[i]);
    for (int x = 0; x < bars.width; x++)
        most = fmax(most, count_column(range, buckets, x, bars.width, counts));
    for (int x = 0; x < bars.width; x++) {
        count_column(range, buckets, x, bars.width, counts);
        draw_bar(scene, &bars, x, counts, most);
    }
    draw_histogram_legend(scene, canvas);
    draw_axis(scene, canvas, range, canvas->height - 2);
}

/* The heat map: x is time, y is latency */

static double fill_heat(const struct scene *scene, int outcome, const struct range *range,
                        double *values, int rows, int columns_wide)
{
    uint64_t buckets[BUCKETS], first = scene->wall_ns / NS_PER_S - (uint64_t)scene->span_s + 1;
    double most = 0;

    for (int x = 0; x < columns_wide; x++) {
        int from = x * scene->span_s / columns_wide, to = (x + 1) * scene->span_s / columns_wide;
        bool known;

        memset(buckets, 0, sizeof(buckets));
        known = add_seconds(scene, outcome, first + (uint64_t)from,
                            first + (uint64_t)(to > from ? to : from + 1), buckets);
        for (int y = 0; y < rows; y++) {
            double value = known ? count_in_part(range, buckets, rows - 1 - y, rows) : NAN;

            values[y * columns_wide + x] = value;
            most = value > most ? value : most;
        }
    }
    return most;
}

static void draw_heat_labels(const struct scene *scene, const struct canvas *canvas,
                             const struct range *range, int rows)
{
    char text[TEXT_SHORT];

    for (int y = 0; y < rows; y++) {
        canvas_repeat(canvas, 1 + y, LABEL, 1, TONE_DIM, scene->ascii ? L'|' : L'│');
        if (y % 3 == 0 || y == rows - 1)
            canvas_right(canvas, 1 + y, LABEL - 1, TONE_DIM,
                         text_latency(text, axis_value(range, rows - 1 - y, rows)));
    }
    units_format_time_ms(text, sizeof(text), (uint64_t)scene->span_s * 1000);
    canvas_right(canvas, rows + 1, LABEL - 1, TONE_DIM, text);
    canvas_repeat(canvas, rows + 1, LABEL, 1, TONE_DIM, scene->ascii ? L'+' : L'└');
    canvas_repeat(canvas, rows + 1, LABEL + 1, canvas->width, TONE_DIM, scene->ascii ? L'-' : L'─');
}

static void draw_heat(const struct state *state, const struct scene *scene,
                      const struct canvas *canvas, const struct range *range)
{
    static double values[HEAT_CELLS]; /* too large for the stack */
    int outcome = state->shown == 0 ? OUTCOME_ALL : state->shown - 1, rows = canvas->height - 2;
    struct canvas map = canvas_part(canvas, 1, LABEL + 1, rows, canvas->width);
    struct graph_mark marks[GRAPH_MARKS_MAX];
    int x = canvas_text(canvas, 0, 0, TONE_TITLE, "over time") + 2;
    double most;

    if (map.width < 1 || map.height < 1 || map.width * map.height > HEAT_CELLS)
        return;
    x = canvas_print(canvas, 0, x, TONE_VALUE, "%s", outcome_name(outcome)) + 2;
    if (outcome != OUTCOME_ALL && scene->span_s > OUTCOMES_SECONDS)
        x = canvas_text(canvas, 0, x, TONE_NOTE, "one outcome: kept for 15m") + 2;
    else
        x = canvas_text(canvas, 0, x, TONE_DIM, "(v: next outcome)") + 2;
    if (x + 20 < canvas->width)
        heat_draw_scale(canvas, 0, x, scene->style);
    most = fill_heat(scene, outcome, range, values, map.height, map.width);
    heat_draw(&map, scene->style, values, map.height, map.width, most);
    graph_note(&map, (size_t)map.width, scene->span_s);
    draw_heat_labels(scene, canvas, range, map.height);
    graph_draw_ticks(canvas, map.height + 1, LABEL + 1, map.width, scene->span_s);
    graph_draw_marks(canvas, map.height + 1, LABEL + 1, map.width, GRAPH_BLOCKS, marks,
                     scene_marks(scene, scene->span_s, marks), history_values(scene->span_s));
}

enum { TABLE_WIDTH = 82, PANEL_WIDTH_LEAST = 60 }; /* with the graph beside the table */

static void latency_draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    const struct layout_part parts[] = {
        {.min = 4, .max = OUTCOME_COUNT + 2 + has_queue_waits(scene), .weight = 8, .importance = 3},
        {.min = 5, .weight = 1, .importance = 2, .gap = 1},
        {.min = 5, .weight = 1, .importance = 1, .gap = 1}};
    struct canvas places[ARRAY_LENGTH(parts)];
    uint64_t buckets[BUCKETS];
    struct range range;

    collect_latency(scene, OUTCOME_ALL, scene->span_s, buckets);
    range = range_of(buckets);
    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    if (canvas->width >= TABLE_WIDTH + PANEL_WIDTH_LEAST && places[0].height >= PANEL_FULL_HEIGHT) {
        struct canvas beside =
            canvas_part(&places[0], 0, TABLE_WIDTH, places[0].height, canvas->width);

        metric_panel_draw(&panel_latency, scene, &beside, false);
        places[0].width = TABLE_WIDTH - 4;
    }
    grid_draw(scene->grid, scene, &places[0]);
    if (places[1].height > 0)
        draw_histogram(scene, &places[1], &range);
    if (places[2].height > 0)
        draw_heat(state, scene, &places[2], &range);
}

static bool latency_key(void *state, const struct scene *scene, enum action action)
{
    struct state *own = state;

    (void)scene;
    if (action != ACTION_MODE)
        return false;
    own->shown = (own->shown + 1) % (OUTCOME_COUNT + 1);
    return true;
}

static bool latency_ready(const struct scene *scene)
{
    uint64_t buckets[BUCKETS];

    collect_latency(scene, OUTCOME_ALL, scene->span_s, buckets);
    return sum_buckets(buckets) > 0;
}

static const char *const help[] = {
    "Latency of requests, from their arrival to the last byte sent.",
    "hit: from the cache; miss: from a file; offload: with an offload thread.",
    "The histogram covers 10 s, the heat map the time range (key t).",
    "v shows the heat map of one outcome. Seconds before the console started",
    "are not split by outcome, and those of one outcome are kept for 15 minutes.",
    "in queue: how long connections waited for a thread, in about the last second.",
    NULL};

static const struct view_hint hints[] = {{ACTION_MODE, "outcome", false, HINT_ALWAYS},
                                         {ACTION_NONE, "", false, HINT_ALWAYS}};

/* In the order of the screen. */
static const struct view_number numbers[] = {
    METRIC_NUMBER("REQ/S", requests),
    FIGURE_NUMBER("MEAN", response_time_mean),
    NUMBERS_END,
};

const struct view view_latency = {
    .name = "latency",
    .short_name = "lat",
    .action = ACTION_VIEW_LATENCY,
    .has_span = true,
    .empty = "No request in this time range. t extends it; 7, then r starts load.",
    .hints = hints,
    .numbers = numbers,
    .help = help,
    .state_size = sizeof(struct state),
    .list = &list,
    .ready = latency_ready,
    .draw = latency_draw,
    .key = latency_key,
};
