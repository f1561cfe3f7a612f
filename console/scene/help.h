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

/* Which keys work at present. */
struct help_context {
    bool changes;       /* the server may be changed */
    bool list;          /* a list is on the screen */
    bool selecting;     /* a row is selected */
    const char *freeze; /* what Space does, and Left */
    const char *earlier;
};

/*
 * Draws as many keys with a brief word as fit from column X to END, for the last line: HINTS of the
 * view (NULL: none), then those that work in every view.
 */
void help_draw_brief(const struct canvas *canvas, int x, int end, const struct view_hint *hints,
                     const struct help_context *context);

/* The same for a text that covers the view: how to scroll and close it. */
void help_draw_brief_text(const struct canvas *canvas, int x, int end, bool scrolls);

/* The action whose key help_draw_brief() last drew at column X; ACTION_NONE: none. */
enum action help_brief_at(int x);

#endif
