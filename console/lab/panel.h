/*
 * The panel of a scenario: what to do, what to watch, what was measured, and why. It stands beside
 * the view where the screen is wide, else below it, or takes the whole place. The console's only
 * thread.
 */
#ifndef CONSOLE_LAB_DRAW_H
#define CONSOLE_LAB_DRAW_H

#include "console/lab/player.h"
#include "console/ui/canvas.h"
#include "console/ui/scroll.h"

#include <stdbool.h>

/* Shares BODY out. With WHOLE, or where there is no room for both, VIEW has height 0. */
void lab_panel_layout(const struct canvas *body, bool whole, struct canvas *view,
                      struct canvas *panel);

/* SCROLL moves what does not fit; NULL: the rest is left out, and the way to it is said. */
void lab_panel_draw(const struct lab_state *state, const struct canvas *panel,
                    struct scroll *scroll, bool ascii);

#endif
