#include "console/ui/graph.h"

#include "common/macros.h"
#include "common/units.h"
#include "console/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL_DOTS_HIGH = 4, BLOCK_LEVELS = 8, ASCII_LEVELS = 3 };

/*
 * Offsets from U+2800 for 0 to 4 dots, from the bottom, in the left and the right half of a cell.
 */
static const unsigned char left_dots[CELL_DOTS_HIGH + 1] = {0x00, 0x40, 0x44, 0x46, 0x47};
static const unsigned char right_dots[CELL_DOTS_HIGH + 1] = {0x00, 0x80, 0xa0, 0xb0, 0xb8};

static bool is_gap(double value)
{
    return isinf(value) && value < 0;
}

/*
 * Divides the series into PARTS equal parts; returns the largest value of part PART, or NAN if it
 * has none.
 */
static double largest_in(const double *values, size_t count, size_t part, size_t parts)
{
    size_t from = part * count / parts, to = (part + 1) * count / parts;
    double largest = NAN;

    for (size_t i = from; i < (to > from ? to : from + 1) && i < count; i++)
        if (isnan(largest) || values[i] > largest)
            largest = values[i];
    return largest;
}

/* The number of steps (of LEVELS) that VALUE fills; at least 1 if it is above 0. */
static int steps_of(double value, double top, int levels)
{
    double steps;

    if (!(value > 0) || top <= 0)
        return 0;
    steps = ceil(value / top * levels - 1e-9);
    return steps < 1 ? 1 : steps > levels ? levels : (int)steps;
}

/*
 * A bar of STEPS steps spans ROWS lines of CELL steps each: returns its steps in line ROW (0: top).
 */
static int steps_in_row(int steps, int row, int rows, int cell)
{
    int below = (rows - 1 - row) * cell, here = steps - below;

    return here < 0 ? 0 : here > cell ? cell : here;
}

static void draw_braille_column(const double *values, size_t count, double top, int rows,
                                int columns, int column, wchar_t *cells)
{
    size_t dots = 2 * (size_t)columns, at = 2 * (size_t)column;
    int left = steps_of(largest_in(values, count, at, dots), top, rows * CELL_DOTS_HIGH);
    int right = steps_of(largest_in(values, count, at + 1, dots), top, rows * CELL_DOTS_HIGH);

    for (int row = 0; row < rows; row++) {
        unsigned bits = left_dots[steps_in_row(left, row, rows, CELL_DOTS_HIGH)] |
                        right_dots[steps_in_row(right, row, rows, CELL_DOTS_HIGH)];

        cells[row * columns + column] = bits == 0 ? L' ' : (wchar_t)(0x2800 + bits);
    }
}

static void draw_block_column(enum graph_style style, const double *values, size_t count,
                              double top, int rows, int columns, int column, wchar_t *cells)
{
    static const wchar_t ascii[ASCII_LEVELS + 1] = {L' ', L'.', L':', L'|'};
    int levels = style == GRAPH_ASCII ? ASCII_LEVELS : BLOCK_LEVELS;
    double value = largest_in(values, count, (size_t)column, (size_t)columns);
    int steps = steps_of(value, top, rows * levels);

    for (int row = 0; row < rows; row++) {
        int here = steps_in_row(steps, row, rows, levels);

        cells[row * columns + column] = style == GRAPH_ASCII ? ascii[here]
                                        : here == 0          ? L' '
                                                             : (wchar_t)(0x2580 + here);
    }
}

void graph_draw(enum graph_style style, const double *values, size_t count, double top, int rows,
                int columns, wchar_t *cells)
{
    for (int column = 0; column < columns; column++) {
        if (style == GRAPH_BRAILLE)
            draw_braille_column(values, count, top, rows, columns, column, cells);
        else
            draw_block_column(style, values, count, top, rows, columns, column, cells);
        if (is_gap(largest_in(values, count, (size_t)column, (size_t)columns)))
            cells[(rows - 1) * columns + column] = L'x';
    }
}

