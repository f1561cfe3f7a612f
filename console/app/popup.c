#include "console/app/popup.h"

#include "console/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 16384,
    LINES_MOST = 200,
    WIDEST = 110,
    LABEL_MOST = 24,
    FRAME = 2, /* lines and columns of the border */
};

struct lines {
    char text[TEXT_BYTES];
    char *line[LINES_MOST];
    int count;
    int label; /* columns of the widest label */
};

static void write_columns(const struct grid *grid, const struct scene *scene, size_t row, FILE *out)
{
    struct cell cells[TABLE_COLUMNS_MAX];

    grid_fill(grid, scene, row, cells);
    for (size_t i = 0; i < grid->list->column_count; i++)
        fprintf(out, "%s\t%s\n", grid->list->columns[i].title, cells[i].text);
}

static void write_row(struct lines *lines, const struct scene *scene)
{
    const struct grid *grid = scene->grid;
    FILE *out = fmemopen(lines->text, sizeof(lines->text) - 1, "w");
    size_t row;

    if (out == NULL)
        return;
    if (!grid_selected(grid, &row))
        fprintf(out, "It no longer exists.\n");
    else if (grid->list->detail != NULL)
        grid->list->detail(grid->state, scene, row, out);
    else
        write_columns(grid, scene, row, out);
    fclose(out);
}

/* Splits the text into lines and finds the widest label (the text before a tab). */
static void split_lines(struct lines *lines)
{
    char *rest = NULL;

    for (char *line = strtok_r(lines->text, "\n", &rest); line != NULL && lines->count < LINES_MOST;
         line = strtok_r(NULL, "\n", &rest)) {
        int label = (int)strcspn(line, "\t");

        lines->line[lines->count++] = line;
        if (line[label] == '\t' && label <= LABEL_MOST && label > lines->label)
            lines->label = label;
    }
}

static int width_of(const struct lines *lines, int most)
{
    int width = 0;

    for (int i = 0; i < lines->count; i++) {
        const char *tab = strchr(lines->line[i], '\t');
        int length =
            tab != NULL ? lines->label + 2 + (int)strlen(tab + 1) : (int)strlen(lines->line[i]);

        width = length > width ? length : width;
    }
    return width < most ? width : most;
}

static void draw_border(const struct canvas *box, bool ascii)
{
    int bottom = box->height - 1, right = box->width - 1;

    for (int y = 0; y <= bottom; y++)
        canvas_repeat(box, y, 0, box->width, TONE_NORMAL, L' ');
    for (int y = 1; y < bottom; y++) {
        canvas_repeat(box, y, 0, 1, TONE_DIM, ascii ? L'|' : L'│');
        canvas_repeat(box, y, right, 1, TONE_DIM, ascii ? L'|' : L'│');
    }
    for (int y = 0; y <= bottom; y += bottom > 0 ? bottom : 1) {
        canvas_repeat(box, y, 0, box->width, TONE_DIM, ascii ? L'-' : L'─');
        canvas_repeat(box, y, 0, 1, TONE_DIM, ascii ? L'+' : y == 0 ? L'┌' : L'└');
        canvas_repeat(box, y, right, 1, TONE_DIM, ascii ? L'+' : y == 0 ? L'┐' : L'┘');
    }
}

/* Indent of wrapped lines: the column after the first gap of two blanks, as in "key  help". */
static int hang_of(const char *text, int width)
{
    const char *gap = strstr(text, "  ");
    int hang = gap != NULL ? (int)(gap - text) + (int)strspn(gap, " ") : 0;

    return hang < width * 2 / 3 ? hang : 0;
}

/* Draws a line, wrapped. Returns the line number after it. */
static int draw_line(const struct canvas *inside, int y, const struct lines *lines, char *line)
{
    char *tab = strchr(line, '\t'), piece[WIDEST + 1];
    const char *value = tab != NULL ? tab + 1 : line;
    int from = tab != NULL ? lines->label + 2 : 0, hang = hang_of(value, inside->width - from);

    if (tab != NULL)
        canvas_print(inside, y, 0, TONE_TITLE, "%.*s", (int)(tab - line), line);
    do {
        snprintf(piece, sizeof(piece), "%.*s", (int)text_piece(value, inside->width - from), value);
        canvas_text(inside, y++, from, TONE_NORMAL, piece);
        value += strlen(piece);
        value += strspn(value, " ");
        from += hang;
        hang = 0;
    } while (*value != '\0');
    return y;
}

static int height_of(const struct canvas *inside, const struct lines *lines)
{
    struct canvas nowhere = {.width = inside->width};
    int height = 0;

    for (int i = 0; i < lines->count; i++)
        height = draw_line(&nowhere, height, lines, lines->line[i]);
    return height;
}

static void draw_box(struct scroll *scroll, struct lines *lines, bool ascii,
                     const struct canvas *body)
{
    int most = (body->width < WIDEST ? body->width : WIDEST) - 2 * FRAME, height, y;
    struct canvas box, inside;

    split_lines(lines);
    inside.width = width_of(lines, most);
    height = height_of(&inside, lines);
    box.height = height + FRAME < body->height ? height + FRAME : body->height;
    box = canvas_part(body, body->height - box.height, (body->width - inside.width) / 2 - FRAME,
                      box.height, inside.width + 2 * FRAME);
    draw_border(&box, ascii);
    inside = canvas_part(&box, 1, FRAME, box.height - FRAME, inside.width);
    scroll_fit(scroll, height, inside.height);
    y = -scroll->top;
    for (int i = 0; i < lines->count; i++)
        y = draw_line(&inside, y, lines, lines->line[i]);
    canvas_text(&box, box.height - 1, FRAME, TONE_DIM,
                height > inside.height ? " PgUp PgDn, Esc closes " : " Esc closes ");
}

static struct lines lines; /* too large for the stack */

void popup_draw_row(struct scroll *scroll, const struct scene *scene, const struct canvas *body)
{
    memset(&lines, 0, sizeof(lines));
    write_row(&lines, scene);
    draw_box(scroll, &lines, scene->ascii, body);
}

void popup_draw_text(struct scroll *scroll, const char *text, bool ascii, const struct canvas *body)
{
    memset(&lines, 0, sizeof(lines));
    snprintf(lines.text, sizeof(lines.text), "%s", text);
    draw_box(scroll, &lines, ascii, body);
}
