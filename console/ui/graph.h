/*
 * Graphs, heat maps and bars from characters: braille dots, blocks or ASCII. They do not depend on
 * colours: the character alone shows the amount. graph_*() are pure.
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
 * Draws VALUES (oldest first) over the full width of CELLS: ROWS lines of COLUMNS, top first. TOP >
 * 0 is the value at the upper edge. If several values share a position, the largest is shown, so no
 * peak is lost. NAN leaves the position empty; minus infinity marks a gap.
 */
void graph_draw(enum graph_style style, const double *values, size_t count, double top, int rows,
                int columns, wchar_t *cells);

/* The column (of COLUMNS > 0) in which graph_draw() shows value INDEX of COUNT. */
int graph_column_of(enum graph_style style, size_t index, size_t count, int columns);

/* A mark below the value INDEX of a graph. */
struct graph_mark {
    size_t index;
    char letter;
    bool severe; /* drawn in the tone of errors; hides the others of its column */
};

enum { GRAPH_MARKS_MAX = 128 };

/* Draws the letters of MARKS in line Y, below a graph of COUNT values that begins at column X. */
void graph_draw_marks(const struct canvas *canvas, int y, int x, int columns,
                      enum graph_style style, const struct graph_mark *marks, size_t mark_count,
                      size_t count);

/* Draws times between SPAN_S seconds ago and now, on the axis of WIDTH in line Y from column X on. */
void graph_draw_ticks(const struct canvas *canvas, int y, int x, int width, int span_s);

/* The index of the largest value above 0, the newest of equals; COUNT if there is none. */
size_t graph_peak(const double *values, size_t count);

/*
 * The value at the upper edge: the smallest round number not below PEAK (steps of 1, 1.5, 2, 3, 4,
 * 5, 6, 8; powers of 2 for bytes).
 */
double graph_top(enum graph_unit unit, double peak);

/*
 * A logarithmic scale for VALUES: whole decades, at most six, from *FLOOR to *TOP. False: there is
 * no value above 0.
 */
bool graph_decades(const double *values, size_t count, double *floor, double *top);

/* The part of a logarithmic scale that VALUE fills, 0 to 1; NAN and gaps as they are. */
double graph_logarithm(double value, double floor, double top);

/* A number of UNIT as text in BUFFER (TEXT_SHORT bytes), which is returned. */
char *graph_number(enum graph_unit unit, double value, char *buffer);

/*
 * Draws VALUES as a heat map: ROWS lines (top first) of COLUMNS cells, on a square root scale up to
 * MAX. Minus infinity marks a gap; NAN and 0 stay empty.
 */
void heat_draw(const struct canvas *canvas, enum graph_style style, const double *values, int rows,
               int columns, double max);

/* The scale of a heat map, "few ·░▒▓█ many", from column X on; returns the column after it. */
int heat_draw_scale(const struct canvas *canvas, int y, int x, enum graph_style style);

/*
 * A bar that fills RATIO (0 to 1) of WIDTH columns, in eighths of a column if the style has them.
 */
void bar_draw(const struct canvas *canvas, int y, int x, int width, enum graph_style style,
              double ratio, enum tone tone);

/*
 * A panel: one number, a line about it, and its history as a graph with scale, span and peak. It
 * adapts to any size; a single line shows title, number and a small graph. The console's only
 * thread.
 */

/* At its minimum height, a panel has a graph but no details; below it, it is a line or two. */
enum { PANEL_TEXT = 96, PANEL_MIN_HEIGHT = 3, PANEL_FULL_HEIGHT = 6 };

struct panel {
    const char *title;
    enum graph_unit unit;
    enum graph_style style;
    bool selected;        /* its title is drawn so */
    bool bad;             /* drawn in the tone of errors */
    bool logarithmic;     /* except of ratios: several decades up to the peak, not from 0 */
    double now;           /* NAN: none */
    const double *values; /* equally spaced, the newest last; NAN and gaps as in graph_draw() */
    size_t count;
    int span_s; /* time that all values cover */
    const struct graph_mark *marks;
    size_t mark_count;
    const char *detail; /* below the title: as many items as fit, separated by ", " or two blanks */
};

void panel_draw(const struct panel *panel, const struct canvas *canvas);

/*
 * The graphs over time on the screen: panel_draw() notes its own. A click on one goes to its
 * second. COUNT values cover SPAN_S seconds, the newest at the right.
 */
void graph_note(const struct canvas *graph, size_t count, int span_s);

/* Forgets all, before a frame is drawn. */
void graph_forget(void);

/* How many seconds before the time shown the point at Y, X of the screen is; -1: in no graph. */
long graph_second_at(int y, int x);

#endif
