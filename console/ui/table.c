#include "console/ui/table.h"

#include <ctype.h>
#include <string.h>

const char *column_name(const struct column *column, char *buffer)
{
    size_t i;

    if (column->name != NULL)
        return column->name;
    for (i = 0; column->title[i] != '\0' && i < TABLE_NAME_BYTES - 1; i++)
        buffer[i] = isalnum((unsigned char)column->title[i])
                        ? (char)tolower((unsigned char)column->title[i])
                        : '_';
    buffer[i] = '\0';
    return buffer;
}

static int total_width(const int *widths, size_t count)
{
    int total = 0;

    for (size_t i = 0; i < count; i++)
        if (widths[i] > 0)
            total += widths[i] + (total > 0 ? TABLE_GAP : 0);
    return total;
}

static void leave_one_out(const struct column *columns, size_t count, int *widths)
{
    size_t least = count;

    for (size_t i = 0; i < count; i++)
        if (widths[i] > 0 && (least == count || columns[i].importance <= columns[least].importance))
            least = i;
    widths[least] = 0;
}

static size_t shown(const int *widths, size_t count)
{
    size_t columns = 0;

    for (size_t i = 0; i < count; i++)
        columns += widths[i] > 0;
    return columns;
}

static int spare(const struct column *column, int width)
{
    return width > 0 && column->least > 0 ? width - column->least : 0;
}

/* Takes OVER from those that may shrink, if together they have as much. */
static void shrink(const struct column *columns, size_t count, int over, int *widths)
{
    int all = 0;

    for (size_t i = 0; i < count; i++)
        all += spare(&columns[i], widths[i]);
    for (size_t i = 0; i < count && all >= over && over > 0; i++) {
        int part = spare(&columns[i], widths[i]);

        part = part < over ? part : over;
        widths[i] -= part;
        over -= part;
    }
}

/* Those that stretch get LEFT in equal parts, the first also what can't be divided. */
static void stretch(const struct column *columns, size_t count, int left, int *widths)
{
    int takers = 0, part;

    for (size_t i = 0; i < count; i++)
        takers += columns[i].stretch && widths[i] > 0;
    if (takers == 0 || left <= 0)
        return;
    part = left / takers;
    left -= part * takers;
    for (size_t i = 0; i < count; i++) {
        if (!columns[i].stretch || widths[i] == 0)
            continue;
        widths[i] += part + left;
        left = 0;
    }
}

void table_fit(const struct column *columns, size_t count, int width, int *widths)
{
    for (size_t i = 0; i < count; i++)
        widths[i] = columns[i].hidden ? 0 : columns[i].width;
    while (total_width(widths, count) > width && shown(widths, count) > 2)
        leave_one_out(columns, count, widths);
    shrink(columns, count, total_width(widths, count) - width, widths);
    if (total_width(widths, count) > width && shown(widths, count) > 1)
        leave_one_out(columns, count, widths);
    stretch(columns, count, width - total_width(widths, count), widths);
}

static void draw_cell(const struct canvas *canvas, int y, int x, const struct column *column,
                      int width, enum tone tone, const char *text)
{
    struct canvas place = canvas_part(canvas, y, x, 1, width);
    int over = (int)strlen(text) - width;

    if (column->tail && over > 0 && width > 2) {
        canvas_text(&place, 0, 0, TONE_DIM, "..");
        canvas_text(&place, 0, 2, tone, text + over + 2);
    } else if (column->right && over <= 0) {
        canvas_right(&place, 0, width, tone, text);
    } else {
        canvas_text(&place, 0, 0, tone, text);
    }
}

void table_draw_titles(const struct canvas *canvas, int y, const struct column *columns,
                       size_t count, const int *widths)
{
    for (size_t i = 0, x = 0; i < count; i++) {
        if (widths[i] == 0)
            continue;
        draw_cell(canvas, y, (int)x, &columns[i], widths[i], TONE_TITLE, columns[i].title);
        x += (size_t)(widths[i] + TABLE_GAP);
    }
}

void table_draw_row(const struct canvas *canvas, int y, const struct column *columns, size_t count,
                    const int *widths, const struct cell *cells)
{
    for (size_t i = 0, x = 0; i < count; i++) {
        if (widths[i] == 0)
            continue;
        draw_cell(canvas, y, (int)x, &columns[i], widths[i], cells[i].tone, cells[i].text);
        x += (size_t)(widths[i] + TABLE_GAP);
    }
}

void table_print(FILE *out, const struct column *columns, size_t count, const struct cell *cells)
{
    int blanks = 0;

    for (size_t i = 0; i < count; i++) {
        const char *text = cells != NULL ? cells[i].text : columns[i].title;
        int left = columns[i].width - (int)strlen(text);

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
