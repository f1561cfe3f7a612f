#include "console/ui/scroll.h"

#include <limits.h>

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
