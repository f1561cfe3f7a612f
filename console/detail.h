/* All that is known of the selected row of a list, in a box over the view. The console's only
 * thread. */
#ifndef CONSOLE_DETAIL_H
#define CONSOLE_DETAIL_H

#include "console/grid.h"
#include "console/scroll.h"

/* Draws the box over BODY, as large as it needs to be. */
void detail_draw(struct scroll *scroll, const struct scene *scene, const struct canvas *body);

#endif
