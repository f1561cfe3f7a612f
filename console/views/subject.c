#include "console/views/subject.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/tables.h"
#include "console/scene/controller.h"
#include "console/ui/table.h"
#include "console/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE_BY_SIDE = 70, ROWS_MAX = 6, LABEL_WIDTH = 14, NUMBERS_WIDTH = 18 };

/* Terms */

/* Returns false if requests have no such column. */
static bool fill_term(const struct filter_word *word, struct subject_term *term)
{
    int column = table_find(word->column, subject_column_names, SUBJECT_COLUMNS);

    term->column = (enum subject_column)column;
    term->negated = word->negated;
    term->whole = word->compare == '=';
    snprintf(term->text, sizeof(term->text), "%s", word->text);
    return column >= 0;
}

int subject_terms(const struct filter *filter, struct subject_term *terms, char *why, size_t size)
{
    for (size_t i = 0; i < filter->words; i++) {
        const struct filter_word *word = &filter->word[i];
        char near[DID_YOU_MEAN_SIZE];

        if (i == SUBJECT_TERMS || strchr(":=", word->compare) == NULL || word->compare == '\0') {
            snprintf(why, size, "at most %d words such as path=/x, client=::1, status:4xx",
                     SUBJECT_TERMS);
            return -1;
        }
        if (!fill_term(word, &terms[i])) {
            snprintf(why, size, "requests have no column '%s'%s", word->column,
                     did_you_mean(near, word->column,
                                  WORD_LIST(subject_column_names, SUBJECT_COLUMNS), ""));
            return -1;
        }
    }
    return (int)filter->words;
}

/* The address of the only client that FILTER selects; NULL: none, or several. */
static const char *client_of(const struct filter *filter)
{
    for (size_t i = 0; i < filter->words; i++)
        if (strcmp(filter->word[i].column, "client") == 0 && filter->word[i].compare == '=' &&
            !filter->word[i].negated && strpbrk(filter->word[i].text, "|?") == NULL)
            return filter->word[i].text;
    return NULL;
}

bool subject_key(const struct scene *scene, const struct filter *filter, enum action action)
{
    const char *client = client_of(filter);

    if (client == NULL || !client_keys_have(action))
        return false;
    client_keys_act(scene->controller, client, action);
    return true;
}

size_t subject_host_terms(const struct filter *filter, struct subject_term *terms)
{
    size_t count = 0;

    for (size_t i = 0; filter != NULL && i < filter->words && count < SUBJECT_TERMS; i++) {
        const struct filter_word *word = &filter->word[i];

        if ((word->compare == ':' || word->compare == '=') && fill_term(word, &terms[count]))
            count += terms[count].column == SUBJECT_HOST;
    }
    return count;
}

/* Bars: label, bar, share, count */

struct bar {
    char label[TEXT_SHORT * 2];
    uint64_t count;
    enum tone tone;
};

static void draw_bars(const struct scene *scene, const struct canvas *canvas, const char *title,
                      const struct bar *bars, size_t count, size_t more)
{
    int width = canvas->width - LABEL_WIDTH - NUMBERS_WIDTH, y = 1;
    uint64_t all = 0, most = 0;
    char share[TEXT_SHORT], number[TEXT_SHORT];

    for (size_t i = 0; i < count; i++) {
        all += bars[i].count;
        most = bars[i].count > most ? bars[i].count : most;
    }
    canvas_text(canvas, 0, 0, TONE_TITLE, title);
    for (size_t i = 0; i < count && y < canvas->height; i++, y++) {
        canvas_text(canvas, y, 0, bars[i].tone, bars[i].label);
        if (width > 0)
            bar_draw(canvas, y, LABEL_WIDTH, width, scene->style,
                     (double)bars[i].count / (double)most, bars[i].tone);
        canvas_right(canvas, y, canvas->width - 9, TONE_NORMAL,
                     text_percent(share, (double)bars[i].count / (double)all));
        canvas_right(canvas, y, canvas->width - 1, TONE_NORMAL,
                     text_count(number, (double)bars[i].count));
    }
    if (more > 0 && y < canvas->height)
        canvas_print(canvas, y, 0, TONE_DIM, "+%zu more", more);
}