/* If several dots show the value, the middle one counts. */
int graph_column_of(enum graph_style style, size_t index, size_t count, int columns)
{
    size_t wide = style == GRAPH_BRAILLE ? 2 : 1; /* horizontal dots per column */
    size_t dots = (size_t)columns * wide, first = index * dots / count, last;

    while (first * count / dots < index && (first + 1) * count / dots <= index)
        first++;
    last = first;
    while (last + 1 < dots && (last + 1) * count / dots == index)
        last++;
    return (int)((first + last) / 2 / wide);
}

void graph_draw_marks(const struct canvas *canvas, int y, int x, int columns,
                      enum graph_style style, const struct graph_mark *marks, size_t mark_count,
                      size_t count)
{
    for (int severe = 0; severe <= 1; severe++)
        for (size_t i = 0; i < mark_count; i++)
            if (marks[i].severe == (severe != 0) && marks[i].index < count)
                canvas_repeat(canvas, y, x + graph_column_of(style, marks[i].index, count, columns),
                              1, severe != 0 ? TONE_BAD : TONE_NOTE, (wchar_t)marks[i].letter);
}

size_t graph_peak(const double *values, size_t count)
{
    size_t peak = count;

    for (size_t i = 0; i < count; i++)
        if (values[i] > 0 && (peak == count || values[i] >= values[peak]))
            peak = i;
    return peak;
}

double graph_top(enum graph_unit unit, double peak)
{
    static const double steps[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};
    double power = 1;

    if (unit == GRAPH_RATIO)
        return 1;
    if (!(peak > 1) || isinf(peak))
        return unit == GRAPH_TIME ? 1000 : 1;
    if (unit == GRAPH_BYTES) {
        while (power < peak)
            power *= 2;
        return power;
    }
    power = pow(10, floor(log10(peak)));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (peak <= steps[i] * power * (1 + 1e-9))
            return steps[i] * power;
    return 10 * power;
}

bool graph_decades(const double *values, size_t count, double *floor_value, double *top)
{
    enum { DECADES_MAX = 6 };
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < count; i++)
        if (values[i] > 0 && isfinite(values[i])) {
            least = fmin(least, values[i]);
            most = fmax(most, values[i]);
        }
    if (most <= 0)
        return false;
    *top = pow(10, ceil(log10(most) - 1e-9));
    *floor_value = fmax(pow(10, floor(log10(least) + 1e-9)), *top / pow(10, DECADES_MAX));
    if (*floor_value >= *top)
        *floor_value = *top / 10;
    return true;
}

double graph_logarithm(double value, double floor_value, double top)
{
    if (isnan(value) || is_gap(value) || value <= 0)
        return value > 0 || isnan(value) || is_gap(value) ? value : 0;
    return value <= floor_value ? 1e-6 : log(value / floor_value) / log(top / floor_value);
}

char *graph_number(enum graph_unit unit, double value, char *buffer)
{
    switch (unit) {
    case GRAPH_COUNT:
        return text_count(buffer, value);
    case GRAPH_BYTES:
        return text_bytes(buffer, value);
    case GRAPH_TIME:
        return text_latency(buffer, value);
    case GRAPH_RATIO:
        return text_percent(buffer, value);
    }
    return buffer;
}

/* Heat maps and bars */

enum { EIGHTHS = 8, HEAT_STEPS = 5 /* above 0 */ };

/* STEP is 0 (empty) to HEAT_STEPS. */
static void draw_heat_cell(const struct canvas *canvas, int y, int x, enum graph_style style,
                           int step)
{
    static const wchar_t ascii[HEAT_STEPS + 1] = {L' ', L'.', L':', L'+', L'#', L'@'};
    static const wchar_t blocks[HEAT_STEPS + 1] = {L' ', L'·', L'░', L'▒', L'▓', L'█'};
    static const enum tone tones[HEAT_STEPS + 1] = {TONE_DIM,   TONE_GRAPH_LOW, TONE_GRAPH_LOW,
                                                    TONE_GRAPH, TONE_GRAPH,     TONE_GRAPH_HIGH};

    canvas_repeat(canvas, y, x, 1, tones[step], style == GRAPH_ASCII ? ascii[step] : blocks[step]);
}

