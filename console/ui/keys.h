/* Keys and what they ask for, from console/ui/keys.def. Any thread. */
#ifndef CONSOLE_KEYS_H
#define CONSOLE_KEYS_H

#include <stddef.h>

enum request {
#define KEY(request, group, shown, brief, first, second, help) REQUEST_##request,
#include "console/ui/keys.def"
#undef KEY
    REQUEST_COUNT,
    REQUEST_NONE = REQUEST_COUNT
};

struct key_info {
    const char *group, *shown, *brief, *help;
    int first, second;
};
extern const struct key_info key_table[REQUEST_COUNT];

/* What the key with the curses code CODE asks for, or REQUEST_NONE. */
enum request key_request(int code);

#endif
