#include "loadgen/report/document.h"

#include "common/escape.h"
#include "common/units.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An arena: blocks are freed only with the document. A growing array is copied, and its old block
 * stays.
 */
struct document_memory {
    struct document_memory *next;
    max_align_t bytes[];
};

/* ---- Memory ---- */

/* Zeroed. */
static void *allocate(struct document *document, size_t size)
{
    struct document_memory *memory = calloc(1, sizeof(*memory) + size);

    if (memory == NULL) {
        document->failed = true;
        return NULL;
    }
    memory->next = document->memory;
    document->memory = memory;
    return memory->bytes;
}

/* Returns ARRAY, which has COUNT elements, with capacity for one more: a power of two. */
static void *make_room_for_one(struct document *document, void *array, size_t count, size_t size)
{
    void *larger;

    if ((count & (count - 1)) != 0)
        return array;
    larger = allocate(document, (count > 0 ? 2 * count : 1) * size);
    if (larger != NULL && count > 0)
        memcpy(larger, array, count * size);
    return larger;
}

static const char *copy_escaped(struct document *document, const char *text)
{
    size_t size = text != NULL ? ESCAPE_TEXT_BYTES(strlen(text)) : 0;
    char *bytes = text != NULL ? allocate(document, size) : NULL;

    return bytes != NULL ? escape_text(bytes, size, text, strlen(text)) : NULL;
}

/* Returns "" if out of memory. */
PRINTF_LIKE(2, 0)
static const char *format_text(struct document *document, const char *format, va_list arguments)
{
    va_list again;
    const char *escaped;
    char *text;
    int length;

    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = allocate(document, (size_t)length + 1);
    if (text == NULL)
        return "";
    vsnprintf(text, (size_t)length + 1, format, arguments);
    escaped = copy_escaped(document, text);
    return escaped != NULL ? escaped : "";
}

struct document *document_create(const char *program, struct document_layout layout)
{
    struct document *document = calloc(1, sizeof(*document));

    if (document == NULL)
        return NULL;
    document->program = program;
    document->layout = layout;
    document_section(document, NULL, NULL);
    if (!document->failed)
        return document;
    document_free(document);
    errno = ENOMEM;
    return NULL;
}

void document_free(struct document *document)
{
    if (document == NULL)
        return;
    while (document->memory != NULL) {
        struct document_memory *memory = document->memory;

        document->memory = memory->next;
        free(memory);
    }
    free(document);
}

/* ---- Text ---- */

void document_title(struct document *document, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    document->title = format_text(document, format, arguments);
    va_end(arguments);
}

void document_subtitle(struct document *document, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    document->subtitle = format_text(document, format, arguments);
    va_end(arguments);
}

void document_legend(struct document *document, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    document->legend = format_text(document, format, arguments);
    va_end(arguments);
}

void document_fold(struct document *document, const char *text)
{
    document->fold = copy_escaped(document, text);
}

void document_section(struct document *document, const char *heading, const char *link)
{
    struct document_section *sections =
        make_room_for_one(document, document->sections, document->section_count, sizeof(*sections));

    if (sections == NULL)
        return;
    document->sections = sections;
    sections[document->section_count++] = (struct document_section){
        .heading = copy_escaped(document, heading), .link = copy_escaped(document, link)};
}

static struct document_section *last_section(const struct document *document)
{
    return &document->sections[document->section_count - 1];
}

void document_fact(struct document *document, enum document_tone tone, const char *label,
                   const char *format, ...)
{
    struct document_section *section = last_section(document);
    struct document_fact *facts =
        make_room_for_one(document, section->facts, section->fact_count, sizeof(*facts));
    va_list arguments;

    if (facts == NULL)
        return;
    section->facts = facts;
    va_start(arguments, format);
    facts[section->fact_count++] = (struct document_fact){tone, copy_escaped(document, label),
                                                          format_text(document, format, arguments)};
    va_end(arguments);
}

void document_note(struct document *document, enum document_tone tone, const char *lead,
                   const char *format, ...)
{
    struct document_section *section = last_section(document);
    struct document_note *notes =
        make_room_for_one(document, section->notes, section->note_count, sizeof(*notes));
    va_list arguments;

    if (notes == NULL)
        return;
    section->notes = notes;
    va_start(arguments, format);
    notes[section->note_count++] = (struct document_note){tone, copy_escaped(document, lead),
                                                          format_text(document, format, arguments)};
    va_end(arguments);
}

