#include "loadgen/report/plot_text.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 64, ROWS = 10, LABELS = 12, LABEL_GAP = 2 };

/* Of a line: its points, and what lies between two of them. */
static const char marks[PLOT_LINES_MAX + 1] = "ox+*#@";
enum { BETWEEN = '.' };

struct canvas {
    struct plot_scale x, y;
    char cell[ROWS][COLUMNS + 1];
};

/* From 0 to 1 on the axis. */
static double part(const struct plot_scale *scale, double value)
{
    if (scale->logarithmic)
        return log(value / scale->least) / log(scale->most / scale->least);
    return (value - scale->least) / (scale->most - scale->least);
}

static long place(double part, int count)
{
    return lround(fmin(fmax(part, 0), 1) * (count - 1));
}

static char *cell_at(struct canvas *canvas, double x, double y)
{
    return &canvas->cell[ROWS - 1 - place(y, ROWS)][place(x, COLUMNS)];
}

static bool is_shown(const struct canvas *canvas, const struct plot_point *point)
{
    return (!canvas->x.logarithmic || point->x > 0) && (!canvas->y.logarithmic || point->y > 0) &&
           isfinite(point->x) && isfinite(point->y);
}

static struct plot_point on_canvas(const struct canvas *canvas, const struct plot_point *point)
{
    return (struct plot_point){part(&canvas->x, point->x), part(&canvas->y, point->y)};
}

/* Never over a point of another line. */
static void connect(struct canvas *canvas, struct plot_point from, struct plot_point to)
{
    for (int i = 1; i < COLUMNS; i++) {
        double way = (double)i / COLUMNS;
        char *cell =
            cell_at(canvas, from.x + (to.x - from.x) * way, from.y + (to.y - from.y) * way);

        if (*cell == ' ')
            *cell = BETWEEN;
    }
}

static void draw_line(struct canvas *canvas, const struct plot_line *line, char mark)
{
    struct plot_point before = {0, 0};
    bool begun = false;

    for (size_t i = 0; i < line->count; i++) {
        struct plot_point now;

        if (!is_shown(canvas, &line->points[i]))
            continue;
        now = on_canvas(canvas, &line->points[i]);
        if (begun)
            connect(canvas, before, now);
        *cell_at(canvas, now.x, now.y) = mark;
        before = now;
        begun = true;
    }
}

/* The label of the tick that lies in that row, or "". */
static const char *label_of_row(const struct canvas *canvas, int row)
{
    for (size_t i = 0; i < canvas->y.tick_count; i++)
        if (ROWS - 1 - place(part(&canvas->y, canvas->y.tick[i].at), ROWS) == row)
            return canvas->y.tick[i].label;
    return "";
}

/* Bytes of LABEL that stand for WIDTH columns: "µ" takes two for one. */
static int bytes_for(const char *label, int width)
{
    for (; *label != '\0'; label++)
        width += ((unsigned char)*label & 0xC0) == 0x80;
    return width;
}

static void put_rows(FILE *out, const struct canvas *canvas)
{
    for (int row = 0; row < ROWS; row++) {
        const char *label = label_of_row(canvas, row);
        size_t length = COLUMNS;

        while (length > 0 && canvas->cell[row][length - 1] == ' ')
            length--;
        fprintf(out, "%*s |%.*s\n", bytes_for(label, LABELS), label, (int)length,
                canvas->cell[row]);
    }
    fprintf(out, "%*s +", LABELS, "");
    for (int i = 0; i < COLUMNS; i++)
        fputc('-', out);
    fputc('\n', out);
}

/* Labels that would touch the one before are left out. */
static void put_x_labels(FILE *out, const struct canvas *canvas)
{
    int at = 0;

    fprintf(out, "%*s", LABELS + 2, "");
    for (size_t i = 0; i < canvas->x.tick_count; i++) {
        const char *label = canvas->x.tick[i].label;
        int width = (int)strlen(label);
        int begin = (int)place(part(&canvas->x, canvas->x.tick[i].at), COLUMNS) - width / 2;

        begin = begin < 0 ? 0 : begin > COLUMNS - width ? COLUMNS - width : begin;
        if (begin < at + (at > 0 ? LABEL_GAP : 0))
            continue;
        fprintf(out, "%*s%s", begin - at, "", label);
        at = begin + width;
    }
    fputc('\n', out);
}

static void put_legend(FILE *out, const struct plot *plot)
{
    for (size_t i = 0; i < plot->line_count; i++)
        fprintf(out, "%*s%c %s\n", LABELS + 2, "", marks[i], plot->line[i].name);
}

void plot_write_text(FILE *out, const struct plot *plot)
{
    struct canvas canvas;

    if (!plot_has_points(plot))
        return;
    canvas.x = plot_scale_of(plot, true);
    canvas.y = plot_scale_of(plot, false);
    for (int row = 0; row < ROWS; row++) {
        memset(canvas.cell[row], ' ', COLUMNS);
        canvas.cell[row][COLUMNS] = '\0';
    }
    for (size_t i = 0; i < plot->line_count; i++)
        draw_line(&canvas, &plot->line[i], marks[i]);
    fprintf(out, "%s\n", plot->title);
    put_rows(out, &canvas);
    put_x_labels(out, &canvas);
    put_legend(out, plot);
}