void heat_draw(const struct canvas *canvas, enum graph_style style, const double *values, int rows,
               int columns, double max)
{
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++) {
            double value = values[y * columns + x];
            int step = value > 0 ? steps_of(sqrt(value), sqrt(max), HEAT_STEPS) : 0;

            if (is_gap(value) && y == rows - 1)
                canvas_repeat(canvas, y, x, 1, TONE_DIM, L'x');
            else if (step > 0)
                draw_heat_cell(canvas, y, x, style, step);
        }
}

int heat_draw_scale(const struct canvas *canvas, int y, int x, enum graph_style style)
{
    x = canvas_text(canvas, y, x, TONE_DIM, "few ");
    for (int step = 1; step <= HEAT_STEPS; step++)
        draw_heat_cell(canvas, y, x++, style, step);
    return canvas_text(canvas, y, x, TONE_DIM, " many");
}

void bar_draw(const struct canvas *canvas, int y, int x, int width, enum graph_style style,
              double ratio, enum tone tone)
{
    int eighths = ratio > 0 ? (int)ceil(fmin(ratio, 1) * width * EIGHTHS - 1e-9) : 0;
    int whole = eighths / EIGHTHS, rest = eighths % EIGHTHS;

    canvas_repeat(canvas, y, x, whole, tone, style == GRAPH_ASCII ? L'#' : L'█');
    if (rest > 0)
        canvas_repeat(canvas, y, x + whole, 1, tone,
                      style == GRAPH_ASCII ? L'-' : (wchar_t)(0x2590 - rest));
}

/* Panel */

enum {
    LABEL_WIDTH = 9,
    TITLE_WIDTH = 20,
    GRAPH_WIDTH_MIN = 8,
    HALF_FROM_HEIGHT = 6,
    GRAPH_CELLS = 65536,
    GRAPH_VALUES = 16384
};

/* What is drawn: the values, as they are or on a logarithmic scale. */
struct scaled {
    const double *values;
    double top;                  /* the value at the upper edge */
    double upper, middle, lower; /* the labels of the scale */
};

static struct scaled scale_of_panel(const struct panel *panel)
{
    static double values[GRAPH_VALUES]; /* static: too large for the stack */
    size_t peak = graph_peak(panel->values, panel->count);
    double floor_value, top;

    if (!panel->logarithmic || panel->unit == GRAPH_RATIO || panel->count > GRAPH_VALUES ||
        !graph_decades(panel->values, panel->count, &floor_value, &top)) {
        top = graph_top(panel->unit, peak < panel->count ? panel->values[peak] : 0);
        return (struct scaled){panel->values, top, top, top / 2, 0};
    }
    for (size_t i = 0; i < panel->count; i++)
        values[i] = graph_logarithm(panel->values[i], floor_value, top);
    return (struct scaled){values, 1, top, sqrt(floor_value * top), floor_value};
}

/* Draws only the graph, over the whole canvas. */
static void draw_graph(const struct panel *panel, const struct canvas *canvas,
                       const struct scaled *scaled)
{
    static wchar_t cells[GRAPH_CELLS]; /* static: too large for the stack */

    if (canvas->height < 1 || canvas->width < 1 || canvas->height * canvas->width > GRAPH_CELLS)
        return;
    graph_draw(panel->style, scaled->values, panel->count, scaled->top, canvas->height,
               canvas->width, cells);
    for (int row = 0; row < canvas->height; row++) {
        enum tone tone = panel->bad                      ? TONE_GRAPH_BAD
                         : 3 * row < canvas->height - 1  ? TONE_GRAPH_HIGH
                         : 3 * row >= 2 * canvas->height ? TONE_GRAPH_LOW
                                                         : TONE_GRAPH;

        canvas_cells(canvas, row, 0, canvas->width, tone, cells + row * canvas->width);
    }
}

static void draw_label(const struct canvas *canvas, int row, const char *label)
{
    canvas_right(canvas, row, LABEL_WIDTH - 1, TONE_DIM, label);
}

