#include "console/ui/heat.h"

#include <math.h>

enum { EIGHTHS = 8, HEAT_STEPS = 5 /* above nothing */ };

/* 0 (nothing) to HEAT_STEPS. */
static int heat_step(double value, double most)
{
    int step;

    if (!(value > 0) || !(most > 0))
        return 0;
    step = (int)ceil(sqrt(value / most) * HEAT_STEPS - 1e-9);
    return step < 1 ? 1 : step > HEAT_STEPS ? HEAT_STEPS : step;
}

static wchar_t heat_glyph(enum graph_style style, int step)
{
    static const wchar_t ascii[HEAT_STEPS + 1] = {L' ', L'.', L':', L'+', L'#', L'@'};
    static const wchar_t blocks[HEAT_STEPS + 1] = {L' ', L'·', L'░', L'▒', L'▓', L'█'};

    return style == GRAPH_ASCII ? ascii[step] : blocks[step];
}

static enum tone heat_tone(int step)
{
    static const enum tone tones[HEAT_STEPS + 1] = {TONE_DIM,  TONE_COOL, TONE_COOL,
                                                    TONE_GOOD, TONE_WARN, TONE_BAD};

    return tones[step];
}

void heat_draw(const struct canvas *canvas, enum graph_style style, const double *values, int rows,
               int columns, double most)
{
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++) {
            double value = values[y * columns + x];
            bool gap = isinf(value) && value < 0;
            int step = gap ? 0 : heat_step(value, most);

            if (gap && y == rows - 1)
                canvas_repeat(canvas, y, x, 1, TONE_DIM, L'x');
            else if (step > 0)
                canvas_repeat(canvas, y, x, 1, heat_tone(step), heat_glyph(style, step));
        }
}

int heat_draw_scale(const struct canvas *canvas, int y, int x, enum graph_style style)
{
    x = canvas_text(canvas, y, x, TONE_DIM, "few ");
    for (int step = 1; step <= HEAT_STEPS; step++)
        canvas_repeat(canvas, y, x++, 1, heat_tone(step), heat_glyph(style, step));
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
