#include "console/ui/scroll.h"

#include <limits.h>

bool scroll_key(struct scroll *scroll, enum request request)
{
    int page = scroll->page > 1 ? scroll->page - 1 : 1;

    switch (request) {
    case REQUEST_UP:
        scroll->top--;
        return true;
    case REQUEST_DOWN:
        scroll->top++;
        return true;
    case REQUEST_PAGE_UP:
        scroll->top -= page;
        return true;
    case REQUEST_PAGE_DOWN:
        scroll->top += page;
        return true;
    case REQUEST_FIRST:
        scroll->top = 0;
        return true;
    case REQUEST_LAST:
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