/* ---- Tables ---- */

struct document_table *document_table(struct document *document, const char *title,
                                      const struct document_column *columns, size_t count)
{
    struct document_section *section = last_section(document);
    struct document_table *tables =
        make_room_for_one(document, section->tables, section->table_count, sizeof(*tables));
    struct document_column *copies = allocate(document, count * sizeof(*copies));

    assert(count <= DOCUMENT_COLUMNS_MAX);
    if (tables == NULL || copies == NULL)
        return NULL;
    section->tables = tables;
    for (size_t i = 0; i < count; i++) {
        copies[i] = columns[i];
        copies[i].head = copy_escaped(document, columns[i].head);
    }
    tables[section->table_count++] =
        (struct document_table){.title = copy_escaped(document, title),
                                .column_gap = document->layout.column_gap,
                                .columns = copies,
                                .column_count = count};
    return &tables[section->table_count - 1];
}

static struct document_table *last_table(const struct document *document)
{
    const struct document_section *section = last_section(document);

    return document->failed || section->table_count == 0
               ? NULL
               : &section->tables[section->table_count - 1];
}

void document_row(struct document *document, enum document_tone tone)
{
    struct document_table *table = last_table(document);
    struct document_row *rows;
    const char **cells;

    if (table == NULL)
        return;
    rows = make_room_for_one(document, table->rows, table->row_count, sizeof(*rows));
    cells = allocate(document, table->column_count * sizeof(*cells));
    if (rows == NULL || cells == NULL)
        return;
    for (size_t i = 0; i < table->column_count; i++)
        cells[i] = "";
    table->rows = rows;
    rows[table->row_count++] = (struct document_row){tone, cells};
    document->last_row_cells = 0;
}

void document_cell(struct document *document, const char *format, ...)
{
    const struct document_table *table = last_table(document);
    va_list arguments;

    if (table == NULL || table->row_count == 0 || document->last_row_cells == table->column_count)
        return;
    va_start(arguments, format);
    table->rows[table->row_count - 1].cells[document->last_row_cells++] =
        format_text(document, format, arguments);
    va_end(arguments);
}

/* ---- Plots ---- */

void document_plot(struct document *document, const char *title, struct plot_axis x,
                   struct plot_axis y)
{
    struct document_section *section = last_section(document);
    struct plot *plots =
        make_room_for_one(document, section->plots, section->plot_count, sizeof(*plots));

    document->line = NULL;
    if (plots == NULL)
        return;
    section->plots = plots;
    plots[section->plot_count++] =
        (struct plot){.title = copy_escaped(document, title), .x = x, .y = y};
}

static struct plot *last_plot(const struct document *document)
{
    const struct document_section *section = last_section(document);

    return document->failed || section->plot_count == 0 ? NULL
                                                        : &section->plots[section->plot_count - 1];
}

void document_shade(struct document *document, double to)
{
    struct plot *plot = last_plot(document);

    if (plot != NULL)
        plot->shaded_to = to;
}

void document_line(struct document *document, const char *name, bool smooth)
{
    struct plot *plot = last_plot(document);

    document->line = NULL;
    if (plot == NULL || plot->line_count == PLOT_LINES_MAX)
        return;
    document->line = &plot->line[plot->line_count++];
    *document->line = (struct plot_line){.name = copy_escaped(document, name), .smooth = smooth};
    document->points = NULL;
    document->bars = NULL;
}

void document_point(struct document *document, double x, double y)
{
    document_point_between(document, x, y, NAN, NAN);
}

void document_point_between(struct document *document, double x, double y, double low, double high)
{
    struct plot_line *line = document->line;

    if (line == NULL)
        return;
    document->points =
        make_room_for_one(document, document->points, line->count, sizeof(*document->points));
    document->bars =
        make_room_for_one(document, document->bars, line->count, sizeof(*document->bars));
    if (document->failed) {
        document->line = NULL;
        return;
    }
    document->points[line->count] = (struct plot_point){x, y};
    document->bars[line->count++] = (struct plot_bar){low, high};
    line->points = document->points;
    if (line->bars != NULL || !isnan(low))
        line->bars = document->bars;
}

