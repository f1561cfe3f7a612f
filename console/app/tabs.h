/* The bar with the tabs of the views. Single thread. */
#ifndef CONSOLE_TABS_H
#define CONSOLE_TABS_H

#include "console/scene/scene.h"
#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>

/* The keys of help and quit, in the bar if it has room for them. */
#define TABS_HELP "? help"
#define TABS_KEYS TABS_HELP "  q quit"

/* True if view VIEW has a tab while view SHOWN is on the screen. */
bool tabs_have(const struct scene *scene, size_t view, size_t shown);

/* Draws the tabs. COVERED: the help covers view SHOWN. */
void tabs_draw(const struct canvas *bar, const struct scene *scene, size_t shown, bool covered);

/* The index of the view whose tab was drawn at column X; -1: none. */
int tabs_view_at(int x);

/* True if the bar that was drawn has the keys of help and quit; else the foot shows them. */
bool tabs_have_keys(void);

#endif
