/*
 * The dialog: one question at a time, yes or no or a line of text. It is drawn over the last line
 * of the screen; a hint is drawn above it. The console's only thread.
 */
#ifndef CONSOLE_DIALOG_H
#define CONSOLE_DIALOG_H

#include "console/ui/canvas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A line editor with the usual keys of a shell: cursor, deletion, history, completion. Pure except
 * for the key codes of curses; one thread.
 */
enum { EDIT_BYTES = 1024, EDIT_HISTORY = 50 };

struct edit {
    char text[EDIT_BYTES]; /* UTF-8 */
    size_t cursor;         /* bytes before it */
};

/* Lines entered before, the newest last. */
struct edit_history {
    char line[EDIT_HISTORY][EDIT_BYTES];
    int count;
    int at; /* index of the line shown; equal to count: a new line */
};

void edit_set(struct edit *edit, const char *text);

/*
 * Completes the word before the cursor up to the longest common prefix of the matching WORDS (COUNT
 * of them); a blank follows a unique match. Returns the number of matches.
 */
size_t edit_complete(struct edit *edit, const char *const *words, size_t count);

enum { DIALOG_TEXT = 256 };

enum dialog_kind { DIALOG_NONE, DIALOG_CONFIRM, DIALOG_PROMPT };

struct dialog {
    enum dialog_kind kind;
    uint64_t asked_ns; /* question: when it was first drawn, monotonic clock; 0: not yet */
    bool answerable;   /* question: it was drawn with its answers */
    char label[DIALOG_TEXT];
    bool by_return;                       /* question: Enter agrees as well as y */
    const char *adjusting_keys;           /* question: those that KEY handles, as shown; or NULL */
    bool (*key)(void *context, int code); /* receives keys before the dialog; or NULL */
    struct edit edit;
    struct edit_history *history;                              /* prompt: earlier lines; or NULL */
    size_t (*complete)(struct edit *edit);                     /* on Tab; or NULL */
    void (*hint)(const char *text, char *buffer, size_t size); /* one line of help; or NULL */
    void (*changed)(void *context, const char *text);          /* after each key; or NULL */
    void (*yes)(void *context);                                /* confirmed */
    void (*done)(void *context, const char *text);             /* entered */
    void (*gone)(void *context);                               /* cancelled; may be NULL */
    void *context;
};

/* True while a question is open: all keys then belong to the dialog. */
static inline bool dialog_open(const struct dialog *dialog)
{
    return dialog->kind != DIALOG_NONE;
}

/* True if the key cancels a dialog of every kind: Escape or Ctrl-G. */
bool dialog_is_cancel(int code);

/* Handles a key, given as curses code. */
void dialog_key(struct dialog *dialog, int code);

/* Inserts a byte of pasted text into the line of a prompt; a control character becomes a blank. */
void dialog_paste(struct dialog *dialog, int byte);

/* Handles a click at line Y, column X of the screen; FOOT is where the dialog was drawn. */
void dialog_click(struct dialog *dialog, const struct canvas *foot, int y, int x);

/*
 * Draws the question into FOOT; a hint, or a question that is too long, into the last lines of
 * BODY. NOW_NS: monotonic clock. A question is agreed to only after it was on the screen for a
 * moment and then drawn with the key that agrees: keys typed before it was read do not.
 */
void dialog_draw(struct dialog *dialog, const struct canvas *foot, const struct canvas *body,
                 uint64_t now_ns);

/* When to draw again (monotonic clock), so that the question can be agreed to; UINT64_MAX: never. */
uint64_t dialog_due_ns(const struct dialog *dialog);

#endif
