/*
 * A canvas is a rectangle of the screen. Views draw only on canvases. Positions are relative to the
 * upper left corner; output beyond the edges is clipped. The console's only thread.
 */
#ifndef CONSOLE_CANVAS_H
#define CONSOLE_CANVAS_H

#include "common/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

/*
 * Colours by meaning: a view chooses a tone, the theme maps it to colours. Colour is never the only
 * signal: a letter, a word or a number has the same information.
 */
enum tone {
    TONE_NORMAL,
    TONE_DIM,   /* labels, axes, minor details */
    TONE_TITLE, /* titles of panels and columns */
    TONE_VALUE, /* the main number of a panel */
    TONE_GOOD,  /* busy, answered, in force */
    TONE_NOTE,  /* notable: redirects, work in progress */
    TONE_WARN,
    TONE_BAD,
    TONE_GRAPH, /* the middle of a graph; with 256 colours its lower and upper part differ */
    TONE_GRAPH_LOW,
    TONE_GRAPH_HIGH,
    TONE_PEAK,
    TONE_BAR,       /* the first and the last line of the screen */
    TONE_BAR_KEY,   /* a key in the bar */
    TONE_TAB,       /* the tab of the visible view */
    TONE_SELECTED,  /* the selected row */
    TONE_GRAPH_BAD, /* what a graph counts is bad */
    TONE_COUNT
};

/* THEME_ASK: dark or light by the background that the terminal reports, if it does. */
enum theme { THEME_DARK, THEME_LIGHT, THEME_MONO, THEME_COUNT, THEME_ASK = THEME_COUNT };

extern const char *const theme_names[THEME_COUNT];

/* The theme called NAME, or THEME_COUNT. */
enum theme theme_named(const char *name);

/*
 * Prepares the colours of THEME (not THEME_ASK), or of THEME_MONO if the terminal has none; curses
 * must be running.
 */
void theme_start(enum theme theme);

/* How TONE looks: colours of the palette of 256, -1: the default of the terminal. */
struct tone_look {
    int front, back;
    bool bold, dim, underlined, reverse;
};
struct tone_look theme_look(enum theme theme, enum tone tone);

/* A screen off the terminal. */
struct sheet {
    int height, width;
    struct sheet_cell {
        wchar_t glyph; /* 0: the second column of a wide character */
        enum tone tone;
    } * cells; /* line by line */
};

/* From now on, canvases draw on SHEET (borrowed) instead of the terminal. */
void sheet_use(struct sheet *sheet);
void sheet_clear(struct sheet *sheet);

struct canvas {
    int y, x; /* upper left corner, on the screen */
    int height, width;
};

/* The part of CANVAS that starts at Y, X, clipped to the canvas. */
struct canvas canvas_part(const struct canvas *canvas, int y, int x, int height, int width);

/* True if Y, X of the screen is inside CANVAS. */
bool canvas_holds(const struct canvas *canvas, int y, int x);

/*
 * Writes TEXT (UTF-8) and returns the column after it; what does not fit is cut, and ends with
 * text_cut().
 */
int canvas_text(const struct canvas *canvas, int y, int x, enum tone tone, const char *text);
int canvas_print(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Like canvas_print() if the whole text fits; else writes nothing and returns X. */
int canvas_item(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Writes TEXT from line Y on, wrapped at blanks; returns the line after it. */
int canvas_wrapped(const struct canvas *canvas, int y, enum tone tone, const char *text);

/* Writes TEXT so that it ends before column END; returns its first column. */
int canvas_right(const struct canvas *canvas, int y, int end, enum tone tone, const char *text);

/* canvas_repeat() draws GLYPH COUNT times; canvas_cells() draws COUNT prepared cells. */
void canvas_repeat(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                   wchar_t glyph);
void canvas_cells(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                  const wchar_t *cells);

/*
 * Stacks the parts of a view on a canvas, one below the other. If not all of them fit at their
 * minimum height, the least important ones are left out; spare lines are distributed by weight.
 * Pure.
 */
enum { LAYOUT_PARTS_MAX = 16 };

struct layout_part {
    int min;        /* minimum height, lines */
    int max;        /* maximum height, lines; 0: none */
    int weight;     /* share of the spare lines; 0: the height stays at its minimum */
    int importance; /* the least important part is left out first; of equal ones the last */
    int gap;        /* empty lines above, unless it is the first part shown */
};

/*
 * Sets PLACES for COUNT parts (at most LAYOUT_PARTS_MAX); height 0: left out. Returns the number of
 * parts shown.
 */
int layout_stack(const struct canvas *canvas, const struct layout_part *parts, size_t count,
                 struct canvas *places);

#endif
