/*
 * Stacks the parts of a view on a canvas, one below the other. If not all of them fit at their
 * minimum height, the least important ones are left out; spare lines are distributed by weight. Pure.
 */
#ifndef CONSOLE_LAYOUT_H
#define CONSOLE_LAYOUT_H

#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>

enum { LAYOUT_PARTS_MAX = 16 };

struct layout_part {
    int min;        /* minimum height, lines */
    int max;        /* maximum height, lines; 0: none */
    int weight;     /* share of the spare lines; 0: the height stays at its minimum */
    int importance; /* the least important is left out first; of equals the later one */
    int gap;        /* empty lines above, unless it is the first part shown */
};

/*
 * Sets PLACES for COUNT parts (at most LAYOUT_PARTS_MAX); height 0: left out. Returns the number of
 * parts shown.
 */
int layout_stack(const struct canvas *canvas, const struct layout_part *parts, size_t count,
                 struct canvas *places);

#endif
