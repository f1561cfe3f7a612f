#include "loadgen/report/text.h"

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

static const char *end_of(const struct page *page, enum document_tone tone)
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
static void put_wrapped(FILE *out, unsigned column, unsigned at, const char *text)
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
        unsigned gap = i > 0 ? table->gap : 0;

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
static void put_cell(const struct page *page, const char *cell, enum document_align align,
                     unsigned at, unsigned width, bool last)
{
    int blanks = (int)(width - width_of(cell)), bar = (int)strcspn(cell, " ");

    if (align == DOCUMENT_RIGHT)
        fprintf(page->out, "%*s%s", blanks, "", cell);
    else if (align == DOCUMENT_WRAPPED)
        put_wrapped(page->out, at, at, cell);
    else if (align == DOCUMENT_BAR)
        fprintf(page->out, "%s%.*s%s%s", style(page, CYAN), bar, cell, style(page, PLAIN),
                cell + bar);
    else
        fprintf(page->out, "%s%*s", cell, last ? 0 : blanks, "");
}

/* Writes a row; CELLS NULL: the heads of the columns. */
static void put_row(const struct page *page, const struct document_table *table,
                    const unsigned *widths, const char *const *cells)
{
    unsigned at = page->document->layout.indent;

    fprintf(page->out, "%*s", (int)at, "");
    for (size_t i = 0; i < table->column_count; i++) {
        const struct document_column *column = &table->columns[i];
        const char *cell = cells != NULL ? cells[i] : column->head;

        if (i > 0)
            at += (unsigned)fprintf(page->out, "%*s", (int)table->gap, "");
        put_cell(page, ascii(cell != NULL ? cell : ""), column->align, at, widths[i],
                 i + 1 == table->column_count);
        at += widths[i];
    }
}

static void put_table(const struct page *page, const struct document_table *table)
{
    unsigned widths[DOCUMENT_COLUMNS_MAX];

    find_widths(table, widths);
    if (table->title != NULL)
        fprintf(page->out, "%s\n", table->title);
    if (table->columns[0].head != NULL) {
        put_row(page, table, widths, NULL);
        fputc('\n', page->out);
    }
    for (size_t i = 0; i < table->row_count; i++) {
        const struct document_row *row = &table->rows[i];

        fputs(style_of(page, row->tone), page->out);
        put_row(page, table, widths, row->cells);
        fprintf(page->out, "%s\n", end_of(page, row->tone));
    }
}

/* ---- Facts and notes ---- */

static void put_facts(const struct page *page, const struct document_section *section)
{
    unsigned indent = page->document->layout.indent, width = LABEL_WIDTH;

    for (size_t i = 0; i < section->fact_count; i++)
        if (width_of(section->facts[i].label) + 2 > width)
            width = width_of(section->facts[i].label) + 2;
    for (size_t i = 0; i < section->fact_count; i++) {
        const struct document_fact *fact = &section->facts[i];

        fprintf(page->out, "%*s%-*s%s", (int)indent, "", (int)width, fact->label,
                style_of(page, fact->tone));
        put_wrapped(page->out, indent + width, indent + width, fact->text);
        fprintf(page->out, "%s\n", end_of(page, fact->tone));
    }
}

static void put_notes(const struct page *page, const struct document_section *section)
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
        put_wrapped(page->out, indent + 2, indent + 2 + width_of(note->lead), note->text);
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
    char cell[ROWS][COLUMNS + 1];
};

static long place(double position, int count)
{
    return lround(fmin(fmax(position, 0), 1) * (count - 1));
}

static char *cell_at(struct canvas *canvas, struct plot_point position)
{
    return &canvas->cell[ROWS - 1 - place(position.y, ROWS)][place(position.x, COLUMNS)];
}

/* Fills the blank cells between two positions. */
static void connect(struct canvas *canvas, struct plot_point from, struct plot_point to)
{
    for (int i = 1; i < COLUMNS; i++) {
        double way = (double)i / COLUMNS;
        char *cell = cell_at(canvas, (struct plot_point){from.x + (to.x - from.x) * way,
                                                         from.y + (to.y - from.y) * way});

        if (*cell == ' ')
            *cell = BETWEEN;
    }
}

