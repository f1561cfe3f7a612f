/* The registry of views, from views.def, in the order of their tabs. */
#ifndef CONSOLE_VIEWS_H
#define CONSOLE_VIEWS_H

#include "console/scene/scene.h"

enum {
#define VIEW(name) VIEW_NUMBER_##name,
#include "console/views/views.def"
#undef VIEW
    VIEW_COUNT
};

extern const struct view *const view_table[VIEW_COUNT];

/* The view called NAME, or NULL. */
const struct view *view_named(const char *name);

#endif
