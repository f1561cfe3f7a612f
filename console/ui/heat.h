/*
 * Heat maps and bars. How much something is shows by the character as well as by its colour, so
 * both also work without colours. The console's only thread.
 */
#ifndef CONSOLE_HEAT_H
#define CONSOLE_HEAT_H

#include "console/ui/canvas.h"
#include "console/ui/graph.h"

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
