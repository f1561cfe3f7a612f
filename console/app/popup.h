/* Text in a box over the view: all that is known of the selected row of a list, or an answer of the
 * daemon. The console's only thread. */
#ifndef CONSOLE_POPUP_H
#define CONSOLE_POPUP_H

#include "console/scene/scene.h"
#include "console/ui/scroll.h"

/* Draws the box over BODY, as large as it needs to be. */
void popup_draw_row(struct scroll *scroll, const struct scene *scene, const struct canvas *body);

/* The same of TEXT. */
void popup_draw_text(struct scroll *scroll, const char *text, bool ascii,
                     const struct canvas *body);

#endif
