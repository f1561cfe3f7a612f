/* The help screen: what a view shows, every key, made from console/ui/keys.def, and what the thread letters mean. */
#ifndef CONSOLE_HELP_H
#define CONSOLE_HELP_H

#include "console/data/snapshot.h"
#include "console/scene/view.h"
#include "console/ui/canvas.h"
#include "console/ui/scroll.h"

/* Draws the help over the whole canvas: of VIEW first, then of all. NOW may be NULL: then the
 * letters are those known here. */
void help_draw(struct scroll *scroll, const struct canvas *canvas, const struct view *view,
               const struct snapshot *now);

/* The keys with a brief word, for one line at the bottom: as many as fit. */
void help_draw_brief(const struct canvas *canvas, int x, int end);

#endif
