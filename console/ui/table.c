#include "console/ui/table.h"

#include "console/ui/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *column_title_name(const struct column *column, char *buffer)
{
    size_t i;

    for (i = 0; column->title[i] != '\0' && i < TABLE_NAME_BYTES - 1; i++)
        buffer[i] = isalnum((unsigned char)column->title[i])
                        ? (char)tolower((unsigned char)column->title[i])
                        : '_';
    buffer[i] = '\0';
    return buffer;
}

const char *column_name(const struct column *column, char *buffer)
{
    return column->name != NULL ? column->name : column_title_name(column, buffer);
}

const char *column_output_name(const struct column *column, char *buffer)
{
    static const char *const suffixes[] = {
        [OUTPUT_PLAIN] = "", [OUTPUT_NS] = "_ns", [OUTPUT_BYTES] = "_bytes", [OUTPUT_TIME] = ""};
    const char *suffix = suffixes[column->output];
    char name[TABLE_NAME_BYTES];

    snprintf(name, sizeof(name), "%s", column_name(column, buffer));
    if (suffix[0] != '\0' && strcmp(name, suffix + 1) == 0)
        suffix = "";
    snprintf(buffer, TABLE_NAME_BYTES, "%.20s%s", name, suffix);
    return buffer;
}

static bool is_same_name(const char *name, const char *word)
{
    for (; *name != '\0' && *word != '\0'; name++, word++)
        if (isalnum((unsigned char)*word) ? *name != tolower((unsigned char)*word) : *name != '_')
            return false;
    return *name == *word;
}

bool column_is_named(const struct column *column, const char *word)
{
    char name[TABLE_NAME_BYTES];

    return is_same_name(column_name(column, name), word) ||
           is_same_name(column_output_name(column, name), word) ||
           is_same_name(column_title_name(column, name), word);
}

static int total_width(const int *widths, size_t count)
{
    int total = 0;

    for (size_t i = 0; i < count; i++)
        if (widths[i] > 0)
            total += widths[i] + (total > 0 ? TABLE_GAP : 0);
    return total;
}

static void drop_column(const struct column *columns, size_t count, int *widths)
{
    size_t least = count;

    for (size_t i = 0; i < count; i++)
        if (widths[i] > 0 && (least == count || columns[i].importance <= columns[least].importance))
            least = i;
    widths[least] = 0;
}

static size_t shown_columns(const int *widths, size_t count)
{
    size_t columns = 0;

    for (size_t i = 0; i < count; i++)
        columns += widths[i] > 0;
    return columns;
}

static int spare_width(const struct column *column, int width)
{
    return width > 0 && column->min_width > 0 ? width - column->min_width : 0;
}

/*
 * Removes OVER characters of width from the columns that may shrink, if they can shrink that much.
 */
static void shrink_columns(const struct column *columns, size_t count, int over, int *widths)
{
    int all = 0;

    for (size_t i = 0; i < count; i++)
        all += spare_width(&columns[i], widths[i]);
    for (size_t i = 0; i < count && all >= over && over > 0; i++) {
        int part = spare_width(&columns[i], widths[i]);

        part = part < over ? part : over;
        widths[i] -= part;
        over -= part;
    }
}

/* Adds the most important of the columns left out, narrower than it wishes, if that fits. */
static void add_narrow_column(const struct column *columns, size_t count, int width, int *widths)
{
    int left = width - total_width(widths, count) - TABLE_GAP;
    size_t next = count;

    for (size_t i = 0; i < count; i++)
        if (widths[i] == 0 && !columns[i].hidden &&
            (next == count || columns[i].importance > columns[next].importance))
            next = i;
    if (next < count && columns[next].min_width > 0 && left >= columns[next].min_width)
        widths[next] = left < columns[next].width ? left : columns[next].width;
}

/* Distributes LEFT characters by weight; the first column also gets the remainder. */
static void stretch_columns(const struct column *columns, size_t count, int left, int *widths)
{
    int weights = 0, part, rest = left;

    for (size_t i = 0; i < count; i++)
        weights += widths[i] > 0 ? columns[i].stretch : 0;
    if (weights == 0 || left <= 0)
        return;
    part = left / weights;
    rest -= part * weights;
    for (size_t i = 0; i < count; i++) {
        if (columns[i].stretch == 0 || widths[i] == 0)
            continue;
        widths[i] += part * columns[i].stretch + rest;
        rest = 0;
    }
}

void table_fit(const struct column *columns, size_t count, int width, int *widths)
{
    for (size_t i = 0; i < count; i++)
        widths[i] = columns[i].hidden ? 0 : columns[i].width;
    while (total_width(widths, count) > width && shown_columns(widths, count) > 2)
        drop_column(columns, count, widths);
    add_narrow_column(columns, count, width, widths);
    shrink_columns(columns, count, total_width(widths, count) - width, widths);
    if (total_width(widths, count) > width && shown_columns(widths, count) > 1)
        drop_column(columns, count, widths);
    stretch_columns(columns, count, width - total_width(widths, count), widths);
}

