/*
 * The panel of a scenario: what to do, what to watch, the measures, and the explanation. It is beside
 * the view on a wide screen, else below it, or replaces it. Single thread.
 */
#ifndef CONSOLE_LAB_DRAW_H
#define CONSOLE_LAB_DRAW_H

#include "console/lab/player.h"
#include "console/ui/canvas.h"
#include "console/ui/keys.h"

#include <stdbool.h>

/* Divides BODY. With WHOLE, or without room for both, VIEW gets height 0. */
void lab_panel_layout(const struct canvas *body, bool whole, struct canvas *view,
                      struct canvas *panel);

/* SCROLL NULL: lines that do not fit are omitted, with a hint. */
void lab_panel_draw(const struct lab_state *state, const struct canvas *panel,
                    struct scroll *scroll, bool ascii);

#endif
