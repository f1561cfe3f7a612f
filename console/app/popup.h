/* A popup over the view: the details of the selected row, or a reply of the daemon. Single thread. */
#ifndef CONSOLE_POPUP_H
#define CONSOLE_POPUP_H

#include "console/scene/scene.h"
#include "console/ui/scroll.h"

/* Draws the details of the selected row over BODY. */
void popup_draw_row(struct scroll *scroll, const struct scene *scene, const struct canvas *body);

/* Draws TEXT over BODY. */
void popup_draw_text(struct scroll *scroll, const char *text, bool ascii,
                     const struct canvas *body);

#endif
