/*
 * The one question that is put to the user at a time: yes or no, or a line of text. Drawn over the
 * foot and, where there is something to explain, above it. The console's only thread.
 */
#ifndef CONSOLE_DIALOG_H
#define CONSOLE_DIALOG_H

#include "console/ui/canvas.h"
#include "console/ui/edit.h"

#include <stdbool.h>
#include <stddef.h>

enum { DIALOG_TEXT = 256 };

enum dialog_kind { DIALOG_NONE, DIALOG_CONFIRM, DIALOG_PROMPT };

struct dialog {
    enum dialog_kind kind;
    char label[DIALOG_TEXT];
    struct edit edit;
    struct edit_history *history;                              /* of a prompt; or NULL */
    size_t (*complete)(struct edit *edit);                     /* Tab; or NULL */
    void (*hint)(const char *text, char *buffer, size_t size); /* a line about it; or NULL */
    void (*changed)(void *context, const char *text);          /* after each key; or NULL */
    void (*yes)(void *context);                                /* agreed */
    void (*done)(void *context, const char *text);             /* entered */
    void (*gone)(void *context);                               /* given up; or NULL */
    void *context;
};

/* True while a question is open: all keys go to it. */
bool dialog_open(const struct dialog *dialog);

/* Takes a key's curses code. */
void dialog_key(struct dialog *dialog, int code);

/* A click on the screen's line Y and column X while it is drawn on FOOT: on an answer, it is given. */
void dialog_click(struct dialog *dialog, const struct canvas *foot, int y, int x);

/* Draws the question into FOOT, a hint into the last line of BODY. */
void dialog_draw(const struct dialog *dialog, const struct canvas *foot, const struct canvas *body);

#endif
