/* The help screen: the view, all keys (console/ui/keys.def), and the thread states. */
#ifndef CONSOLE_HELP_H
#define CONSOLE_HELP_H

#include "console/data/snapshot.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/keys.h"

/*
 * Draws the help over the whole canvas, starting with VIEW. Lists the thread states that NOW
 * describes; NULL: the built-in ones.
 */
void help_draw(struct scroll *scroll, const struct canvas *canvas, const struct view *view,
               const struct snapshot *now);

/*
 * Draws as many keys with a brief word as fit from column X to END, for the last line: those that
 * work in VIEW; CHANGES: the server may be changed.
 */
void help_draw_brief(const struct canvas *canvas, int x, int end, const struct view *view,
                     bool changes);

/* The action whose key help_draw_brief() last drew at column X; ACTION_NONE: none. */
enum action help_brief_at(int x);

#endif
