#include "console/ui/dialog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The answers, at the right end of the question's line. */
static const char yes_text[] = "y yes", no_text[] = "n no";

enum { ANSWERS_WIDTH = sizeof(yes_text) + sizeof(no_text) + 2 };

enum { ENTER = '\r', NEWLINE = '\n', ESCAPE = 27, TAB = '\t', CANCEL = 7 /* Ctrl-G */ };

bool dialog_open(const struct dialog *dialog)
{
    return dialog->kind != DIALOG_NONE;
}

/* Closes the dialog before the callback, which may open the next one. */
static void cancel(struct dialog *dialog)
{
    void (*gone)(void *) = dialog->gone;
    void *context = dialog->context;

    dialog->kind = DIALOG_NONE;
    if (gone != NULL)
        gone(context);
}

static void enter(struct dialog *dialog)
{
    char text[EDIT_BYTES];
    void (*done)(void *, const char *) = dialog->done;
    void *context = dialog->context;

    snprintf(text, sizeof(text), "%s", dialog->edit.text);
    if (dialog->history != NULL)
        edit_remember(dialog->history, text);
    dialog->kind = DIALOG_NONE;
    done(context, text);
}

static void confirm_key(struct dialog *dialog, int code)
{
    void (*yes)(void *) = dialog->yes;
    void *context = dialog->context;

    if (code == 'y' || code == 'Y') {
        dialog->kind = DIALOG_NONE;
        yes(context);
    } else if (code == 'n' || code == 'N' || code == ESCAPE || code == CANCEL || code == 'q') {
        cancel(dialog);
    }
}

static void prompt_key(struct dialog *dialog, int code)
{
    if (code == ENTER || code == NEWLINE) {
        enter(dialog);
    } else if (code == ESCAPE || code == CANCEL) {
        cancel(dialog);
    } else {
        if (code == TAB && dialog->complete != NULL)
            dialog->complete(&dialog->edit);
        else
            edit_key(&dialog->edit, dialog->history, code);
        if (dialog->changed != NULL)
            dialog->changed(dialog->context, dialog->edit.text);
    }
}

void dialog_key(struct dialog *dialog, int code)
{
    if (dialog->kind == DIALOG_CONFIRM)
        confirm_key(dialog, code);
    else if (dialog->kind == DIALOG_PROMPT)
        prompt_key(dialog, code);
}

void dialog_click(struct dialog *dialog, const struct canvas *foot, int y, int x)
{
    int from = foot->x + foot->width - ANSWERS_WIDTH + 2;

    if (dialog->kind != DIALOG_CONFIRM || y != foot->y)
        return;
    if (x >= from && x < from + (int)strlen(yes_text))
        confirm_key(dialog, 'y');
    else if (x > from + (int)strlen(yes_text))
        confirm_key(dialog, 'n');
}

/* The width of the first BYTES of TEXT (UTF-8), columns. */
static int columns_of(const char *text, size_t bytes)
{
    int columns = 0;

    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* Draws the visible part of the line, scrolled to the cursor, and the cursor. */
static void draw_prompt(const struct dialog *dialog, const struct canvas *foot)
{
    const struct edit *edit = &dialog->edit;
    int x = canvas_print(foot, 0, 0, TONE_BAR_KEY, "%s", dialog->label);
    int width = foot->width - x - 1, cursor = columns_of(edit->text, edit->cursor);
    const char *start = edit->text;
    struct canvas place;

    for (; cursor > width && *start != '\0'; cursor--)
        do
            start++;
        while (((unsigned char)*start & 0xc0) == 0x80);
    canvas_text(foot, 0, x, TONE_BAR, start);
    place = canvas_part(foot, 0, x + cursor, 1, 1);
    canvas_repeat(&place, 0, 0, 1, TONE_SELECTED, L' ');
    canvas_text(&place, 0, 0, TONE_SELECTED, edit->text + edit->cursor);
}

void dialog_draw(const struct dialog *dialog, const struct canvas *foot, const struct canvas *body)
{
    char hint[DIALOG_TEXT] = "";

    canvas_repeat(foot, 0, 0, foot->width, TONE_BAR, L' ');
    if (dialog->kind == DIALOG_CONFIRM) {
        int room = foot->width - 1 - ANSWERS_WIDTH, end = foot->width;

        canvas_print(foot, 0, 1, TONE_BAR_KEY, "%.*s", room > 0 ? room : 0, dialog->label);
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, no_text) - 2;
        canvas_right(foot, 0, end, TONE_BAR_KEY, yes_text);
        return;
    }
    draw_prompt(dialog, foot);
    if (dialog->hint != NULL)
        dialog->hint(dialog->edit.text, hint, sizeof(hint));
    if (hint[0] != '\0' && body->height > 1) {
        canvas_repeat(body, body->height - 1, 0, body->width, TONE_NORMAL, L' ');
        canvas_text(body, body->height - 1, 1, TONE_NOTE, hint);
    }
}
