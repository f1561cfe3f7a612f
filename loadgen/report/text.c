#include "loadgen/report/document.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define BOLD   "\x1b[1m"
#define RED    "\x1b[31m"
#define YELLOW "\x1b[33m"
#define CYAN   "\x1b[36m"
#define PLAIN  "\x1b[0m"

enum { PAGE_WIDTH = 80, LABEL_WIDTH = 12 };

struct page {
    FILE *out;
    bool colour;
    const struct document *document;
};

/* ---- Words ---- */

static const char *style(const struct page *page, const char *sequence)
{
    return page->colour ? sequence : "";
}

static const char *style_of(const struct page *page, enum document_tone tone)
{
    static const char *const styles[] = {[DOCUMENT_NORMAL] = "",
                                         [DOCUMENT_STRONG] = BOLD,
                                         [DOCUMENT_WARNING] = YELLOW,
                                         [DOCUMENT_BAD] = RED,
                                         [DOCUMENT_QUIET] = ""};

    return style(page, styles[tone]);
}

static const char *tone_end(const struct page *page, enum document_tone tone)
{
    return style_of(page, tone)[0] != '\0' ? PLAIN : "";
}

/* The width of TEXT in columns: characters, not bytes. */
static unsigned width_of(const char *text)
{
    unsigned width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Writes TEXT from column AT, wrapped at PAGE_WIDTH; further lines begin at COLUMN. */
static void text_wrapped(FILE *out, unsigned column, unsigned at, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (at > column && at + 1 + length > PAGE_WIDTH) {
            fprintf(out, "\n%*s", (int)column, "");
            at = column;
        }
        at += (unsigned)fprintf(out, "%s%.*s", at > column ? " " : "", (int)length, text);
        text += length + strspn(text + length, " ");
    }
}

/* ---- Tables ---- */

/* Replaces characters that a terminal may lack. */
static const char *ascii(const char *cell)
{
    if (strcmp(cell, "±") == 0)
        return "+-";
    return strcmp(cell, "–") == 0 ? "-" : cell;
}

/* Without the gap before each column but the first. */
static void find_widths(const struct document_table *table, unsigned *widths)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct document_column *column = &table->columns[i];
        unsigned gap = i > 0 ? table->column_gap : 0;

        widths[i] = column->width > gap ? column->width - gap : 0;
        if (column->head != NULL && width_of(ascii(column->head)) > widths[i])
            widths[i] = width_of(ascii(column->head));
        for (size_t row = 0; row < table->row_count; row++) {
            unsigned width = width_of(ascii(table->rows[row].cells[i]));

            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
}

/* Writes CELL at column AT; pads it unless it is the last one. */
static void text_cell(const struct page *page, const char *cell, enum document_align align,
                      unsigned at, unsigned width, bool last)
{
    int blanks = (int)(width - width_of(cell)), bar = (int)strcspn(cell, " ");

    if (align == DOCUMENT_RIGHT)
        fprintf(page->out, "%*s%s", blanks, "", cell);
    else if (align == DOCUMENT_WRAPPED)
        text_wrapped(page->out, at, at, cell);
    else if (align == DOCUMENT_BAR)
        fprintf(page->out, "%s%.*s%s%s", style(page, CYAN), bar, cell, style(page, PLAIN),
                cell + bar);
    else
        fprintf(page->out, "%s%*s", cell, last ? 0 : blanks, "");
}

/* Writes a row; CELLS NULL: the heads of the columns. */
static void text_row(const struct page *page, const struct document_table *table,
                     const unsigned *widths, const char *const *cells)
{
    unsigned at = page->document->layout.indent;

    fprintf(page->out, "%*s", (int)at, "");
    for (size_t i = 0; i < table->column_count; i++) {
        const struct document_column *column = &table->columns[i];
        const char *cell = cells != NULL ? cells[i] : column->head;

        if (i > 0)
            at += (unsigned)fprintf(page->out, "%*s", (int)table->column_gap, "");
        text_cell(page, ascii(cell != NULL ? cell : ""), column->align, at, widths[i],
                  i + 1 == table->column_count);
        at += widths[i];
    }
}