/* ---- Axes of plots ---- */

/* 1, 2 or 5 times a power of ten, not below VALUE. */
static double round_tick_up(double value)
{
    double power = pow(10, floor(log10(value))), least = value / power * (1 - 1e-9);

    return power * (least <= 1 ? 1 : least <= 2 ? 2 : least <= 5 ? 5 : 10);
}

/* 1, 2 or 5 times a power of ten, not above VALUE. */
static double round_tick_down(double value)
{
    double power = pow(10, floor(log10(value) + 1e-9));

    return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
}

bool plot_shows(const struct plot *plot, const struct plot_point *point)
{
    return isfinite(point->x) && isfinite(point->y) && (!plot->x.logarithmic || point->x > 0) &&
           (!plot->y.logarithmic || point->y > 0);
}

double plot_position(const struct plot_scale *scale, double value)
{
    if (scale->logarithmic)
        return log(value / scale->least) / log(scale->most / scale->least);
    return value / scale->most;
}

/*
 * The scale for values from LEAST to MOST. It ends with MOST, or if ENDS_WITH_TICK with a tick. A
 * long logarithmic axis has ticks at powers of ten only.
 */
static struct plot_scale make_scale(const struct plot_axis *axis, double least, double most,
                                    bool ends_with_tick)
{
    struct plot_scale scale = {.logarithmic = axis->logarithmic, .most = most > 0 ? most : 1};
    double at, step = 0;

    if (axis->logarithmic) {
        scale.least = round_tick_down(least);
        if (ends_with_tick || most <= scale.least)
            scale.most = round_tick_up(fmax(most, scale.least * 2));
    } else {
        step = round_tick_up(scale.most / 5);
        if (ends_with_tick)
            scale.most = ceil(scale.most / step - 1e-9) * step;
    }
    at = scale.least;
    while (scale.tick_count < PLOT_TICKS_MAX && at <= scale.most * (1 + 1e-9)) {
        scale.tick[scale.tick_count].at = at;
        axis->format(scale.tick[scale.tick_count++].label, at);
        at = !scale.logarithmic               ? at + step
             : scale.most / scale.least > 200 ? pow(10, floor(log10(at) + 1e-9) + 1)
                                              : round_tick_up(at * 1.5);
    }
    return scale;
}

bool plot_scales(const struct plot *plot, struct plot_scale *x, struct plot_scale *y)
{
    struct plot_point least = {INFINITY, INFINITY}, most = {-INFINITY, -INFINITY};

    for (size_t i = 0; i < plot->line_count; i++)
        for (size_t k = 0; k < plot->line[i].count; k++) {
            const struct plot_point *point = &plot->line[i].points[k];

            if (!plot_shows(plot, point))
                continue;
            least.x = fmin(least.x, point->x);
            least.y = fmin(least.y, point->y);
            most.x = fmax(most.x, point->x);
            most.y = fmax(most.y, point->y);
        }
    if (most.x < least.x)
        return false;
    *x = make_scale(&plot->x, least.x, most.x, false);
    *y = make_scale(&plot->y, least.y, most.y, true);
    return true;
}

/* Shows decimals if VALUE is fractional: a short axis has such ticks. */
void axis_count(char *label, double value)
{
    if (value < 100)
        snprintf(label, PLOT_LABEL, "%.6g", value);
    else
        units_format_count(label, PLOT_LABEL, value);
}

void axis_rate(char *label, double value)
{
    char text[UNITS_TEXT];

    snprintf(label, PLOT_LABEL, "%.24s/s", units_format_count(text, sizeof(text), value));
}

void axis_seconds(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g s", value);
}

void axis_time(char *label, double value)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
    size_t i = 0;

    while (i < 3 && value < units[i].ns * (1 - 1e-9))
        i++;
    snprintf(label, PLOT_LABEL, "%.6g %s", value / units[i].ns, units[i].name);
}

void axis_mebibytes(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.6g MiB", value);
}

void axis_tail(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g%%", 100 - 100 / value);
}

void axis_percent(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g%%", value);
}
