/*
 * A rectangle of the screen to draw on. Views see nothing else of the terminal: positions count
 * from the rectangle's upper left corner, and what would leave it is cut. The console's only
 * thread.
 */
#ifndef CONSOLE_CANVAS_H
#define CONSOLE_CANVAS_H

#include "common/macros.h"
#include "console/ui/theme.h"

#include <stdbool.h>
#include <wchar.h>

struct canvas {
    int y, x; /* of the corner, on the screen */
    int height, width;
};

/* The part of CANVAS that begins at Y, X; smaller than asked where the canvas ends. */
struct canvas canvas_part(const struct canvas *canvas, int y, int x, int height, int width);

/* Whether Y, X of the screen is within CANVAS. */
bool canvas_holds(const struct canvas *canvas, int y, int x);

/* Writes TEXT (UTF-8, every character one column wide) and returns the column behind it. */
int canvas_text(const struct canvas *canvas, int y, int x, enum tone tone, const char *text);
int canvas_print(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* The same of a text that fits whole; else writes nothing and returns X. */
int canvas_item(const struct canvas *canvas, int y, int x, enum tone tone, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Writes TEXT, broken at blanks, into as many lines as it takes; returns the line behind. */
int canvas_wrapped(const struct canvas *canvas, int y, enum tone tone, const char *text);

/* Writes TEXT so that it ends before column END; returns the column where it begins. */
int canvas_right(const struct canvas *canvas, int y, int end, enum tone tone, const char *text);

/* COUNT times the same character, or cells that were drawn elsewhere. */
void canvas_repeat(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                   wchar_t glyph);
void canvas_cells(const struct canvas *canvas, int y, int x, int count, enum tone tone,
                  const wchar_t *cells);

#endif
