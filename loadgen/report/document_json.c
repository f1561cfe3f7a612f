#include "loadgen/report/document_json.h"

#include <math.h>
#include <string.h>

/* The names of the formats of axes. */
static const struct {
    const char *name;
    void (*format)(char *label, double value);
} formats[] = {{"count", axis_count}, {"rate", axis_rate},           {"seconds", axis_seconds},
               {"time", axis_time},   {"mebibytes", axis_mebibytes}, {"percent", axis_percent}};

static json_t *array_of(size_t count, json_t *(*item)(const void *of, size_t index), const void *of)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, item(of, i));
    return array;
}

/* Text may be NULL. */
static json_t *text_json(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

/* JSON has no NAN and no infinity. */
static json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* ---- Writing ---- */

static json_t *fact_json(const void *section, size_t index)
{
    const struct document_fact *fact = &((const struct document_section *)section)->facts[index];

    return json_pack("{s:i,s:s,s:s}", "tone", (int)fact->tone, "label", fact->label, "text",
                     fact->text);
}

static json_t *note_json(const void *section, size_t index)
{
    const struct document_note *note = &((const struct document_section *)section)->notes[index];

    return json_pack("{s:i,s:s,s:s}", "tone", (int)note->tone, "lead", note->lead, "text",
                     note->text);
}

static json_t *column_json(const void *table, size_t index)
{
    const struct document_column *column = &((const struct document_table *)table)->columns[index];

    return json_pack("{s:o,s:i,s:i}", "head", text_json(column->head), "align", (int)column->align,
                     "width", (int)column->width);
}

static json_t *row_json(const void *of, size_t index)
{
    const struct document_table *table = of;
    json_t *cells = json_array();

    for (size_t i = 0; i < table->column_count; i++)
        json_array_append_new(cells, json_string(table->rows[index].cells[i]));
    return json_pack("{s:i,s:o}", "tone", (int)table->rows[index].tone, "cells", cells);
}

static json_t *table_json(const void *section, size_t index)
{
    const struct document_table *table = &((const struct document_section *)section)->tables[index];

    return json_pack("{s:o,s:i,s:i,s:o,s:o}", "title", text_json(table->title), "media",
                     (int)table->media, "gap", (int)table->gap, "columns",
                     array_of(table->column_count, column_json, table), "rows",
                     array_of(table->row_count, row_json, table));
}

static json_t *axis_json(const struct plot_axis *axis)
{
    const char *format = "count";

    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++)
        if (formats[i].format == axis->format)
            format = formats[i].name;
    return json_pack("{s:b,s:s}", "logarithmic", axis->logarithmic, "format", format);
}

static json_t *point_json(const void *of, size_t index)
{
    const struct plot_line *line = of;
    const struct plot_point *point = &line->points[index];

    if (line->bars == NULL)
        return json_pack("[oo]", number_json(point->x), number_json(point->y));
    return json_pack("[oooo]", number_json(point->x), number_json(point->y),
                     number_json(line->bars[index].low), number_json(line->bars[index].high));
}

static json_t *line_json(const void *plot, size_t index)
{
    const struct plot_line *line = &((const struct plot *)plot)->line[index];

    return json_pack("{s:s,s:b,s:o}", "name", line->name, "smooth", line->smooth, "points",
                     array_of(line->count, point_json, line));
}

static json_t *plot_json(const void *section, size_t index)
{
    const struct plot *plot = &((const struct document_section *)section)->plots[index];

    return json_pack("{s:s,s:o,s:o,s:o,s:o}", "title", plot->title, "x", axis_json(&plot->x), "y",
                     axis_json(&plot->y), "shaded_to", number_json(plot->shaded_to), "lines",
                     array_of(plot->line_count, line_json, plot));
}

static json_t *section_json(const void *document, size_t index)
{
    const struct document_section *section = &((const struct document *)document)->sections[index];

    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "heading", text_json(section->heading), "link",
                     text_json(section->link), "facts",
                     array_of(section->fact_count, fact_json, section), "tables",
                     array_of(section->table_count, table_json, section), "plots",
                     array_of(section->plot_count, plot_json, section), "notes",
                     array_of(section->note_count, note_json, section));
}

json_t *document_to_json(const struct document *document)
{
    if (document->failed)
        return NULL;
    return json_pack("{s:o,s:o,s:o,s:o}", "title", text_json(document->title), "subtitle",
                     text_json(document->subtitle), "legend", text_json(document->legend),
                     "sections", array_of(document->section_count, section_json, document));
}