static void text_table(const struct page *page, const struct document_table *table)
{
    unsigned widths[DOCUMENT_COLUMNS_MAX];

    find_widths(table, widths);
    if (table->title != NULL)
        fprintf(page->out, "%s\n", table->title);
    if (table->columns[0].head != NULL) {
        text_row(page, table, widths, NULL);
        fputc('\n', page->out);
    }
    for (size_t i = 0; i < table->row_count; i++) {
        const struct document_row *row = &table->rows[i];

        fputs(style_of(page, row->tone), page->out);
        text_row(page, table, widths, row->cells);
        fprintf(page->out, "%s\n", tone_end(page, row->tone));
    }
}

/* ---- Facts and notes ---- */

static void text_facts(const struct page *page, const struct document_section *section)
{
    unsigned indent = page->document->layout.indent, width = LABEL_WIDTH;

    for (size_t i = 0; i < section->fact_count; i++)
        if (width_of(section->facts[i].label) + 2 > width)
            width = width_of(section->facts[i].label) + 2;
    for (size_t i = 0; i < section->fact_count; i++) {
        const struct document_fact *fact = &section->facts[i];

        fprintf(page->out, "%*s%-*s%s", (int)indent, "", (int)width, fact->label,
                style_of(page, fact->tone));
        text_wrapped(page->out, indent + width, indent + width, fact->text);
        fprintf(page->out, "%s\n", tone_end(page, fact->tone));
    }
}

static void text_notes(const struct page *page, const struct document_section *section)
{
    unsigned indent = page->document->layout.indent;

    for (size_t i = 0; i < section->note_count; i++) {
        const struct document_note *note = &section->notes[i];
        bool warns = note->tone == DOCUMENT_WARNING;

        fprintf(page->out, "%*s%s%c%s %s", (int)indent, "", style(page, warns ? YELLOW : CYAN),
                warns                          ? '!'
                : note->tone == DOCUMENT_QUIET ? ' '
                                               : '-',
                style(page, PLAIN), note->lead);
        text_wrapped(page->out, indent + 2, indent + 2 + width_of(note->lead), note->text);
        fputc('\n', page->out);
    }
}

/* ---- Plots ---- */

enum { COLUMNS = 64, ROWS = 10, LABELS = 12, LABEL_GAP = 2 };

/* The character of each plot line, at its points and between them. */
static const char marks[PLOT_LINES_MAX + 1] = "ox+*#@";
enum { BETWEEN = '.' };

struct canvas {
    struct plot_scale x, y;
    char cell[ROWS][COLUMNS];
};

/* The cell of POSITION from 0 to 1 on an axis of COUNT cells. */
static long place_in(double position, int count)
{
    return lround(fmin(fmax(position, 0), 1) * (count - 1));
}

static char *cell_at(struct canvas *canvas, double x, double y)
{
    return &canvas->cell[ROWS - 1 - place_in(y, ROWS)][place_in(x, COLUMNS)];
}

/* Marks the points, and fills the blank cells between them. */
static void draw_line(struct canvas *canvas, const struct plot *plot, size_t number)
{
    const struct plot_line *line = &plot->line[number];
    double x_before = 0, y_before = 0;
    bool begun = false;

    for (size_t i = 0; i < line->count; i++) {
        double x, y;

        if (!plot_shows(plot, &line->points[i]))
            continue;
        x = plot_position(&canvas->x, line->points[i].x);
        y = plot_position(&canvas->y, line->points[i].y);
        for (int k = 1; begun && k < COLUMNS; k++) {
            double way = (double)k / COLUMNS;
            char *cell =
                cell_at(canvas, x_before + (x - x_before) * way, y_before + (y - y_before) * way);

            if (*cell == ' ')
                *cell = BETWEEN;
        }
        *cell_at(canvas, x, y) = marks[number];
        x_before = x;
        y_before = y;
        begun = true;
    }
}