static void draw_statuses(const struct scene *scene, const struct canvas *canvas)
{
    struct subject_status statuses[SUBJECT_STATUSES];
    size_t count = subject_statuses(scene->subject, statuses);
    size_t room = canvas->height > 1 ? (size_t)canvas->height - 1 : 0, shown;
    struct bar bars[SUBJECT_STATUSES];

    shown = count > room && room > 0 ? room - 1 : count;
    for (size_t i = 0; i < shown; i++) {
        snprintf(bars[i].label, sizeof(bars[i].label), "%u", statuses[i].status);
        bars[i].count = statuses[i].count;
        bars[i].tone = status_tone(statuses[i].status);
    }
    draw_bars(scene, canvas, "statuses", bars, shown, count - shown);
}

/* The upper ends of the bars of latency are 1, 2 and 5 times a power of ten. */
static uint64_t latency_bound(int number)
{
    static const uint64_t steps[] = {1, 2, 5};
    uint64_t power = 1000;

    for (int i = 0; i < number / 3; i++)
        power *= 10;
    return steps[number % 3] * power;
}

enum { LATENCY_BOUNDS = 24 };

static void draw_latency(const struct scene *scene, const struct canvas *canvas)
{
    const struct histogram *latency = subject_latency(scene->subject);
    uint64_t counts[LATENCY_BOUNDS] = {0};
    int first = 0, last = LATENCY_BOUNDS - 1, rows = canvas->height - 1, wide, count = 0;
    struct bar bars[LATENCY_BOUNDS];
    char text[TEXT_SHORT];

    for (uint32_t i = 0, bound = 0; i < HISTOGRAM_BUCKETS; i++) {
        while (bound + 1 < LATENCY_BOUNDS && histogram_highest(i) > latency_bound((int)bound))
            bound++;
        counts[bound] += atomic_load_explicit(&latency->bucket[i], memory_order_relaxed);
    }
    while (first < last && counts[first] == 0)
        first++;
    while (last > first && counts[last] == 0)
        last--;
    wide = rows > 0 ? (last - first + rows) / rows : 1; /* bounds in each bar */
    for (int from = first; from <= last; from += wide, count++) {
        int to = from + wide - 1 < last ? from + wide - 1 : last;

        bars[count] = (struct bar){.tone = TONE_GRAPH};
        snprintf(bars[count].label, sizeof(bars[count].label), "up to %s",
                 text_latency(text, (double)latency_bound(to)));
        for (int i = from; i <= to; i++)
            bars[count].count += counts[i];
    }
    draw_bars(scene, canvas, "latency", bars, (size_t)count, 0);
}

/* The last requests, newest first */

enum request_column { TIME, STATUS, TOOK, BYTES, OUTCOME, CLIENT, THREAD, REQUEST, COLUMNS };

static const struct column columns[COLUMNS] = {
    [TIME] = {.title = "TIME", .width = 12, .importance = 8, .right = true},
    [STATUS] = {.title = "STATUS", .width = 6, .importance = 10, .right = true},
    [TOOK] = {.title = "TOOK", .width = 7, .importance = 7, .right = true},
    [BYTES] = {.title = "BYTES", .width = 8, .importance = 4, .right = true},
    [OUTCOME] = {.title = "OUTCOME", .width = 7, .importance = 3},
    [CLIENT] = {.title = "CLIENT", .width = 15, .importance = 6},
    [THREAD] = {.title = "THREAD", .width = 7, .importance = 2},
    [REQUEST] = {.title = "REQUEST", .width = 30, .min_width = 16, .importance = 9, .stretch = 1},
};

