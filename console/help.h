/* The help screen: every key, made from console/keys.def, and what the thread letters mean. */
#ifndef CONSOLE_HELP_H
#define CONSOLE_HELP_H

#include "console/canvas.h"
#include "console/scroll.h"
#include "console/snapshot.h"

/* Draws the help over the whole canvas. NOW may be NULL: then the letters are those known here. */
void help_draw(struct scroll *scroll, const struct canvas *canvas, const struct snapshot *now);

/* The keys with a brief word, for one line at the bottom: as many as fit. */
void help_draw_brief(const struct canvas *canvas, int x, int end);

#endif
