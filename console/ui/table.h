/*
 * Columns that fit: a table is declared once as an array of columns; when the line is too narrow
 * the least important ones are left out, the last two shrink if they may, and what is left over goes to those that stretch. The
 * same table is drawn on a canvas or printed as text.
 */
#ifndef CONSOLE_TABLE_H
#define CONSOLE_TABLE_H

#include "common/macros.h"
#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 20, TABLE_GAP = 2, TABLE_CELL_BYTES = 288, TABLE_NAME_BYTES = 32 };

struct column {
    const char *title;
    int width;      /* at least; titles fit */
    int least;      /* shrinks to this where it and one other would not fit; 0: it does not */
    int importance; /* the least important goes first; columns of equal importance from the right */
    bool right;     /* numbers stand at the right of their column */
    bool tail;      /* of what is too long the end is shown: paths with a line number */
    bool stretch;   /* takes what is left over; several share it */
    const char *name; /* in filters, CSV and JSON; NULL: the title in small letters */
    bool key;         /* what a row is recognised by: the filter key of a row takes this column */
    bool hidden;      /* never drawn; only for filters, CSV and JSON */
};

struct cell {
    char text[TABLE_CELL_BYTES];
    enum tone tone;
    double number; /* of a column that stands right: the plain value in base units (ns, bytes), to
                      sort and compare by; NAN: none */
};

/* The column's name in filters and machine-readable output. BUFFER has TABLE_NAME_BYTES. */
const char *column_name(const struct column *column, char *buffer);

/* Sets WIDTHS of COUNT columns for a line of WIDTH; 0 is a column left out. Pure. */
void table_fit(const struct column *columns, size_t count, int width, int *widths);

/* Writes the titles, or one row, into line Y. */
void table_draw_titles(const struct canvas *canvas, int y, const struct column *columns,
                       size_t count, const int *widths);
void table_draw_row(const struct canvas *canvas, int y, const struct column *columns, size_t count,
                    const int *widths, const struct cell *cells);

/* The same as lines of text; CELLS NULL prints the titles. Nothing is left out or cut. */
void table_print(FILE *out, const struct column *columns, size_t count, const struct cell *cells);

/* Filling a cell: the text to show, and the number to sort and compare by. */
void cell_text(struct cell *cell, enum tone tone, const char *text);
void cell_print(struct cell *cell, enum tone tone, const char *format, ...) PRINTF_LIKE(3, 4);

/* These set the number as well; NAN becomes "-". */
void cell_count(struct cell *cell, enum tone tone, double count);
void cell_rate(struct cell *cell, enum tone tone, double per_s);
void cell_exact(struct cell *cell, enum tone tone, uint64_t count); /* every digit */
void cell_bytes(struct cell *cell, enum tone tone, double bytes);
void cell_latency(struct cell *cell, enum tone tone, double ns);
void cell_percent(struct cell *cell, enum tone tone, double ratio);
void cell_age(struct cell *cell, enum tone tone, uint64_t ns);
void cell_clock(struct cell *cell, enum tone tone, uint64_t wall_ns);

/* How a status is coloured: good, noted, warned of, bad. */
enum tone status_tone(int status);

#endif
