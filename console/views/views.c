#include "console/views/views.h"

#include <string.h>

#define VIEW(name) extern const struct view view_##name;
#include "console/views/views.def"
#undef VIEW

const struct view *const view_table[VIEW_COUNT] = {
#define VIEW(name) &view_##name,
#include "console/views/views.def"
#undef VIEW
};

const struct view *view_named(const char *name)
{
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (strcmp(view_table[i]->name, name) == 0)
            return view_table[i];
    return NULL;
}
