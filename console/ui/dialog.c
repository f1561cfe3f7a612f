#include "console/ui/dialog.h"

#include "common/clock.h"
#include "console/ui/text.h"

#include <curses.h>
#include <stdio.h>
#include <string.h>

enum {
    CTRL_A = 1,
    CTRL_D = 4,
    CTRL_E = 5,
    BACKSPACE = 8,
    CTRL_K = 11,
    CTRL_U = 21,
    CTRL_W = 23,
    DELETE = 127
};

/* Edit */

/* True for a UTF-8 continuation byte. */
static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

void edit_set(struct edit *edit, const char *text)
{
    snprintf(edit->text, sizeof(edit->text), "%s", text);
    edit->cursor = strlen(edit->text);
}

static void insert_byte(struct edit *edit, char byte)
{
    size_t length = strlen(edit->text);

    if (length + 1 >= sizeof(edit->text))
        return;
    memmove(edit->text + edit->cursor + 1, edit->text + edit->cursor, length - edit->cursor + 1);
    edit->text[edit->cursor++] = byte;
}

static void remove_to(struct edit *edit, size_t from)
{
    memmove(edit->text + from, edit->text + edit->cursor, strlen(edit->text + edit->cursor) + 1);
    edit->cursor = from;
}

static size_t character_before(const struct edit *edit)
{
    size_t at = edit->cursor;

    while (at > 0 && continues(edit->text[--at]))
        ;
    return at;
}

static size_t character_after(const struct edit *edit)
{
    size_t at = edit->cursor;

    at += edit->text[at] != '\0';
    while (continues(edit->text[at]))
        at++;
    return at;
}

static size_t word_start(const struct edit *edit)
{
    size_t at = edit->cursor;

    while (at > 0 && edit->text[at - 1] == ' ')
        at--;
    while (at > 0 && edit->text[at - 1] != ' ')
        at--;
    return at;
}

static bool go_back(struct edit *edit, struct edit_history *history, int steps)
{
    int at = history != NULL ? history->at + steps : -1;

    if (at < 0 || at > history->count)
        return history != NULL;
    history->at = at;
    edit_set(edit, at < history->count ? history->line[at] : "");
    return true;
}

static bool edit_character(struct edit *edit, int code)
{
    if (code < ' ' || code > 0xff || code == DELETE)
        return false;
    insert_byte(edit, (char)code);
    return true;
}

/* Handles the key with curses code CODE; false if it means nothing here. HISTORY may be NULL. */
static bool edit_key(struct edit *edit, struct edit_history *history, int code)
{
    size_t from = edit->cursor;

    switch (code) {
    case KEY_LEFT:
        edit->cursor = character_before(edit);
        return true;
    case KEY_RIGHT:
        edit->cursor = character_after(edit);
        return true;
    case KEY_HOME:
    case CTRL_A:
        edit->cursor = 0;
        return true;
    case KEY_END:
    case CTRL_E:
        edit->cursor = strlen(edit->text);
        return true;
    case KEY_BACKSPACE:
    case BACKSPACE:
    case DELETE:
        remove_to(edit, character_before(edit));
        return true;
    case KEY_DC:
    case CTRL_D:
        edit->cursor = character_after(edit);
        remove_to(edit, from);
        return true;
    case CTRL_U:
        remove_to(edit, 0);
        return true;
    case CTRL_W:
        remove_to(edit, word_start(edit));
        return true;
    case CTRL_K:
        edit->text[edit->cursor] = '\0';
        return true;
    case KEY_UP:
        return go_back(edit, history, -1);
    case KEY_DOWN:
        return go_back(edit, history, 1);
    default:
        return edit_character(edit, code);
    }
}

/* Appends LINE unless it is empty or equals the last one. */
static void edit_remember(struct edit_history *history, const char *line)
{
    if (line[0] != '\0' &&
        (history->count == 0 || strcmp(history->line[history->count - 1], line) != 0)) {
        if (history->count == EDIT_HISTORY)
            memmove(history->line[0], history->line[1],
                    sizeof(history->line[0]) * (size_t)(--history->count));
        snprintf(history->line[history->count++], EDIT_BYTES, "%s", line);
    }
    history->at = history->count;
}

size_t edit_complete(struct edit *edit, const char *const *words, size_t count)
{
    size_t start = edit->cursor, given, common = 0, found = 0;
    const char *first = NULL;

    while (start > 0 && edit->text[start - 1] != ' ')
        start--;
    given = edit->cursor - start;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;

        if (strncmp(words[i], edit->text + start, given) != 0)
            continue;
        if (found++ == 0) {
            first = words[i];
            common = strlen(first);
        }
        while (same < common && first[same] == words[i][same])
            same++;
        common = same;
    }
    for (size_t i = given; first != NULL && i < common; i++)
        insert_byte(edit, first[i]);
    if (found == 1 && edit->text[edit->cursor] == '\0')
        insert_byte(edit, ' ');
    return found;
}

/* Dialog */

/* The answers, at the right end of the question's line. */
static const char no_text[] = "n no";

#define READING_NS (200 * NS_PER_MS) /* before it is over, no key agrees to a question */

static const char *yes_text(const struct dialog *dialog)
{
    return dialog->by_return ? "Enter yes" : "y yes";
}

enum { ENTER = '\r', NEWLINE = '\n', ESCAPE = 27, TAB = '\t', CANCEL = 7 /* Ctrl-G */ };

bool dialog_is_cancel(int code)
{
    return code == ESCAPE || code == CANCEL;
}