/* The rows, each with the label of its tick, and the x axis. */
static void text_plot_rows(FILE *out, const struct canvas *canvas)
{
    for (int row = 0; row < ROWS; row++) {
        const struct plot_scale *y = &canvas->y;
        const char *label = "";
        int length = COLUMNS;

        for (size_t i = y->tick_count; i > 0; i--)
            if (ROWS - 1 - place_in(plot_position(y, y->tick[i - 1].at), ROWS) == row)
                label = y->tick[i - 1].label;
        while (length > 0 && canvas->cell[row][length - 1] == ' ')
            length--;
        fprintf(out, "%*s%s |%.*s\n", LABELS - (int)width_of(label), "", label, length,
                canvas->cell[row]);
    }
    fprintf(out, "%*s +", LABELS, "");
    for (int i = 0; i < COLUMNS; i++)
        fputc('-', out);
    fputc('\n', out);
}

/* Omits labels that would touch the previous one. */
static void text_x_labels(FILE *out, const struct plot_scale *x)
{
    int at = 0;

    fprintf(out, "%*s", LABELS + 2, "");
    for (size_t i = 0; i < x->tick_count; i++) {
        int width = (int)strlen(x->tick[i].label);
        int begin = (int)place_in(plot_position(x, x->tick[i].at), COLUMNS) - width / 2;

        begin = begin < 0 ? 0 : begin > COLUMNS - width ? COLUMNS - width : begin;
        if (begin < at + (at > 0 ? LABEL_GAP : 0))
            continue;
        fprintf(out, "%*s%s", begin - at, "", x->tick[i].label);
        at = begin + width;
    }
    fputc('\n', out);
}

/* Title, plot and legend. Writes nothing if no line has a point. */
static void text_plot(FILE *out, const struct plot *plot)
{
    struct canvas canvas;

    if (!plot_scales(plot, &canvas.x, &canvas.y))
        return;
    memset(canvas.cell, ' ', sizeof(canvas.cell));
    for (size_t i = 0; i < plot->line_count; i++)
        draw_line(&canvas, plot, i);
    fprintf(out, "%s\n", plot->title);
    text_plot_rows(out, &canvas);
    text_x_labels(out, &canvas.x);
    for (size_t i = 0; i < plot->line_count; i++)
        fprintf(out, "%*s%c %s\n", LABELS + 2, "", marks[i], plot->line[i].name);
}

/* ---- The document ---- */

/* SEPARATE: a blank line comes first. */
static void text_section(const struct page *page, const struct document_section *section,
                         bool separate)
{
    if (section->fact_count > 0) {
        fputs(separate ? "\n" : "", page->out);
        text_facts(page, section);
        separate = true;
    }
    for (size_t i = 0; i < section->table_count; i++) {
        if (section->tables[i].media == DOCUMENT_IN_HTML)
            continue;
        fputs(separate ? "\n" : "", page->out);
        text_table(page, &section->tables[i]);
        separate = true;
    }
    for (size_t i = 0; page->document->layout.draws_plots && i < section->plot_count; i++) {
        fputc('\n', page->out);
        text_plot(page->out, &section->plots[i]);
    }
}

int document_write_text(FILE *out, const struct document *document, bool colour)
{
    const struct page page = {out, colour, document};
    const struct document_section *first = &document->sections[0];

    if (document->failed) {
        errno = ENOMEM;
        return -1;
    }
    if (document->title != NULL) {
        fprintf(out, "%s%s%s\n", style(&page, BOLD), document->title, style(&page, PLAIN));
        for (unsigned i = document->layout.underlines_title ? width_of(document->title) : 0; i > 0;
             i--)
            fputs(i > 1 ? "-" : "-\n", out);
        if (document->subtitle != NULL)
            fprintf(out, "%s\n", document->subtitle);
    }
    text_section(&page, first, document->title != NULL);
    for (size_t i = 1; i < document->section_count; i++) {
        const struct document_section *section = &document->sections[i];

        fprintf(out, "\n%s%s%s\n", style(&page, BOLD), section->heading, style(&page, PLAIN));
        text_section(&page, section, false);
        text_notes(&page, section);
    }
    if (first->note_count > 0)
        fputc('\n', out);
    text_notes(&page, first);
    return 0;
}