static void draw_request(const struct canvas *canvas, int y, const int *widths,
                         const struct tail_line *line)
{
    struct cell cells[COLUMNS] = {0};

    cell_clock(&cells[TIME], TONE_DIM, line->time_ns);
    cell_exact(&cells[STATUS], status_tone(line->status), line->status);
    cell_latency(&cells[TOOK], TONE_NORMAL, (double)line->duration_ns);
    cell_bytes(&cells[BYTES], TONE_NORMAL, (double)line->body_bytes);
    cell_text(&cells[OUTCOME], TONE_NORMAL,
              line->outcome < OUTCOME_COUNT ? outcome_names[line->outcome] : "?");
    tail_address(line, cells[CLIENT].text);
    if (line->worker != TAIL_NO_THREAD)
        cell_print(&cells[THREAD], TONE_NORMAL, "%u.%u", line->worker, line->number);
    cell_text(&cells[REQUEST], TONE_NORMAL, line->request);
    table_draw_row(canvas, y, columns, COLUMNS, widths, cells);
}

static void draw_requests(struct scroll *scroll, const struct scene *scene,
                          const struct canvas *canvas)
{
    int widths[COLUMNS], rows = canvas->height - 1;
    size_t count = subject_line_count(scene->subject), newer = 0;

    while (newer < count && subject_line(scene->subject, newer)->time_ns > scene->wall_ns)
        newer++; /* later than the time shown */
    table_fit(columns, COLUMNS, canvas->width, widths);
    table_draw_row(canvas, 0, columns, COLUMNS, widths, NULL);
    scroll_fit(scroll, (int)(count - newer), rows);
    for (int i = 0; i < rows && newer + (size_t)(scroll->top + i) < count; i++)
        draw_request(canvas, i + 1, widths,
                     subject_line(scene->subject, newer + (size_t)(scroll->top + i)));
}

static void draw_rate(const struct scene *scene, const struct canvas *canvas)
{
    static double values[SUBJECT_SECONDS];
    int span_s = scene->span_s < SUBJECT_SECONDS ? scene->span_s : SUBJECT_SECONDS;
    size_t count = (size_t)span_s;
    struct graph_mark marks[GRAPH_MARKS_MAX];
    char detail[PANEL_TEXT], since[TEXT_SHORT], bytes[TEXT_SHORT], total[TEXT_SHORT];
    uint64_t second_ns = scene->wall_ns > NS_PER_S ? scene->wall_ns - NS_PER_S : 0;

    /* the current second is not complete yet */
    subject_rates(scene->subject, second_ns, values, count);
    snprintf(detail, sizeof(detail), "%s %s since %.8s, %s",
             text_count(total, (double)subject_requests(scene->subject)),
             subject_requests(scene->subject) == 1 ? "request" : "requests",
             text_clock(since, subject_since_ns(scene->subject)),
             text_bytes(bytes, (double)subject_bytes(scene->subject)));
    panel_draw(&(struct panel){.title = "requests/s",
                               .unit = GRAPH_COUNT,
                               .logarithmic = scene->logarithmic,
                               .style = scene->style,
                               .now = values[count - 1],
                               .values = values,
                               .count = count,
                               .span_s = span_s,
                               .marks = marks,
                               .mark_count = scene_marks(scene, span_s, marks),
                               .detail = detail},
               canvas);
}

static void draw_subject_title(const struct scene *scene, const struct filter *filter,
                               const struct canvas *canvas)
{
    const struct histogram *latency = subject_latency(scene->subject);
    char mean[TEXT_SHORT], half[TEXT_SHORT], most[TEXT_SHORT], max[TEXT_SHORT];
    int x = canvas_text(canvas, 0, 0, TONE_VALUE, filter->text);

    if (subject_requests(scene->subject) > 0)
        canvas_item(canvas, 0, x + 2, TONE_NORMAL, "mean %s  p50 %s  p99 %s  max %s",
                    text_latency(mean, histogram_mean(latency)),
                    text_latency(half, (double)histogram_percentile(latency, 50)),
                    text_latency(most, (double)histogram_percentile(latency, 99)),
                    text_latency(max, (double)histogram_max(latency)));
}

