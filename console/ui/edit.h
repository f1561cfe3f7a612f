/*
 * One line of text being edited: cursor, deleting, a history of lines, completion of words. The
 * usual keys of a shell. Pure but for curses' key codes; one thread.
 */
#ifndef CONSOLE_EDIT_H
#define CONSOLE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

enum { EDIT_BYTES = 1024, EDIT_HISTORY = 50 };

struct edit {
    char text[EDIT_BYTES]; /* UTF-8 */
    size_t cursor;         /* bytes before it */
};

/* Lines that were entered before, the newest last. */
struct edit_history {
    char line[EDIT_HISTORY][EDIT_BYTES];
    int count;
    int at; /* the one shown; count: the new one */
};

void edit_set(struct edit *edit, const char *text);

/* Acts on the key with the curses code CODE; false when it means nothing here. HISTORY may be NULL.
 */
bool edit_key(struct edit *edit, struct edit_history *history, int code);

/* Keeps LINE unless it is empty or the same as the last one. */
void edit_remember(struct edit_history *history, const char *line);

/*
 * Completes the word before the cursor as far as the COUNT WORDS that begin with it agree; a whole
 * word gets a blank. Returns how many begin with it.
 */
size_t edit_complete(struct edit *edit, const char *const *words, size_t count);

#endif
