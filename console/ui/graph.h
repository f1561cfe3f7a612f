/*
 * A graph of a series as characters: braille dots, blocks or ASCII. Pure: it knows neither terminal
 * nor colour, and fills an array of cells.
 */
#ifndef CONSOLE_GRAPH_H
#define CONSOLE_GRAPH_H

#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

enum graph_style {
    GRAPH_BRAILLE, /* 2 x 4 dots a cell */
    GRAPH_BLOCKS,  /* 8 levels a cell */
    GRAPH_ASCII,   /* 3 levels a cell: . : | */
};

enum graph_unit { GRAPH_COUNT, GRAPH_BYTES, GRAPH_TIME, GRAPH_RATIO };

/*
 * Draws VALUES (oldest first) over the whole width into CELLS: ROWS lines of COLUMNS, top first.
 * TOP is the value of the upper edge, above 0. Where several values share a place, the largest is
 * shown, so that no peak is lost. A NAN leaves its place empty, minus infinity marks a gap.
 */
void graph_draw(enum graph_style style, const double *values, size_t count, double top, int rows,
                int columns, wchar_t *cells);

/* The column of COLUMNS, above 0, in which graph_draw() shows value number INDEX of COUNT. */
int graph_column_of(enum graph_style style, size_t index, size_t count, int columns);

/* The place of the largest value, or COUNT when there is none above 0. The newest of equals. */
size_t graph_peak(const double *values, size_t count);

/*
 * A round number at or above PEAK for the upper edge: steps of 1, 1.5, 2, 3, 4, 5, 6, 8, or for
 * bytes powers of 2.
 */
double graph_top(enum graph_unit unit, double peak);

/* A number of UNIT as text into BUFFER (TEXT_SHORT bytes), which is returned. */
char *graph_number(enum graph_unit unit, double value, char *buffer);

/*
 * Heat maps and bars. The character shows the amount as well as the colour, so both also work without
 * colours.
 */

/*
 * Draws VALUES, ROWS lines (top first) of COLUMNS, one cell each, on a scale by square root up to MOST,
 * the largest value. Minus infinity marks a gap; NAN and 0 stay empty.
 */
void heat_draw(const struct canvas *canvas, enum graph_style style, const double *values, int rows,
               int columns, double most);

/* The scale of a heat map, "few ·░▒▓█ many", from X on; returns the column behind it. */
int heat_draw_scale(const struct canvas *canvas, int y, int x, enum graph_style style);

/* A bar of RATIO (0 to 1) of WIDTH columns, drawn in eighths where the style can. */
void bar_draw(const struct canvas *canvas, int y, int x, int width, enum graph_style style,
              double ratio, enum tone tone);

#endif
