/* Keys and their actions (keys.def), and the scroll position they move. Any thread. */
#ifndef CONSOLE_KEYS_H
#define CONSOLE_KEYS_H

#include <stdbool.h>
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

/* Scroll position of a text or list. Pure. */

struct scroll {
    int top;  /* first visible row */
    int page; /* visible rows when last drawn */
};

/* Moves; false if ACTION is not a movement. The position may be out of range until scroll_fit(). */
bool scroll_key(struct scroll *scroll, enum action action);

/* Clamps the position for ROWS rows, PAGE of them visible. */
void scroll_fit(struct scroll *scroll, int rows, int page);

#endif
