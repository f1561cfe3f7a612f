/* Text in a box over the view: all that is known of the selected row of a list, or an answer of the
 * daemon. The console's only thread. */
#ifndef CONSOLE_DETAIL_H
#define CONSOLE_DETAIL_H

#include "console/scene/scene.h"
#include "console/ui/scroll.h"

/* Draws the box over BODY, as large as it needs to be. */
void detail_draw(struct scroll *scroll, const struct scene *scene, const struct canvas *body);

/* The same of TEXT. */
void detail_draw_text(struct scroll *scroll, const char *text, bool ascii,
                      const struct canvas *body);

#endif
