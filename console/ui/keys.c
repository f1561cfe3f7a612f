#include "console/ui/keys.h"

#include <curses.h>
#include <limits.h>

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

/* Scroll */

bool scroll_key(struct scroll *scroll, enum action action)
{
    int page = scroll->page > 1 ? scroll->page - 1 : 1;

    switch (action) {
    case ACTION_UP:
        scroll->top--;
        return true;
    case ACTION_DOWN:
        scroll->top++;
        return true;
    case ACTION_PAGE_UP:
        scroll->top -= page;
        return true;
    case ACTION_PAGE_DOWN:
        scroll->top += page;
        return true;
    case ACTION_FIRST:
        scroll->top = 0;
        return true;
    case ACTION_LAST:
        scroll->top = INT_MAX / 2;
        return true;
    default:
        return false;
    }
}

void scroll_fit(struct scroll *scroll, int rows, int page)
{
    int last_top = rows > page ? rows - page : 0;

    scroll->page = page;
    if (scroll->top > last_top)
        scroll->top = last_top;
    if (scroll->top < 0)
        scroll->top = 0;
}