/* A text that does not fit is cut, and marked as cut. */
static void draw_cell(const struct canvas *canvas, int y, int x, const struct column *column,
                      int width, enum tone tone, const char *text)
{
    struct canvas place = canvas_part(canvas, y, x, 1, width);
    const char *cut = text_cut();
    int over = text_columns(text) - width, dots = text_columns(cut);

    if (over <= 0 && column->right) {
        canvas_right(&place, 0, width, tone, text);
    } else if (over <= 0 || width <= dots) {
        canvas_text(&place, 0, 0, tone, text);
    } else if (column->tail) {
        text += text_fitting(text, over + dots);
        while (text_columns(text) > width - dots || ((unsigned char)*text & 0xc0) == 0x80)
            text++;
        canvas_text(&place, 0, 0, tone == TONE_SELECTED ? tone : TONE_DIM, cut);
        canvas_text(&place, 0, dots, tone, text);
    } else {
        canvas_print(&place, 0, 0, tone, "%.*s", (int)text_fitting(text, width - dots), text);
        canvas_text(&place, 0, width - dots, tone == TONE_SELECTED ? tone : TONE_DIM, cut);
    }
}

void table_draw_row(const struct canvas *canvas, int y, const struct column *columns, size_t count,
                    const int *widths, const struct cell *cells)
{
    int x = 0;

    for (size_t i = 0; i < count; i++) {
        if (widths[i] == 0)
            continue;
        draw_cell(canvas, y, x, &columns[i], widths[i], cells != NULL ? cells[i].tone : TONE_TITLE,
                  cells != NULL ? cells[i].text : columns[i].title);
        x += widths[i] + TABLE_GAP;
    }
}

void table_print(FILE *out, const struct column *columns, size_t count, const struct cell *cells)
{
    int blanks = 0;

    for (size_t i = 0; i < count; i++) {
        const char *text = cells != NULL ? cells[i].text : columns[i].title;
        int left = columns[i].width - text_columns(text);

        if (columns[i].hidden)
            continue;
        left = left < 0 ? 0 : left;
        blanks += columns[i].right ? left : 0;
        if (text[0] != '\0')
            fprintf(out, "%*s%s", blanks, "", text);
        blanks = (text[0] != '\0' ? 0 : blanks) + (columns[i].right ? 0 : left) + TABLE_GAP;
    }
    fputc('\n', out);
}

/* Cells */

void cell_text(struct cell *cell, enum tone tone, const char *text)
{
    size_t length = strnlen(text, sizeof(cell->text) - 1);

    cell->tone = tone;
    memcpy(cell->text, text, length);
    cell->text[length] = '\0';
}

void cell_print(struct cell *cell, enum tone tone, const char *format, ...)
{
    va_list arguments;

    cell->tone = tone;
    va_start(arguments, format);
    vsnprintf(cell->text, sizeof(cell->text), format, arguments);
    va_end(arguments);
}

void cell_count(struct cell *cell, enum tone tone, double count)
{
    cell->tone = tone;
    cell->number = count;
    text_count(cell->text, count);
}

/* Low rates have a decimal, so that one in ten seconds does not show as 0. */
void cell_rate(struct cell *cell, enum tone tone, double per_s)
{
    cell_count(cell, tone, per_s);
    if (per_s >= 0.05 && per_s < 9.95)
        snprintf(cell->text, sizeof(cell->text), "%.1f", per_s);
}

void cell_exact(struct cell *cell, enum tone tone, uint64_t count)
{
    cell->number = (double)count;
    cell_print(cell, tone, "%" PRIu64, count);
}

void cell_bytes(struct cell *cell, enum tone tone, double bytes)
{
    cell->tone = tone;
    cell->number = bytes;
    text_bytes(cell->text, bytes);
}

void cell_latency(struct cell *cell, enum tone tone, double ns)
{
    cell->tone = tone;
    cell->number = ns;
    text_latency(cell->text, ns);
}

void cell_percent(struct cell *cell, enum tone tone, double ratio)
{
    cell->tone = tone;
    cell->number = 100 * ratio;
    text_percent(cell->text, ratio);
}

void cell_age(struct cell *cell, enum tone tone, uint64_t ns)
{
    cell->tone = tone;
    cell->number = (double)ns;
    text_since(cell->text, ns);
}

void cell_clock(struct cell *cell, enum tone tone, uint64_t wall_ns)
{
    cell->tone = tone;
    cell->number = (double)wall_ns;
    cell->time_ns = wall_ns;
    text_clock(cell->text, wall_ns);
}

enum tone status_tone(int status)
{
    return status >= 500   ? TONE_BAD
           : status >= 400 ? TONE_WARN
           : status >= 300 ? TONE_NOTE
                           : TONE_GOOD;
}
