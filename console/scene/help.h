/* The help screen: the view, all keys (console/ui/keys.def), and the thread states. */
#ifndef CONSOLE_HELP_H
#define CONSOLE_HELP_H

#include "console/data/snapshot.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/keys.h"

/*
 * Draws the help over the whole canvas, starting with VIEW, and marks SOUGHT in it ("": nothing).
 * Lists the thread states that NOW describes; NULL: the built-in ones.
 */
void help_draw(struct scroll *scroll, const struct canvas *canvas, const struct view *view,
               const struct snapshot *now, const char *sought);

/*
 * Scrolls the help of VIEW in WIDTH columns to the next line with SOUGHT below its top line, or
 * with a negative DIRECTION above it, or with 0 from it on; after the last line it begins again.
 * False: no line has it. NOW as above.
 */
bool help_find(struct scroll *scroll, int width, const struct view *view,
               const struct snapshot *now, const char *sought, int direction);

/* Which keys work at present. */
struct help_context {
    bool changes;    /* the server may be changed */
    bool server;     /* the view has the keys that change the server's sizes */
    bool empty;      /* the view has nothing to draw */
    bool list;       /* a list is on the screen */
    bool rows;       /* it has rows */
    bool selecting;  /* a row is selected */
    bool span;       /* the view shows the time range */
    bool moment;     /* a moment of a server is on the screen */
    bool later;      /* there is a later moment */
    bool mark_later; /* or a later mark */
    bool mark_earlier;
    const char *freeze; /* what Space does, and Left */
    const char *earlier;
};

/* A key of the menu, and what it does. */
struct help_item {
    enum action action;
    const char *words;
};

/*
 * What can be done: by the HINTS of the view (NULL: none), then by the keys of lists, of the server
 * and of the time. ITEMS has ACTION_COUNT places. Returns their number.
 */
size_t help_items(const struct view_hint *hints, const struct help_context *context,
                  struct help_item *items);

/*
 * Draws as many keys with a brief word as fit from column X to END, for the last line: HINTS of the
 * view (NULL: none), then those of its list, then those that work in every view.
 */
void help_draw_brief(const struct canvas *canvas, int x, int end, const struct view_hint *hints,
                     const struct help_context *context);

/* The same for a text that covers the view: how to scroll and close it. */
void help_draw_brief_text(const struct canvas *canvas, int x, int end, bool scrolls);

/* The action whose key help_draw_brief() last drew at column X; ACTION_NONE: none. */
enum action help_brief_at(int x);

#endif
