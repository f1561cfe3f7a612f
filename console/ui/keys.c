#include "console/ui/keys.h"

#include <curses.h>

const struct key_info key_table[REQUEST_COUNT] = {
#define KEY(request, group, shown, brief, first, second, help)                                     \
    {group, shown, brief, help, first, second},
#include "console/ui/keys.def"
#undef KEY
};

enum request key_request(int code)
{
    for (int i = 0; i < REQUEST_COUNT; i++)
        if (code != 0 && (code == key_table[i].first || code == key_table[i].second))
            return (enum request)i;
    return REQUEST_NONE;
}
