/*
 * A canvas is a rectangle of the screen. Views draw on nothing else: positions count from the
 * rectangle's upper left corner, and whatever lies outside is cut. The console's only thread.
 */
#ifndef CONSOLE_CANVAS_H
#define CONSOLE_CANVAS_H

#include "common/macros.h"
#include "console/ui/theme.h"

#include <stdbool.h>
#include <wchar.h>

struct canvas {
    int y, x; /* upper left corner, on the screen */
    int height, width;
};

/* The part of CANVAS that starts at Y, X; smaller than requested where the canvas ends. */
struct canvas canvas_part(const struct canvas *canvas, int y, int x, int height, int width);

/* True if Y, X of the screen is inside CANVAS. */
bool canvas_holds(const struct canvas *canvas, int y, int x);

/* Writes TEXT (UTF-8, every character one column wide) and returns the column after it. */
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

/* Draws GLYPH COUNT times; draws COUNT prepared cells. */
void canvas_repeat(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                   wchar_t glyph);
void canvas_cells(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                  const wchar_t *cells);

#endif
