#include "console/ui/panel.h"

#include "common/units.h"
#include "console/ui/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_WIDTH = 9,
    TITLE_WIDTH = 20,
    LEAST_GRAPH_WIDTH = 8,
    HALF_FROM_HEIGHT = 6,
    GRAPH_CELLS = 65536
};

char *panel_number(const struct panel *panel, double value, char *buffer)
{
    return graph_number(panel->unit, value, buffer);
}

/* The graph alone, over the whole canvas. */
static void draw_graph(const struct scene *scene, const struct canvas *canvas, const double *values,
                       size_t count, double top)
{
    static wchar_t cells[GRAPH_CELLS]; /* no memory is asked for with each picture */

    if (canvas->height < 1 || canvas->width < 1 || canvas->height * canvas->width > GRAPH_CELLS)
        return;
    graph_draw(scene->style, values, count, top, canvas->height, canvas->width, cells);
    for (int row = 0; row < canvas->height; row++)
        canvas_cells(canvas, row, 0, canvas->width, TONE_GRAPH, cells + row * canvas->width);
}

static void draw_label(const struct canvas *canvas, int row, const char *label)
{
    canvas_right(canvas, row, LABEL_WIDTH - 1, TONE_DIM, label);
}

/* Scale to the left, span and the mark of the peak below. The lowest line is the axis. */
static void draw_axes(const struct panel *panel, const struct scene *scene,
                      const struct canvas *canvas, double top, int peak_column)
{
    char label[TEXT_SHORT], span[UNITS_TEXT];
    int bottom = canvas->height - 1, width = canvas->width - LABEL_WIDTH - 1;

    for (int row = 0; row < bottom; row++)
        canvas_repeat(canvas, row, LABEL_WIDTH, 1, TONE_DIM, scene->ascii ? L'|' : L'│');
    draw_label(canvas, 0, panel_number(panel, top, label));
    if (bottom >= HALF_FROM_HEIGHT && bottom % 2 == 0 &&
        (panel->unit != GRAPH_COUNT || fmod(top, 2) == 0))
        draw_label(canvas, bottom / 2, panel_number(panel, top / 2, label));
    if (bottom > 1)
        draw_label(canvas, bottom - 1, "0");
    draw_label(canvas, bottom,
               units_format_time_ms(span, sizeof(span), (uint64_t)scene->span_s * 1000));
    canvas_repeat(canvas, bottom, LABEL_WIDTH, 1, TONE_DIM, scene->ascii ? L'+' : L'└');
    canvas_repeat(canvas, bottom, LABEL_WIDTH + 1, width, TONE_DIM, scene->ascii ? L'-' : L'─');
    if (peak_column >= 0)
        canvas_repeat(canvas, bottom, LABEL_WIDTH + 1 + peak_column, 1, TONE_PEAK,
                      scene->ascii ? L'^' : L'▲');
}

/* Name and number; the peak at the right end where there is room for it. */
static void draw_title(const struct panel *panel, const struct scene *scene,
                       const struct canvas *canvas, double peak)
{
    char value[TEXT_SHORT], number[TEXT_SHORT], text[TEXT_SHORT + 8];
    int x;

    panel_number(panel, panel->value(scene), value);
    x = canvas_text(canvas, 0, 0, TONE_TITLE, panel->title) + 2;
    x = canvas_text(canvas, 0, x, TONE_VALUE, value);
    snprintf(text, sizeof(text), "peak %s", panel_number(panel, peak, number));
    if (peak > 0 && x + 2 + (int)strlen(text) <= canvas->width)
        canvas_right(canvas, 0, canvas->width, TONE_PEAK, text);
}

static void draw_small(const struct panel *panel, const struct scene *scene,
                       const struct canvas *canvas, const double *values, double top)
{
    char value[TEXT_SHORT], detail[PANEL_TEXT];
    struct canvas rest = canvas_part(canvas, 0, TITLE_WIDTH + 12, 1, canvas->width);

    panel_number(panel, panel->value(scene), value);
    canvas_text(canvas, 0, 0, TONE_TITLE, panel->title);
    canvas_right(canvas, 0, TITLE_WIDTH + 10, TONE_VALUE, value);
    if (rest.width >= LEAST_GRAPH_WIDTH)
        draw_graph(scene, &rest, values, (size_t)scene->span_s, top);
    if (canvas->height > 1) {
        panel->detail(scene, detail, sizeof(detail));
        canvas_text(canvas, 1, 2, TONE_DIM, detail);
    }
}

static void draw_large(const struct panel *panel, const struct scene *scene,
                       const struct canvas *canvas, const double *values, double top, size_t peak)
{
    size_t count = (size_t)scene->span_s;
    char detail[PANEL_TEXT];
    struct canvas frame = canvas_part(canvas, 2, 0, canvas->height - 2, canvas->width);
    struct canvas inside = canvas_part(&frame, 0, LABEL_WIDTH + 1, frame.height - 1, frame.width);

    draw_title(panel, scene, canvas, peak < count ? values[peak] : 0);
    panel->detail(scene, detail, sizeof(detail));
    canvas_text(canvas, 1, 0, TONE_DIM, detail);
    draw_axes(panel, scene, &frame, top,
              peak < count ? graph_column_of(scene->style, peak, count, inside.width) : -1);
    draw_graph(scene, &inside, values, count, top);
}

/* The second that is not over yet may be the peak already: it then stands for the newest one. */
static size_t peak_with_now(double *values, size_t count, double now)
{
    size_t peak = graph_peak(values, count);

    if (count == 0 || !(now > 0) || (peak < count && now <= values[peak]))
        return peak;
    values[count - 1] = now;
    return count - 1;
}

void panel_draw(const struct panel *panel, const struct scene *scene, const struct canvas *canvas)
{
    size_t count = (size_t)scene->span_s, peak;
    static double values[SEGMENT_HISTORY_SAMPLES];
    double top;

    count = count < SEGMENT_HISTORY_SAMPLES ? count : SEGMENT_HISTORY_SAMPLES;
    history_series(scene->history, panel->series, values, count);
    peak = peak_with_now(values, count, panel->value(scene));
    top = graph_top(panel->unit, peak < count ? values[peak] : 0);
    if (panel->unit == GRAPH_RATIO)
        peak = count; /* the best ratio is no event that one would look for */
    if (canvas->height < PANEL_FULL_HEIGHT || canvas->width < LABEL_WIDTH + LEAST_GRAPH_WIDTH)
        draw_small(panel, scene, canvas, values, top);
    else
        draw_large(panel, scene, canvas, values, top, peak);
}
