#include "console/ui/keys.h"

#include <curses.h>

const struct key_info key_table[ACTION_COUNT] = {
#define KEY(action, group, shown, brief, first, second, help)                                      \
    {group, shown, brief, help, first, second},
#include "console/ui/keys.def"
#undef KEY
};

enum action key_action(int code)
{
    for (int i = 0; i < ACTION_COUNT; i++)
        if (code != 0 && (code == key_table[i].first || code == key_table[i].second))
            return (enum action)i;
    return ACTION_NONE;
}
