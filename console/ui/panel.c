#include "console/ui/panel.h"

#include "common/units.h"
#include "console/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_WIDTH = 9,
    TITLE_WIDTH = 20,
    GRAPH_WIDTH_MIN = 8,
    HALF_FROM_HEIGHT = 6,
    GRAPH_CELLS = 65536
};

/* The graph alone, over the whole canvas. */
static void draw_graph(const struct panel *panel, const struct canvas *canvas, double top)
{
    static wchar_t cells[GRAPH_CELLS]; /* static: not allocated for each frame */

    if (canvas->height < 1 || canvas->width < 1 || canvas->height * canvas->width > GRAPH_CELLS)
        return;
    graph_draw(panel->style, panel->values, panel->count, top, canvas->height, canvas->width,
               cells);
    for (int row = 0; row < canvas->height; row++)
        canvas_cells(canvas, row, 0, canvas->width, TONE_GRAPH, cells + row * canvas->width);
}

static void draw_label(const struct canvas *canvas, int row, const char *label)
{
    canvas_right(canvas, row, LABEL_WIDTH - 1, TONE_DIM, label);
}

/* The scale on the left; in the last line the axis with the span and the mark of the peak. */
static void draw_axes(const struct panel *panel, const struct canvas *canvas, double top,
                      int peak_column)
{
    bool ascii = panel->style == GRAPH_ASCII;
    char label[TEXT_SHORT], span[UNITS_TEXT];
    int bottom = canvas->height - 1, width = canvas->width - LABEL_WIDTH - 1;

    for (int row = 0; row < bottom; row++)
        canvas_repeat(canvas, row, LABEL_WIDTH, 1, TONE_DIM, ascii ? L'|' : L'│');
    draw_label(canvas, 0, graph_number(panel->unit, top, label));
    if (bottom >= HALF_FROM_HEIGHT && bottom % 2 == 0 &&
        (panel->unit != GRAPH_COUNT || fmod(top, 2) == 0))
        draw_label(canvas, bottom / 2, graph_number(panel->unit, top / 2, label));
    if (bottom > 1)
        draw_label(canvas, bottom - 1, "0");
    draw_label(canvas, bottom,
               units_format_time_ms(span, sizeof(span), (uint64_t)panel->count * 1000));
    canvas_repeat(canvas, bottom, LABEL_WIDTH, 1, TONE_DIM, ascii ? L'+' : L'└');
    canvas_repeat(canvas, bottom, LABEL_WIDTH + 1, width, TONE_DIM, ascii ? L'-' : L'─');
    if (peak_column >= 0)
        canvas_repeat(canvas, bottom, LABEL_WIDTH + 1 + peak_column, 1, TONE_PEAK,
                      ascii ? L'^' : L'▲');
}

/* Title and number; the peak at the right end if there is room. */
static void draw_title(const struct panel *panel, const struct canvas *canvas, double peak)
{
    char value[TEXT_SHORT], number[TEXT_SHORT], text[TEXT_SHORT + 8];
    int x;

    graph_number(panel->unit, panel->now, value);
    x = canvas_text(canvas, 0, 0, TONE_TITLE, panel->title) + 2;
    x = canvas_text(canvas, 0, x, TONE_VALUE, value);
    snprintf(text, sizeof(text), "peak %s", graph_number(panel->unit, peak, number));
    if (peak > 0 && x + 2 + (int)strlen(text) <= canvas->width)
        canvas_right(canvas, 0, canvas->width, TONE_PEAK, text);
}

static void draw_small(const struct panel *panel, const struct canvas *canvas, double top)
{
    char value[TEXT_SHORT];
    struct canvas rest = canvas_part(canvas, 0, TITLE_WIDTH + 12, 1, canvas->width);

    graph_number(panel->unit, panel->now, value);
    canvas_text(canvas, 0, 0, TONE_TITLE, panel->title);
    canvas_right(canvas, 0, TITLE_WIDTH + 10, TONE_VALUE, value);
    if (rest.width >= GRAPH_WIDTH_MIN)
        draw_graph(panel, &rest, top);
    if (canvas->height > 1)
        canvas_text(canvas, 1, 2, TONE_DIM, panel->detail);
}

static void draw_large(const struct panel *panel, const struct canvas *canvas, double top,
                       size_t peak)
{
    struct canvas frame = canvas_part(canvas, 2, 0, canvas->height - 2, canvas->width);
    struct canvas inside = canvas_part(&frame, 0, LABEL_WIDTH + 1, frame.height - 1, frame.width);
    bool peaked = peak < panel->count;

    draw_title(panel, canvas, peaked ? panel->values[peak] : 0);
    canvas_text(canvas, 1, 0, TONE_DIM, panel->detail);
    draw_axes(panel, &frame, top,
              peaked ? graph_column_of(panel->style, peak, panel->count, inside.width) : -1);
    draw_graph(panel, &inside, top);
}

void panel_draw(const struct panel *panel, const struct canvas *canvas)
{
    size_t peak = graph_peak(panel->values, panel->count);
    double top = graph_top(panel->unit, peak < panel->count ? panel->values[peak] : 0);

    if (panel->unit == GRAPH_RATIO)
        peak = panel->count; /* nobody looks for the best ratio */
    if (canvas->height < PANEL_FULL_HEIGHT || canvas->width < LABEL_WIDTH + GRAPH_WIDTH_MIN)
        draw_small(panel, canvas, top);
    else
        draw_large(panel, canvas, top, peak);
}
