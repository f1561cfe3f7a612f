/*
 * A report for people, without layout: title, facts, tables, plots and notes, in sections. The
 * reports of a run, of a sweep and of an experiment each fill one; text.c and html.c write it. A
 * document copies all points and strings, and escapes strings (escape_text()). When memory runs out
 * it stays consistent, and the writers fail with ENOMEM. Main thread.
 */
#ifndef LOADGEN_REPORT_DOCUMENT_H
#define LOADGEN_REPORT_DOCUMENT_H

#include "common/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { DOCUMENT_COLUMNS_MAX = 64, PLOT_LINES_MAX = 6, PLOT_LABEL = 32, PLOT_TICKS_MAX = 24 };

/* The emphasis of a row, a fact or a note. */
enum document_tone {
    DOCUMENT_NORMAL,
    DOCUMENT_STRONG,  /* bold; for facts: the main result */
    DOCUMENT_WARNING, /* yellow; a note has the mark "!" */
    DOCUMENT_BAD,     /* red */
    DOCUMENT_QUIET,   /* a note without a mark */
};

enum document_align {
    DOCUMENT_RIGHT,
    DOCUMENT_LEFT,
    DOCUMENT_WRAPPED, /* left, wrapped at the page width in text; last column only */
    DOCUMENT_BAR,     /* left; a bar of characters in colour, then text */
};

/* The writers that show a table. */
enum document_media { DOCUMENT_EVERYWHERE, DOCUMENT_IN_TEXT, DOCUMENT_IN_HTML };

struct document_column {
    const char *head; /* NULL in every column: the table has no head */
    enum document_align align;
    unsigned width; /* minimum width in text, in characters, including the gap before the column */
};

struct document_row {
    enum document_tone tone;
    const char **cells; /* one for each column; "": empty */
};

struct document_table {
    const char *title; /* NULL: none */
    enum document_media media;
    unsigned column_gap; /* characters between columns in text */
    struct document_column *columns;
    struct document_row *rows;
    size_t column_count, row_count;
};

struct document_fact {
    enum document_tone tone;
    const char *label, *text;
};

struct document_note {
    enum document_tone tone;
    const char *lead; /* "Met:", or "" */
    const char *text;
};

/* ---- Plots ---- */

struct plot_point {
    double x, y;
};

/* The confidence interval of a point; NAN: unknown. */
struct plot_bar {
    double low, high;
};

struct plot_line {
    const char *name;
    const struct plot_point *points; /* x rises */
    size_t count;
    const struct plot_bar *bars; /* one for each point, or NULL */
    bool smooth;                 /* drawn without dots at the points */
};

/* A linear axis begins at 0. On a logarithmic axis, values that are not positive are left out. */
struct plot_axis {
    bool logarithmic;
    void (*format)(char *label, double value); /* writes at most PLOT_LABEL bytes */
};

struct plot {
    const char *title; /* also for screen readers */
    struct plot_axis x, y;
    double shaded_to; /* a shaded background from 0 to this x, such as the warm-up; 0: none */
    struct plot_line line[PLOT_LINES_MAX];
    size_t line_count;
};

/* ---- The document ---- */

/* Text shows tables, plots, then notes. A page leads with the notes and the plots. */
struct document_section {
    const char *heading; /* NULL in the first section, which follows the title */
    const char *link;    /* address that the heading links to; NULL: none */
    struct document_fact *facts;
    struct document_table *tables;
    struct plot *plots;
    struct document_note *notes;
    size_t fact_count, table_count, plot_count, note_count;
};

/* The text layout of a report. */
struct document_layout {
    unsigned indent; /* tables and notes have it */
    unsigned column_gap;
    bool underlines_title;
    bool draws_plots;
};

struct document {
    const char *program;  /* its author: "wsload" */
    const char *title;    /* NULL: none, which only text allows */
    const char *subtitle; /* NULL: none */
    const char *legend;   /* explains marks, on pages only; NULL: none */
    const char *fold;     /* see document_fold(); NULL: nothing is folded */
    struct document_layout layout;
    /* At least one. The notes of the first one apply to the whole document. */
    struct document_section *sections;
    size_t section_count;
    bool failed; /* out of memory: something is missing */

    /* Private. */
    struct document_memory *memory;
    struct plot_line *line; /* receives the points; NULL: they are ignored */
    struct plot_point *points;
    struct plot_bar *bars;
    size_t last_row_cells;
};

/* Returns NULL with ENOMEM. PROGRAM is borrowed. */
struct document *document_create(const char *program, struct document_layout layout);
void document_free(struct document *document);

