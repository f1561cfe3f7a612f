/*
 * Tables: columns declared once, drawn on a canvas or printed as text. If the line is too narrow,
 * the least important columns are left out, and the last one of the others, or the last two, get
 * less than they wish; spare width goes to the columns with a weight. The console's only thread.
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

/* How JSON and CSV print the cells of a column, and name it. */
enum output {
    OUTPUT_PLAIN,
    OUTPUT_NS,    /* a duration: NAME_ns */
    OUTPUT_BYTES, /* NAME_bytes */
    OUTPUT_TIME,  /* a point in time: RFC 3339 in UTC, under its own name */
};

struct column {
    const char *title;
    int width;      /* wish; the title fits */
    int min_width;  /* minimum; 0: the wish */
    int stretch;    /* weight of its share of the spare width; 0: none */
    int importance; /* the least important column is left out first; of equal ones the rightmost */
    bool right;     /* aligned right: numbers */
    bool tail; /* shows the end of a text that is too long, such as a path with a line number */
    /* Used in filters, CSV and JSON, at most 20 characters; NULL: the title in lower case. */
    const char *name;
    bool key;    /* identifies a row: the "filter by row" key uses these columns */
    bool hidden; /* not drawn; only in filters, CSV and JSON */
    bool folds;  /* in the line of the titles instead, while all visible rows have the same text */
    enum output output;
};

struct cell {
    char text[TABLE_CELL_BYTES];
    enum tone tone;
    bool no_key;      /* the text only labels the row, although the column is a key */
    bool cut;         /* the text is only the start of the value */
    uint64_t time_ns; /* for OUTPUT_TIME: wall clock; 0: none */
    /*
     * For sorting and filters, in base units (ns, bytes); NAN: none. Right-aligned columns have
     * one.
     */
    double number;
};

/* The column's name in filters. BUFFER has TABLE_NAME_BYTES. */
const char *column_name(const struct column *column, char *buffer);

/* Its name in CSV and JSON: with the unit. BUFFER as above. */
const char *column_output_name(const struct column *column, char *buffer);

/*
 * The title in lower case; '_' stands for what is not a letter or digit: "req_s". BUFFER as above.
 */
const char *column_title_name(const struct column *column, char *buffer);

/*
 * True if WORD is one of these three names; case and the characters between letters and digits do
 * not matter: "REQ/S", "req_s".
 */
bool column_is_named(const struct column *column, const char *word);

/* Sets WIDTHS of COUNT columns for a line of WIDTH; 0: left out. Pure. */
void table_fit(const struct column *columns, size_t count, int width, int *widths);

/* Draws one row in line Y, or the titles if CELLS is NULL. */
void table_draw_row(const struct canvas *canvas, int y, const struct column *columns, size_t count,
                    const int *widths, const struct cell *cells);

/* Prints one row as a line of text, or the titles if CELLS is NULL. Nothing is left out or cut. */
void table_print(FILE *out, const struct column *columns, size_t count, const struct cell *cells);

/* Fill a cell with a text. */
void cell_text(struct cell *cell, enum tone tone, const char *text);
void cell_print(struct cell *cell, enum tone tone, const char *format, ...) PRINTF_LIKE(3, 4);

/* Fill a cell with a number and its text; "-" for NAN. */
void cell_count(struct cell *cell, enum tone tone, double count);
void cell_rate(struct cell *cell, enum tone tone, double per_s);
void cell_exact(struct cell *cell, enum tone tone, uint64_t count); /* all digits */
void cell_bytes(struct cell *cell, enum tone tone, double bytes);
void cell_latency(struct cell *cell, enum tone tone, double ns);
void cell_percent(struct cell *cell, enum tone tone, double ratio);
void cell_age(struct cell *cell, enum tone tone, uint64_t ns);
void cell_clock(struct cell *cell, enum tone tone, uint64_t wall_ns);

/* The tone of an HTTP status. */
enum tone status_tone(int status);

#endif