void subject_draw(struct scroll *scroll, const struct scene *scene, const struct filter *filter,
                  const struct canvas *canvas)
{
    const struct layout_part parts[] = {
        {.min = 1, .importance = 4},
        {.min = 1, .max = 12, .weight = 2, .importance = 2},
        {.min = 2, .max = ROWS_MAX + 1, .weight = 1, .importance = 1},
        {.min = 3, .weight = 2, .importance = 3}};
    struct canvas places[ARRAY_LENGTH(parts)];

    layout_stack(canvas, parts, ARRAY_LENGTH(parts), places);
    draw_subject_title(scene, filter, &places[0]);
    if (subject_requests(scene->subject) == 0) {
        struct canvas rest = canvas_part(canvas, 2, 0, canvas->height - 2, canvas->width);

        canvas_wrapped(&rest, 0, TONE_DIM,
                       "The log has no such request yet. :show with other words looks for others; "
                       "Esc goes back.");
        return;
    }
    if (places[1].height > 0)
        draw_rate(scene, &places[1]);
    if (places[2].height > 0 && canvas->width < SIDE_BY_SIDE) {
        draw_statuses(scene, &places[2]);
    } else if (places[2].height > 0) {
        int height = places[2].height, half = canvas->width / 2;
        struct canvas left = canvas_part(&places[2], 0, 0, height, half - 1);
        struct canvas right = canvas_part(&places[2], 0, half + 1, height, canvas->width);

        draw_statuses(scene, &left);
        draw_latency(scene, &right);
    }
    draw_requests(scroll, scene, &places[3]);
}

static const char *const help[] = {
    "The requests of one path, client, status or thread, or of up to four such",
    "words: :show path=/x status:4xx. It counts what the log still has, and all",
    "that follow. Up and Down scroll the requests. Esc returns to the view below.", NULL};

const struct view_hint *subject_hints(const struct filter *filter, const struct scene *scene)
{
    static const struct view_hint hints[] = {{ACTION_OPEN, "details", false, HINT_SELECTED},
                                             {ACTION_CLOSE, "back", false, HINT_ALWAYS},
                                             {ACTION_NONE, "", false, HINT_ALWAYS}};
    static const struct view_hint hints_of_client[] = {
        {ACTION_OPEN, "details", false, HINT_SELECTED}, {ACTION_CLOSE, "back", false, HINT_ALWAYS},
        {ACTION_EDIT, "limit", true, HINT_ALWAYS},      {ACTION_STOP, "block", true, HINT_ALWAYS},
        {ACTION_REMOVE, "release", true, HINT_ALWAYS},  {ACTION_NONE, "", false, HINT_ALWAYS}};

    return client_of(filter) != NULL && scene_is_webserverd(scene) ? hints_of_client : hints;
}

/* In the order of the screen. */
static const struct view_number numbers[] = {
    FIGURE_NUMBER("mean", response_time_mean),
    TEXT_NUMBER("p50, p99", "Half of the responses, or 99 of 100, took at most this time"),
    TEXT_NUMBER("requests/s",
                "Requests of the subject in the last full second; peak: in the span of the graph"),
    TEXT_NUMBER("since", "Number of its requests, and the time from which on they are counted"),
    TEXT_NUMBER("bytes", "Body bytes of its responses since then"),
    TEXT_NUMBER("statuses", "Its responses by status: share and number since then"),
    TEXT_NUMBER("latency",
                "Its responses by time: those of a bar took longer than the bar above it allows"),
    TEXT_NUMBER(
        "OUTCOME",
        "hit: from a cache; miss; offload: by an offload thread; error: status 400 or above"),
    TEXT_NUMBER("THREAD", "Worker and serving thread"),
    NUMBERS_END,
};

const struct view subject_view = {
    .name = "subject",
    .numbers = numbers,
    .help = help,
};
