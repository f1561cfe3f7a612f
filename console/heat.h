/*
 * Heat maps and bars. How much something is shows by the character as well as by its colour, so
 * both also work without colours. The console's only thread.
 */
#ifndef CONSOLE_HEAT_H
#define CONSOLE_HEAT_H

#include "console/canvas.h"
#include "console/graph.h"

enum { HEAT_STEPS = 5 }; /* above nothing */

/* The step of VALUE, 0 (nothing) to HEAT_STEPS, on a scale by square root up to MOST. */
int heat_step(double value, double most);

/* The character and the tone of a step. */
wchar_t heat_glyph(enum graph_style style, int step);
enum tone heat_tone(int step);

/*
 * Draws VALUES, ROWS lines (top first) of COLUMNS, one cell each. Minus infinity marks a gap; NAN
 * and 0 stay empty. MOST is the largest value.
 */
void heat_draw(const struct canvas *canvas, enum graph_style style, const double *values, int rows,
               int columns, double most);

/* The scale of a heat map, "less ░▒▓█ more", from X on; returns the column behind it. */
int heat_draw_scale(const struct canvas *canvas, int y, int x, enum graph_style style);

/* A bar of RATIO (0 to 1) of WIDTH columns, drawn in eighths where the style can. */
void bar_draw(const struct canvas *canvas, int y, int x, int width, enum graph_style style,
              double ratio, enum tone tone);

#endif
