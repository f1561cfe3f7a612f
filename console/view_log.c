/* The log: the last requests of all threads as they are answered, the newest at the bottom. */

#include "common/macros.h"
#include "console/table.h"
#include "console/text.h"
#include "console/view.h"

#include <inttypes.h>
#include <string.h>

enum column_number { TIME, STATUS, TOOK, BYTES, FROM, CLIENT, THREAD, REQUEST, COLUMNS };

static const struct column columns[COLUMNS] = {
    [TIME] = {.title = "TIME", .width = 12, .importance = 8},
    [STATUS] = {.title = "STATUS", .width = 6, .importance = 10, .right = true},
    [TOOK] = {.title = "TOOK", .width = 7, .importance = 7, .right = true},
    [BYTES] = {.title = "BYTES", .width = 8, .importance = 5, .right = true},
    [FROM] = {.title = "FROM", .width = 7, .importance = 4},
    [CLIENT] = {.title = "CLIENT", .width = 15, .importance = 6},
    [THREAD] = {.title = "SLOT", .width = 4, .importance = 1, .right = true},
    [REQUEST] = {.title = "REQUEST", .width = 22, .importance = 9, .stretch = true},
};

struct state {
    size_t back;         /* lines between the newest and the lowest in sight; 0: following */
    uint64_t seen_total; /* tail_total() when that was so */
    int page;
};

static enum tone status_tone(uint16_t status)
{
    return status >= 500   ? TONE_BAD
           : status >= 400 ? TONE_WARN
           : status >= 300 ? TONE_NOTE
                           : TONE_GOOD;
}

static void fill_cells(struct cell *cells, const struct tail_line *line)
{
    static const size_t size = TABLE_CELL_BYTES;
    enum tone tone = status_tone(line->status);

    for (int i = 0; i < COLUMNS; i++)
        cells[i].tone = TONE_NORMAL;
    text_clock(cells[TIME].text, line->time_ns);
    cells[TIME].tone = TONE_DIM;
    snprintf(cells[STATUS].text, size, "%" PRIu16, line->status);
    cells[STATUS].tone = tone;
    text_latency(cells[TOOK].text, (double)line->duration_ns);
    text_bytes(cells[BYTES].text, (double)line->body_bytes);
    snprintf(cells[FROM].text, size, "%s",
             line->outcome < OUTCOME_COUNT ? outcome_names[line->outcome] : "?");
    tail_address(line, cells[CLIENT].text);
    snprintf(cells[THREAD].text, size, "%" PRIu32, line->thread);
    snprintf(cells[REQUEST].text, size, "%s", line->request);
    cells[REQUEST].tone = tone == TONE_GOOD ? TONE_NORMAL : tone;
}

static bool ready(const struct scene *scene)
{
    return tail_count(scene->tail) > 0;
}

/* While scrolled back, the lines in sight stay the same ones although newer ones come. */
static void hold(struct state *state, const struct tail *tail, int page)
{
    size_t count = tail_count(tail), most = count > (size_t)page ? count - (size_t)page : 0;

    if (state->back > 0)
        state->back += (size_t)(tail_total(tail) - state->seen_total);
    if (state->back > most)
        state->back = most;
    state->seen_total = tail_total(tail);
    state->page = page;
}

static void draw_summary(const struct state *state, const struct scene *scene,
                         const struct canvas *canvas)
{
    char rate[TEXT_SHORT], missed[TEXT_SHORT];
    int x = 0;

    if (state->back > 0)
        x = canvas_print(canvas, 0, x, TONE_WARN, "%zu newer lines below (End follows)",
                         state->back);
    else
        x = canvas_text(canvas, 0, x, TONE_GOOD, "following");
    x = canvas_print(canvas, 0, x + 2, TONE_NORMAL, "%s requests/s",
                     text_count(rate, model_rate(scene->model, METRIC_requests)));
    if (tail_missed(scene->tail) > 0)
        canvas_print(canvas, 0, x + 2, TONE_NOTE, "about %s passed unseen",
                     text_count(missed, (double)tail_missed(scene->tail)));
}

static void draw(void *state, const struct scene *scene, const struct canvas *canvas)
{
    struct state *own = state;
    int page = canvas->height > 2 ? canvas->height - 2 : 0;
    size_t count = tail_count(scene->tail), shown;
    int widths[COLUMNS];

    hold(own, scene->tail, page);
    draw_summary(own, scene, canvas);
    table_fit(columns, COLUMNS, canvas->width, widths);
    table_draw_titles(canvas, 1, columns, COLUMNS, widths);
    shown = count - own->back < (size_t)page ? count - own->back : (size_t)page;
    for (size_t i = 0; i < shown; i++) {
        struct cell cells[COLUMNS];

        fill_cells(cells, tail_line(scene->tail, own->back + shown - 1 - i));
        table_draw_row(canvas, 2 + (int)i, columns, COLUMNS, widths, cells);
    }
}

static bool key(void *state, const struct scene *scene, enum request request)
{
    struct state *own = state;
    size_t page = own->page > 1 ? (size_t)own->page - 1 : 1;

    switch (request) {
    case REQUEST_UP:
        own->back++;
        break;
    case REQUEST_DOWN:
        own->back -= own->back > 0;
        break;
    case REQUEST_PAGE_UP:
        own->back += page;
        break;
    case REQUEST_PAGE_DOWN:
        own->back -= own->back > page ? page : own->back;
        break;
    case REQUEST_FIRST:
        own->back = tail_count(scene->tail);
        break;
    case REQUEST_LAST:
        own->back = 0;
        break;
    default:
        return false;
    }
    return true;
}

static void once(void *state, const struct scene *scene, FILE *out)
{
    struct cell cells[COLUMNS];

    (void)state;
    table_print(out, columns, COLUMNS, NULL);
    for (size_t back = tail_count(scene->tail); back > 0; back--) {
        fill_cells(cells, tail_line(scene->tail, back - 1));
        table_print(out, columns, COLUMNS, cells);
    }
}

static json_t *json(void *state, const struct scene *scene)
{
    json_t *lines = json_array();

    (void)state;
    for (size_t back = tail_count(scene->tail); back > 0; back--) {
        const struct tail_line *line = tail_line(scene->tail, back - 1);
        char address[TAIL_ADDRESS_TEXT];

        json_array_append_new(
            lines,
            json_pack("{s:I, s:i, s:I, s:I, s:s, s:s, s:i, s:s}", "time_ns",
                      (json_int_t)line->time_ns, "status", (int)line->status, "duration_ns",
                      (json_int_t)line->duration_ns, "body_bytes", (json_int_t)line->body_bytes,
                      "outcome", line->outcome < OUTCOME_COUNT ? outcome_names[line->outcome] : "?",
                      "client", tail_address(line, address), "slot", (int)line->thread, "request",
                      line->request));
    }
    return json_pack("{s:o, s:I}", "lines", lines, "passed_unseen",
                     (json_int_t)tail_missed(scene->tail));
}

const struct view view_log = {
    .name = "log",
    .request = REQUEST_VIEW_LOG,
    .empty = "No request has been answered yet. Try: curl http://ADDRESS/ with an address the "
             "server listens on.",
    .state_size = sizeof(struct state),
    .ready = ready,
    .draw = draw,
    .key = key,
    .once = once,
    .json = json,
};
