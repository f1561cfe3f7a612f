/*
 * A line editor with the usual keys of a shell: cursor, deletion, history, completion. Pure except
 * for the key codes of curses; one thread.
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

/* Lines entered before, the newest last. */
struct edit_history {
    char line[EDIT_HISTORY][EDIT_BYTES];
    int count;
    int at; /* the line shown; count: a new one */
};

void edit_set(struct edit *edit, const char *text);

/* Handles the key with curses code CODE; false if it means nothing here. HISTORY may be NULL. */
bool edit_key(struct edit *edit, struct edit_history *history, int code);

/* Appends LINE unless it is empty or equals the last one. */
void edit_remember(struct edit_history *history, const char *line);

/*
 * Completes the word before the cursor up to the longest common prefix of the matching WORDS (COUNT
 * of them); a blank follows a unique match. Returns the number of matches.
 */
size_t edit_complete(struct edit *edit, const char *const *words, size_t count);

#endif