void graph_draw_ticks(const struct canvas *canvas, int y, int x, int width, int span_s)
{
    static const int steps_s[] = {15, 60, 300, 900, 7200, 21600};
    enum { ROOM = 10, PARTS_MOST = 5 };
    char text[UNITS_TEXT];
    size_t i = 0;
    int step_s;

    while (i + 1 < ARRAY_LENGTH(steps_s) && span_s > PARTS_MOST * steps_s[i])
        i++;
    step_s = steps_s[i];
    for (int ago_s = step_s; ago_s < span_s; ago_s += step_s) {
        int at = width - 1 - (int)((long)ago_s * width / span_s);

        units_format_time_ms(text, sizeof(text), (uint64_t)ago_s * 1000);
        if ((long)step_s * width / span_s >= ROOM)
            canvas_text(canvas, y, x + at - (int)strlen(text) / 2, TONE_DIM, text);
    }
}

/* The scale on the left; in the last line the axis with the span and the mark of the peak. */
static void draw_axes(const struct panel *panel, const struct canvas *canvas,
                      const struct scaled *scaled, int peak_column)
{
    bool ascii = panel->style == GRAPH_ASCII;
    char label[TEXT_SHORT], span[UNITS_TEXT];
    int bottom = canvas->height - 1, width = canvas->width - LABEL_WIDTH - 1;

    for (int row = 0; row < bottom; row++)
        canvas_repeat(canvas, row, LABEL_WIDTH, 1, TONE_DIM, ascii ? L'|' : L'│');
    draw_label(canvas, 0, graph_number(panel->unit, scaled->upper, label));
    if (bottom >= HALF_FROM_HEIGHT && bottom % 2 == 0 &&
        (panel->unit != GRAPH_COUNT || scaled->lower > 0 || fmod(scaled->upper, 2) == 0))
        draw_label(canvas, bottom / 2, graph_number(panel->unit, scaled->middle, label));
    if (bottom > 1)
        draw_label(canvas, bottom - 1,
                   scaled->lower > 0 ? graph_number(panel->unit, scaled->lower, label) : "0");
    draw_label(canvas, bottom,
               units_format_time_ms(span, sizeof(span), (uint64_t)panel->span_s * 1000));
    canvas_repeat(canvas, bottom, LABEL_WIDTH, 1, TONE_DIM, ascii ? L'+' : L'└');
    canvas_repeat(canvas, bottom, LABEL_WIDTH + 1, width, TONE_DIM, ascii ? L'-' : L'─');
    graph_draw_ticks(canvas, bottom, LABEL_WIDTH + 1, width, panel->span_s);
    if (peak_column >= 0)
        canvas_repeat(canvas, bottom, LABEL_WIDTH + 1 + peak_column, 1, TONE_PEAK,
                      ascii ? L'^' : L'▲');
    graph_draw_marks(canvas, bottom, LABEL_WIDTH + 1, width, panel->style, panel->marks,
                     panel->mark_count, panel->count);
}

/* Title and number; the peak at the right end if there is room. */
static void draw_panel_title(const struct panel *panel, const struct canvas *canvas, double peak)
{
    char value[TEXT_SHORT], number[TEXT_SHORT], text[TEXT_SHORT + 8];
    int x;

    graph_number(panel->unit, panel->now, value);
    x = canvas_text(canvas, 0, 0, panel->selected ? TONE_SELECTED : TONE_TITLE, panel->title) + 2;
    x = canvas_text(canvas, 0, x, TONE_VALUE, value);
    if (panel->logarithmic && panel->unit != GRAPH_RATIO)
        x = canvas_item(canvas, 0, x + 2, TONE_DIM, "log");
    snprintf(text, sizeof(text), "peak %s", graph_number(panel->unit, peak, number));
    if (peak > 0 && x + 2 + (int)strlen(text) <= canvas->width)
        canvas_right(canvas, 0, canvas->width, TONE_PEAK, text);
}

/* Draws as many items of TEXT as fit; ", " or two blanks separate them. */
static void draw_items(const struct canvas *canvas, int y, int x, const char *text)
{
    int length = (int)strlen(text);

    while (length > 0 && x + length > canvas->width)
        do
            length--;
        while (length > 0 && strncmp(text + length, ", ", 2) != 0 &&
               strncmp(text + length, "  ", 2) != 0);
    canvas_print(canvas, y, x, TONE_DIM, "%.*s", length, text);
}

