/* Keys and their actions, from keys.def. Any thread. */
#ifndef CONSOLE_KEYS_H
#define CONSOLE_KEYS_H

#include <stddef.h>

enum action {
#define KEY(action, group, shown, brief, first, second, help) ACTION_##action,
#include "console/ui/keys.def"
#undef KEY
    ACTION_COUNT,
    ACTION_NONE = ACTION_COUNT
};

struct key_info {
    const char *group, *shown, *brief, *help;
    int first, second;
};
extern const struct key_info key_table[ACTION_COUNT];

/* The action of the key with curses code CODE, or ACTION_NONE. */
enum action key_action(int code);

#endif