PRINTF_LIKE(2, 3)
void document_title(struct document *document, const char *format, ...);
PRINTF_LIKE(2, 3)
void document_subtitle(struct document *document, const char *format, ...);
PRINTF_LIKE(2, 3)
void document_legend(struct document *document, const char *format, ...);

/* On a page, the first section shows only its facts until the reader opens the fold called TEXT. */
void document_fold(struct document *document, const char *text);

/*
 * Begins a section, which receives all later facts, tables, plots and notes. The first section
 * exists from the start. LINK may be NULL.
 */
void document_section(struct document *document, const char *heading, const char *link);

PRINTF_LIKE(4, 5)
void document_fact(struct document *document, enum document_tone tone, const char *label,
                   const char *format, ...);

/*
 * Begins a table of COUNT columns, at most DOCUMENT_COLUMNS_MAX, shown everywhere, with the gap of
 * the layout; the caller may change both. Returns NULL if out of memory: rows and cells are then
 * ignored.
 */
struct document_table *document_table(struct document *document, const char *title,
                                      const struct document_column *columns, size_t count);

/* Begins a row; its cells are empty. */
void document_row(struct document *document, enum document_tone tone);

/* Appends a cell to the last row; ignored after the last column. */
PRINTF_LIKE(2, 3)
void document_cell(struct document *document, const char *format, ...);

PRINTF_LIKE(4, 5)
void document_note(struct document *document, enum document_tone tone, const char *lead,
                   const char *format, ...);

/* Begins a plot, which receives all later lines. */
void document_plot(struct document *document, const char *title, struct plot_axis x,
                   struct plot_axis y);

/* Shades the background of the last plot from 0 to TO. */
void document_shade(struct document *document, double to);

/* Begins a line, which receives all later points; ignored after PLOT_LINES_MAX lines. */
void document_line(struct document *document, const char *name, bool smooth);

/* Adds a point; X must not decrease. LOW and HIGH: the confidence interval of Y. */
void document_point(struct document *document, double x, double y);
void document_point_between(struct document *document, double x, double y, double low, double high);

/* ---- Labels of an axis, for struct plot_axis ---- */

void axis_count(char *label, double value);
void axis_rate(char *label, double value);      /* VALUE per second */
void axis_seconds(char *label, double value);   /* VALUE in seconds */
void axis_time(char *label, double value);      /* VALUE in ns; the label in the unit that fits */
void axis_mebibytes(char *label, double value); /* VALUE in MiB */
void axis_percent(char *label, double value);
void axis_tail(char *label, double value); /* VALUE is 1 / (1 - p): 100 becomes 99 % */

/* ---- Writers (text.c, html.c) ---- */

/*
 * Text for a terminal or a file, 80 columns wide. COLOUR emphasises by escape sequences. Returns 0,
 * or -1 with ENOMEM when the document is incomplete. Errors of OUT are left to the caller
 * (ferror()).
 */
int document_write_text(FILE *out, const struct document *document, bool colour);

/*
 * A self-contained HTML page with SVG plots, also for small screens, dark mode and print. Returns
 * as document_write_text().
 */
int document_write_html(FILE *out, const struct document *document);

/*
 * A document as a part of a page, with an entry in its table of contents. It shows its notes and its
 * first plot; the rest is folded, and left out in print.
 */
struct html_chapter {
    const char *anchor;   /* its id in the page */
    const char *question; /* below its title */
    const char *summary;  /* shown in the table of contents */
    const char *remark;   /* its last paragraph */
    const struct document *document;
    size_t section_count; /* the first sections of the document are part of the page */
};

/* One page of COUNT chapters. FRONT has the title, and sections before the table of contents. */
int document_write_html_chapters(FILE *out, const struct document *front,
                                 const struct html_chapter *chapters, size_t count);

/* ---- For the writers ---- */

/* An axis to draw. */
struct plot_scale {
    bool logarithmic;
    double least, most;
    size_t tick_count;
    struct {
        double at;
        char label[PLOT_LABEL];
    } tick[PLOT_TICKS_MAX];
};

/* Sets both axes of a plot. Returns false if it has no point that they can show. */
bool plot_scales(const struct plot *plot, struct plot_scale *x, struct plot_scale *y);

/* Whether the axes can show POINT. */
bool plot_shows(const struct plot *plot, const struct plot_point *point);

/* The position of VALUE on the axis: 0 at its start, 1 at its end. */
double plot_position(const struct plot_scale *scale, double value);

#endif