static bool is_small(const struct canvas *canvas)
{
    return canvas->height < PANEL_MIN_HEIGHT || canvas->width < LABEL_WIDTH + GRAPH_WIDTH_MIN;
}

/* Graphs on the screen */

enum { NOTED_MOST = 16 };

static struct {
    struct canvas place;
    size_t count;
    int span_s;
} noted[NOTED_MOST];
static size_t noted_count;

void graph_forget(void)
{
    noted_count = 0;
}

void graph_note(const struct canvas *graph, size_t count, int span_s)
{
    if (noted_count == NOTED_MOST || graph->width < 1 || graph->height < 1 || count == 0)
        return;
    noted[noted_count].place = *graph;
    noted[noted_count].count = count;
    noted[noted_count++].span_s = span_s;
}

long graph_second_at(int y, int x)
{
    for (size_t i = 0; i < noted_count; i++) {
        const struct canvas *place = &noted[i].place;
        size_t count = noted[i].count, index;

        if (!canvas_holds(place, y, x))
            continue;
        index = (2 * (size_t)(x - place->x) + 1) * count / (2 * (size_t)place->width);
        return (long)((count - 1 - index) * (size_t)noted[i].span_s / count);
    }
    return -1;
}

/* Where the graph of a panel on CANVAS is; empty: it has no room for one. */
static struct canvas panel_graph(const struct canvas *canvas)
{
    struct canvas graph = canvas_part(canvas, 0, TITLE_WIDTH + 12, 1, canvas->width);
    int above = canvas->height > PANEL_MIN_HEIGHT ? 2 : 1;

    if (!is_small(canvas))
        return canvas_part(canvas, above, LABEL_WIDTH + 1, canvas->height - above - 1,
                           canvas->width);
    if (graph.width < GRAPH_WIDTH_MIN)
        graph.width = 0;
    return graph;
}

static void draw_small(const struct panel *panel, const struct canvas *canvas,
                       const struct scaled *scaled)
{
    char value[TEXT_SHORT];
    struct canvas rest = panel_graph(canvas);

    graph_number(panel->unit, panel->now, value);
    canvas_text(canvas, 0, 0, panel->selected ? TONE_SELECTED : TONE_TITLE, panel->title);
    canvas_right(canvas, 0, TITLE_WIDTH + 10, TONE_VALUE, value);
    if (rest.width > 0) {
        draw_graph(panel, &rest, scaled);
        graph_note(&rest, panel->count, panel->span_s);
        graph_draw_marks(&rest, rest.height - 1, 0, rest.width, panel->style, panel->marks,
                         panel->mark_count, panel->count);
    }
    if (canvas->height > 1)
        draw_items(canvas, 1, 2, panel->detail);
}

static void draw_large(const struct panel *panel, const struct canvas *canvas,
                       const struct scaled *scaled, size_t peak)
{
    int above = canvas->height > PANEL_MIN_HEIGHT ? 2 : 1;
    struct canvas frame = canvas_part(canvas, above, 0, canvas->height - above, canvas->width);
    struct canvas inside = panel_graph(canvas);
    bool peaked = peak < panel->count;

    draw_panel_title(panel, canvas, peaked ? panel->values[peak] : 0);
    if (above > 1)
        draw_items(canvas, 1, 0, panel->detail);
    draw_axes(panel, &frame, scaled,
              peaked ? graph_column_of(panel->style, peak, panel->count, inside.width) : -1);
    draw_graph(panel, &inside, scaled);
    graph_note(&inside, panel->count, panel->span_s);
}

void panel_draw(const struct panel *panel, const struct canvas *canvas)
{
    size_t peak = graph_peak(panel->values, panel->count);
    struct scaled scaled = scale_of_panel(panel);

    if (panel->unit == GRAPH_RATIO)
        peak = panel->count; /* a ratio has no mark of the peak */
    if (is_small(canvas))
        draw_small(panel, canvas, &scaled);
    else
        draw_large(panel, canvas, &scaled, peak);
}