/* Closes the dialog before the callback, which may open the next one. */
static void cancel_dialog(struct dialog *dialog)
{
    void (*gone)(void *) = dialog->gone;
    void *context = dialog->context;

    dialog->kind = DIALOG_NONE;
    if (gone != NULL)
        gone(context);
}

static void confirm_key(struct dialog *dialog, int code)
{
    void (*yes)(void *) = dialog->yes;
    void *context = dialog->context;

    if (dialog->key != NULL && dialog->key(context, code))
        return;
    if (dialog->answerable &&
        (code == 'y' || code == 'Y' || (dialog->by_return && (code == ENTER || code == NEWLINE)))) {
        dialog->kind = DIALOG_NONE;
        yes(context);
    } else if (code == 'n' || code == 'N' || code == 'q' || dialog_is_cancel(code)) {
        cancel_dialog(dialog);
    }
}

static void prompt_key(struct dialog *dialog, int code)
{
    if (code == ENTER || code == NEWLINE) {
        char text[EDIT_BYTES];

        snprintf(text, sizeof(text), "%s", dialog->edit.text);
        if (dialog->history != NULL)
            edit_remember(dialog->history, text);
        dialog->kind = DIALOG_NONE;
        dialog->done(dialog->context, text);
    } else if (dialog_is_cancel(code)) {
        cancel_dialog(dialog);
    } else {
        if (code == TAB && dialog->complete != NULL)
            dialog->complete(&dialog->edit);
        else
            edit_key(&dialog->edit, dialog->history, code);
        if (dialog->changed != NULL)
            dialog->changed(dialog->context, dialog->edit.text);
    }
}

void dialog_paste(struct dialog *dialog, int byte)
{
    edit_character(&dialog->edit, byte < ' ' || byte == DELETE ? ' ' : byte);
    if (dialog->changed != NULL)
        dialog->changed(dialog->context, dialog->edit.text);
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
    int to = foot->x + foot->width - (int)strlen(no_text) - 2;
    int from = to - (int)strlen(yes_text(dialog));

    if (dialog->kind != DIALOG_CONFIRM || y != foot->y)
        return;
    if (x >= from && x < to)
        confirm_key(dialog, 'y');
    else if (x > to)
        confirm_key(dialog, 'n');
}

/* The number of characters in the first BYTES of TEXT (UTF-8). */
static int character_count(const char *text, size_t bytes)
{
    int count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += !continues(text[i]);
    return count;
}

/* Draws the visible part of the line, scrolled to the cursor, and the cursor. */
static void draw_prompt(const struct dialog *dialog, const struct canvas *foot)
{
    const struct edit *edit = &dialog->edit;
    int x = canvas_print(foot, 0, 0, TONE_BAR_KEY, "%s", dialog->label);
    int width = foot->width - x - 1, cursor = character_count(edit->text, edit->cursor);
    const char *start = edit->text;
    struct canvas place;

    for (; cursor > width && *start != '\0'; cursor--)
        do
            start++;
        while (continues(*start));
    canvas_text(foot, 0, x, TONE_BAR, start);
    place = canvas_part(foot, 0, x + cursor, 1, 1);
    canvas_repeat(&place, 0, 0, 1, TONE_SELECTED, L' ');
    canvas_text(&place, 0, 0, TONE_SELECTED, edit->text + edit->cursor);
}

/* Draws the question before the answers; one that does not fit is drawn in the lines above. */
static void draw_question(const struct dialog *dialog, const struct canvas *foot,
                          const struct canvas *body)
{
    const char *rest = dialog->label;
    size_t adjusting = dialog->adjusting_keys != NULL ? strlen(dialog->adjusting_keys) + 2 : 0;
    int answers = (int)(adjusting + strlen(yes_text(dialog)) + 2 + strlen(no_text) + 2), lines = 0;

    if (character_count(rest, strlen(rest)) <= foot->width - 1 - answers) {
        canvas_text(foot, 0, 1, TONE_BAR_KEY, rest);
        return;
    }
    for (const char *at = rest; *at != '\0'; lines++) {
        at += text_piece(at, body->width - 2);
        at += strspn(at, " ");
    }
    for (int y = body->height - lines; *rest != '\0'; y++) {
        size_t piece = text_piece(rest, body->width - 2);

        canvas_repeat(body, y, 0, body->width, TONE_BAR, L' ');
        canvas_print(body, y, 1, TONE_BAR_KEY, "%.*s", (int)piece, rest);
        rest += piece;
        rest += strspn(rest, " ");
    }
}

uint64_t dialog_due_ns(const struct dialog *dialog)
{
    return dialog->kind == DIALOG_CONFIRM && !dialog->answerable && dialog->asked_ns != 0
               ? dialog->asked_ns + READING_NS
               : UINT64_MAX;
}

void dialog_draw(struct dialog *dialog, const struct canvas *foot, const struct canvas *body,
                 uint64_t now_ns)
{
    char hint[DIALOG_TEXT] = "";

    canvas_repeat(foot, 0, 0, foot->width, TONE_BAR, L' ');
    if (dialog->kind == DIALOG_CONFIRM) {
        int end = foot->width;

        if (dialog->asked_ns == 0)
            dialog->asked_ns = now_ns;
        dialog->answerable |= now_ns >= dialog->asked_ns + READING_NS;
        draw_question(dialog, foot, body);
        end = canvas_right(foot, 0, end, TONE_BAR_KEY, no_text) - 2;
        end -= (int)strlen(yes_text(dialog));
        if (dialog->answerable)
            canvas_text(foot, 0, end, TONE_BAR_KEY, yes_text(dialog));
        end -= 2;
        if (dialog->adjusting_keys != NULL)
            canvas_right(foot, 0, end, TONE_BAR_KEY, dialog->adjusting_keys);
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