/* ---- Reading ---- */

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* An enum value; values out of range are those of the first one. */
static int choice_at(const json_t *object, const char *key, int most)
{
    json_int_t value = json_integer_value(json_object_get(object, key));

    return value >= 0 && value <= most ? (int)value : 0;
}

static double number_of(const json_t *number)
{
    return json_is_number(number) ? json_number_value(number) : NAN;
}

static enum document_tone tone_of(const json_t *object)
{
    return (enum document_tone)choice_at(object, "tone", DOCUMENT_QUIET);
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void read_table(struct document *document, const json_t *json)
{
    struct document_column columns[DOCUMENT_COLUMNS_MAX];
    struct document_table *table;
    const json_t *item, *cell;
    size_t count = 0, i, k;

    json_array_foreach(json_object_get(json, "columns"), i, item)
    {
        if (count == DOCUMENT_COLUMNS_MAX)
            return;
        columns[count++] = (struct document_column){
            text_at(item, "head"), (enum document_align)choice_at(item, "align", DOCUMENT_BAR),
            (unsigned)choice_at(item, "width", 1000)};
    }
    if (count == 0)
        return;
    table = document_table(document, text_at(json, "title"), columns, count);
    if (table == NULL)
        return;
    table->media = (enum document_media)choice_at(json, "media", DOCUMENT_IN_HTML);
    table->gap = (unsigned)choice_at(json, "gap", 1000);
    json_array_foreach(json_object_get(json, "rows"), i, item)
    {
        document_row(document, tone_of(item));
        json_array_foreach(json_object_get(item, "cells"), k, cell)
            document_cell(document, "%s", or_empty(json_string_value(cell)));
    }
}

static struct plot_axis axis_of(const json_t *json)
{
    const char *name = text_at(json, "format");
    struct plot_axis axis = {json_is_true(json_object_get(json, "logarithmic")), axis_count};

    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++)
        if (name != NULL && strcmp(formats[i].name, name) == 0)
            axis.format = formats[i].format;
    return axis;
}

static void read_line(struct document *document, const json_t *json)
{
    const json_t *point;
    size_t i;

    document_line(document, or_empty(text_at(json, "name")),
                  json_is_true(json_object_get(json, "smooth")));
    json_array_foreach(json_object_get(json, "points"), i, point) document_point_between(
        document, number_of(json_array_get(point, 0)), number_of(json_array_get(point, 1)),
        number_of(json_array_get(point, 2)), number_of(json_array_get(point, 3)));
}

static void read_plot(struct document *document, const json_t *json)
{
    const json_t *line;
    size_t i;

    document_plot(document, or_empty(text_at(json, "title")), axis_of(json_object_get(json, "x")),
                  axis_of(json_object_get(json, "y")));
    document_shade(document, json_number_value(json_object_get(json, "shaded_to")));
    json_array_foreach(json_object_get(json, "lines"), i, line) read_line(document, line);
}

static void read_section(struct document *document, const json_t *json)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(json, "facts"), i, item)
        document_fact(document, tone_of(item), or_empty(text_at(item, "label")), "%s",
                      or_empty(text_at(item, "text")));
    json_array_foreach(json_object_get(json, "tables"), i, item) read_table(document, item);
    json_array_foreach(json_object_get(json, "plots"), i, item) read_plot(document, item);
    json_array_foreach(json_object_get(json, "notes"), i, item)
        document_note(document, tone_of(item), or_empty(text_at(item, "lead")), "%s",
                      or_empty(text_at(item, "text")));
}

int document_from_json(struct document *document, const json_t *json)
{
    const json_t *sections = json_object_get(json, "sections"), *section;
    size_t i;

    if (json_array_size(sections) == 0)
        return -1;
    if (text_at(json, "title") != NULL)
        document_title(document, "%s", text_at(json, "title"));
    if (text_at(json, "subtitle") != NULL)
        document_subtitle(document, "%s", text_at(json, "subtitle"));
    if (text_at(json, "legend") != NULL)
        document_legend(document, "%s", text_at(json, "legend"));
    json_array_foreach(sections, i, section)
    {
        if (i > 0)
            document_section(document, text_at(section, "heading"), text_at(section, "link"));
        read_section(document, section);
    }
    return document->failed ? -1 : 0;
}
