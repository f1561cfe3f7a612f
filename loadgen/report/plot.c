#include "loadgen/report/plot.h"

#include <math.h>

enum {
    WIDTH = 480,
    HEIGHT = 260,
    LEFT = 74,
    RIGHT = 16,
    TOP = 12,
    BOTTOM = 34,
    DOTS_MAX = 40,
    EDGE = 20
};

/* Where an axis begins and ends, and where its ticks are. */
struct span {
    const struct plot_axis *axis;
    double least, most; /* of the axis, not of the values */
    double step;        /* of a linear axis */
};

/* 1, 2 or 5 times a power of ten, not below VALUE. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value))), least = value / power * (1 - 1e-9);

    return power * (least <= 1 ? 1 : least <= 2 ? 2 : least <= 5 ? 5 : 10);
}

/* 1, 2 or 5 times a power of ten, not above VALUE. */
static double round_down(double value)
{
    double power = pow(10, floor(log10(value) + 1e-9));

    return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
}

static bool is_shown(const struct plot *plot, const struct plot_point *point)
{
    return (!plot->x.logarithmic || point->x > 0) && (!plot->y.logarithmic || point->y > 0);
}

/* The least and the greatest values of all lines. Returns false when there is none. */
static bool find_limits(const struct plot *plot, struct plot_point *least, struct plot_point *most)
{
    *least = (struct plot_point){INFINITY, INFINITY};
    *most = (struct plot_point){-INFINITY, -INFINITY};
    for (size_t i = 0; i < plot->line_count; i++)
        for (size_t k = 0; k < plot->line[i].count; k++) {
            const struct plot_point *point = &plot->line[i].points[k];

            if (!is_shown(plot, point))
                continue;
            least->x = fmin(least->x, point->x);
            least->y = fmin(least->y, point->y);
            most->x = fmax(most->x, point->x);
            most->y = fmax(most->y, point->y);
        }
    return most->x >= least->x;
}

static struct span span_of(const struct plot_axis *axis, double least, double most, bool to_tick)
{
    struct span span = {axis, 0, most > 0 ? most : 1, 0};

    if (axis->logarithmic) {
        span.least = round_down(least);
        span.most = to_tick || most <= span.least ? round_up(fmax(most, span.least * 2)) : most;
        return span;
    }
    span.step = round_up(span.most / 5);
    if (to_tick)
        span.most = ceil(span.most / span.step - 1e-9) * span.step;
    return span;
}

/* From 0 at the axis's begin to 1 at its end. */
static double part(const struct span *span, double value)
{
    if (span->axis->logarithmic)
        return log(value / span->least) / log(span->most / span->least);
    return value / span->most;
}

static double column(const struct span *span, double value)
{
    return LEFT + part(span, value) * (WIDTH - LEFT - RIGHT);
}

static double row(const struct span *span, double value)
{
    return HEIGHT - BOTTOM - part(span, value) * (HEIGHT - TOP - BOTTOM);
}

/* The tick behind VALUE: on a long logarithmic axis powers of ten, on a short one also 2 and 5. */
static double next_tick(const struct span *span, double value)
{
    if (!span->axis->logarithmic)
        return value + span->step;
    if (span->most / span->least > 200)
        return pow(10, floor(log10(value) + 1e-9) + 1);
    return round_up(value * 1.5);
}

/* Returns how many TICKS were filled, at most PLOT_TICKS_MAX. */
static size_t fill_ticks(const struct span *span, double *ticks)
{
    double at = span->least;
    size_t count = 0;

    while (count < PLOT_TICKS_MAX && at <= span->most * (1 + 1e-9)) {
        ticks[count++] = at;
        at = next_tick(span, at);
    }
    return count;
}

/* A label near the right edge stands before its tick, so that it is not cut off. */
static void put_x_ticks(FILE *out, const struct span *x)
{
    double ticks[PLOT_TICKS_MAX];
    size_t count = fill_ticks(x, ticks);
    char label[PLOT_LABEL];

    for (size_t i = 0; i < count; i++) {
        double at = column(x, ticks[i]);
        bool near_edge = at > WIDTH - RIGHT - EDGE;

        x->axis->format(label, ticks[i]);
        fprintf(out, "<text class=\"axis\" text-anchor=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                near_edge ? "end" : "middle", near_edge ? WIDTH - 1 : at, HEIGHT - BOTTOM + 20,
                label);
    }
}