static void draw_line(struct canvas *canvas, const struct plot *plot, size_t number)
{
    const struct plot_line *line = &plot->line[number];
    struct plot_point before = {0, 0};
    bool begun = false;

    for (size_t i = 0; i < line->count; i++) {
        struct plot_point now = line->points[i];

        if (!plot_shows(plot, &now))
            continue;
        now =
            (struct plot_point){plot_position(&canvas->x, now.x), plot_position(&canvas->y, now.y)};
        if (begun)
            connect(canvas, before, now);
        *cell_at(canvas, now) = marks[number];
        before = now;
        begun = true;
    }
}

/* The label of the tick in ROW, or "". */
static const char *label_of_row(const struct canvas *canvas, int row)
{
    for (size_t i = 0; i < canvas->y.tick_count; i++)
        if (ROWS - 1 - place(plot_position(&canvas->y, canvas->y.tick[i].at), ROWS) == row)
            return canvas->y.tick[i].label;
    return "";
}

static void put_rows(FILE *out, const struct canvas *canvas)
{
    for (int row = 0; row < ROWS; row++) {
        const char *label = label_of_row(canvas, row);
        size_t length = COLUMNS;

        while (length > 0 && canvas->cell[row][length - 1] == ' ')
            length--;
        fprintf(out, "%*s%s |%.*s\n", LABELS - (int)width_of(label), "", label, (int)length,
                canvas->cell[row]);
    }
    fprintf(out, "%*s +", LABELS, "");
    for (int i = 0; i < COLUMNS; i++)
        fputc('-', out);
    fputc('\n', out);
}

/* Omits labels that would touch the previous one. */
static void put_x_labels(FILE *out, const struct canvas *canvas)
{
    int at = 0;

    fprintf(out, "%*s", LABELS + 2, "");
    for (size_t i = 0; i < canvas->x.tick_count; i++) {
        const char *label = canvas->x.tick[i].label;
        int width = (int)strlen(label);
        int begin =
            (int)place(plot_position(&canvas->x, canvas->x.tick[i].at), COLUMNS) - width / 2;

        begin = begin < 0 ? 0 : begin > COLUMNS - width ? COLUMNS - width : begin;
        if (begin < at + (at > 0 ? LABEL_GAP : 0))
            continue;
        fprintf(out, "%*s%s", begin - at, "", label);
        at = begin + width;
    }
    fputc('\n', out);
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
        draw_line(&canvas, plot, i);
    fprintf(out, "%s\n", plot->title);
    put_rows(out, &canvas);
    put_x_labels(out, &canvas);
    for (size_t i = 0; i < plot->line_count; i++)
        fprintf(out, "%*s%c %s\n", LABELS + 2, "", marks[i], plot->line[i].name);
}

/* ---- The document ---- */

/* SEPARATE: a blank line comes first. */
static void put_section(const struct page *page, const struct document_section *section,
                        bool separate)
{
    if (section->fact_count > 0) {
        fputs(separate ? "\n" : "", page->out);
        put_facts(page, section);
        separate = true;
    }
    for (size_t i = 0; i < section->table_count; i++) {
        if (section->tables[i].media == DOCUMENT_IN_HTML)
            continue;
        fputs(separate ? "\n" : "", page->out);
        put_table(page, &section->tables[i]);
        separate = true;
    }
    for (size_t i = 0; page->document->layout.draws_plots && i < section->plot_count; i++) {
        fputc('\n', page->out);
        plot_write_text(page->out, &section->plots[i]);
    }
}

static void put_title(const struct page *page)
{
    const struct document *document = page->document;

    fprintf(page->out, "%s%s%s\n", style(page, BOLD), document->title, style(page, PLAIN));
    for (unsigned i = document->layout.underlines ? width_of(document->title) : 0; i > 0; i--)
        fputs(i > 1 ? "-" : "-\n", page->out);
    if (document->subtitle != NULL)
        fprintf(page->out, "%s\n", document->subtitle);
}

int document_write_text(FILE *out, const struct document *document, bool colour)
{
    const struct page page = {out, colour, document};
    const struct document_section *first = &document->sections[0];

    if (document->failed) {
        errno = ENOMEM;
        return -1;
    }
    if (document->title != NULL)
        put_title(&page);
    put_section(&page, first, document->title != NULL);
    for (size_t i = 1; i < document->section_count; i++) {
        const struct document_section *section = &document->sections[i];

        fprintf(out, "\n%s%s%s\n", style(&page, BOLD), section->heading, style(&page, PLAIN));
        put_section(&page, section, false);
        put_notes(&page, section);
    }
    if (first->note_count > 0)
        fputc('\n', out);
    put_notes(&page, first);
    return 0;
}
