#include "console/ui/edit.h"

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

void edit_set(struct edit *edit, const char *text)
{
    snprintf(edit->text, sizeof(edit->text), "%s", text);
    edit->cursor = strlen(edit->text);
}

/* True for a UTF-8 continuation byte. */
static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static void insert(struct edit *edit, char byte)
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

static size_t before(const struct edit *edit)
{
    size_t at = edit->cursor;

    while (at > 0 && continues(edit->text[--at]))
        ;
    return at;
}

static size_t after(const struct edit *edit)
{
    size_t at = edit->cursor;

    at += edit->text[at] != '\0';
    while (continues(edit->text[at]))
        at++;
    return at;
}

static void delete_forward(struct edit *edit)
{
    size_t from = edit->cursor;

    edit->cursor = after(edit);
    remove_to(edit, from);
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
    insert(edit, (char)code);
    return true;
}

bool edit_key(struct edit *edit, struct edit_history *history, int code)
{
    switch (code) {
    case KEY_LEFT:
        edit->cursor = before(edit);
        return true;
    case KEY_RIGHT:
        edit->cursor = after(edit);
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
        remove_to(edit, before(edit));
        return true;
    case KEY_DC:
    case CTRL_D:
        delete_forward(edit);
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

void edit_remember(struct edit_history *history, const char *line)
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
        insert(edit, first[i]);
    if (found == 1 && edit->text[edit->cursor] == '\0')
        insert(edit, ' ');
    return found;
}