static void put_y_ticks(FILE *out, const struct span *y)
{
    double ticks[PLOT_TICKS_MAX];
    size_t count = fill_ticks(y, ticks);
    char label[PLOT_LABEL];

    for (size_t i = 0; i < count; i++) {
        y->axis->format(label, ticks[i]);
        fprintf(out,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"axis\" text-anchor=\"end\" "
                "x=\"%d\" y=\"%.1f\">%s</text>\n",
                LEFT, row(y, ticks[i]), WIDTH - RIGHT, LEFT - 8, row(y, ticks[i]) + 5, label);
    }
}

static void put_bars(FILE *out, const struct plot *plot, size_t number, const struct span *x,
                     const struct span *y)
{
    const struct plot_line *line = &plot->line[number];

    for (size_t i = 0; line->bars != NULL && i < line->count; i++) {
        const struct plot_bar *bar = &line->bars[i];

        if (is_shown(plot, &line->points[i]) && bar->low <= bar->high &&
            (bar->low > 0 || !plot->y.logarithmic))
            fprintf(out, "<path class=\"bar line%zu\" d=\"M%.1f %.1fV%.1f\"/>\n", number,
                    column(x, line->points[i].x), row(y, fmax(bar->low, y->least)),
                    row(y, fmin(bar->high, y->most)));
    }
}

static void put_line(FILE *out, const struct plot *plot, size_t number, const struct span *x,
                     const struct span *y)
{
    const struct plot_line *line = &plot->line[number];
    bool begun = false;

    fprintf(out, "<path class=\"line line%zu\" d=\"", number);
    for (size_t i = 0; i < line->count; i++) {
        const struct plot_point *point = &line->points[i];
        bool shown = is_shown(plot, point);

        if (shown)
            fprintf(out, "%c%.1f %.1f", begun ? 'L' : 'M', column(x, point->x), row(y, point->y));
        begun = shown;
    }
    fputs("\"/>\n", out);
    if (line->smooth || line->count > DOTS_MAX)
        return;
    for (size_t i = 0; i < line->count; i++)
        if (is_shown(plot, &line->points[i]))
            fprintf(out, "<circle class=\"line%zu\" r=\"2.5\" cx=\"%.1f\" cy=\"%.1f\"/>\n", number,
                    column(x, line->points[i].x), row(y, line->points[i].y));
}

static void put_legend(FILE *out, const struct plot *plot)
{
    fprintf(out, "<figure>\n<figcaption>%s<span class=\"legend\">", plot->title);
    for (size_t i = 0; i < plot->line_count; i++)
        fprintf(out,
                "<span><svg width=\"26\" height=\"10\" aria-hidden=\"true\"><path class=\"line "
                "line%zu\" d=\"M1 5H25\"/></svg>%s</span>",
                i, plot->line[i].name);
    fputs("</span></figcaption>\n", out);
}

bool plot_has_points(const struct plot *plot)
{
    struct plot_point least, most;

    return find_limits(plot, &least, &most);
}

/* The horizontal axis ends with the last point, the vertical one with a tick. */
static struct span find_span(const struct plot *plot, bool of_x)
{
    struct plot_point least, most;

    find_limits(plot, &least, &most);
    return of_x ? span_of(&plot->x, least.x, most.x, false)
                : span_of(&plot->y, least.y, most.y, true);
}

struct plot_scale plot_scale_of(const struct plot *plot, bool of_x)
{
    struct span span = find_span(plot, of_x);
    struct plot_scale scale = {
        .logarithmic = span.axis->logarithmic, .least = span.least, .most = span.most};
    double ticks[PLOT_TICKS_MAX];

    scale.tick_count = fill_ticks(&span, ticks);
    for (size_t i = 0; i < scale.tick_count; i++) {
        scale.tick[i].at = ticks[i];
        span.axis->format(scale.tick[i].label, ticks[i]);
    }
    return scale;
}

void plot_write(FILE *out, const struct plot *plot)
{
    struct span x, y;

    if (!plot_has_points(plot))
        return;
    x = find_span(plot, true);
    y = find_span(plot, false);
    put_legend(out, plot);
    fprintf(out, "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
            WIDTH, HEIGHT, plot->title);
    if (plot->shaded_to > 0)
        fprintf(out, "<path class=\"shade\" d=\"M%d %dV%dH%.1fV%dz\"/>\n", LEFT, HEIGHT - BOTTOM,
                TOP, column(&x, fmin(plot->shaded_to, x.most)), HEIGHT - BOTTOM);
    put_x_ticks(out, &x);
    put_y_ticks(out, &y);
    for (size_t i = 0; i < plot->line_count; i++)
        put_bars(out, plot, i, &x, &y);
    for (size_t i = 0; i < plot->line_count; i++)
        put_line(out, plot, i, &x, &y);
    fputs("</svg>\n</figure>\n", out);
}
