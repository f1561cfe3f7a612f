/*
 * Places for the parts of a view: a canvas shared out among parts that stand one below the other.
 * Where not all find their least height, the least important ones are left out; what is left over is
 * shared by weight. Pure.
 */
#ifndef CONSOLE_LAYOUT_H
#define CONSOLE_LAYOUT_H

#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>

enum { LAYOUT_PARTS_MAX = 16 };

struct layout_part {
    int least;      /* lines without which the part is left out */
    int most;       /* lines that it can make use of; 0: any number */
    int weight;     /* of what is left over; 0: stays at its least */
    int importance; /* the least important goes first; of equals the later one */
    int gap;        /* empty lines before it, unless it is the first one shown */
};

/*
 * Sets PLACES for COUNT parts (at most LAYOUT_PARTS_MAX); a part that is left out has height 0.
 * Returns how many are shown.
 */
int layout_stack(const struct canvas *canvas, const struct layout_part *parts, size_t count,
                 struct canvas *places);

#endif
