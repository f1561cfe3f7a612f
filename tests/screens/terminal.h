/*
 * A program in a pseudo-terminal, with its screen in libvterm: tests type, wait for texts, and read
 * the screen as text. All waits are for events, with a generous deadline.
 */
#ifndef TESTS_SCREENS_TERMINAL_H
#define TESTS_SCREENS_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal;

/*
 * Runs ARGUMENTS (the program first, NULL last) on a screen of ROWS x COLUMNS. ENVIRONMENT is a
 * list of "NAME=value" ended by NULL, added to the default one; may be NULL. Fails the test on
 * errors.
 */
struct terminal *terminal_start(int rows, int columns, const char *const *arguments,
                                const char *const *environment);

/* Kills the program if it still runs, and frees. */
void terminal_stop(struct terminal *terminal);

pid_t terminal_pid(const struct terminal *terminal);

/*
 * Types the key that agrees to a question as soon as the question shows it: before, it would be
 * ignored.
 */
#define AGREE "\x1d"

/* KEYS may contain AGREE. Fails the test if the program has ended. */
void terminal_type(struct terminal *terminal, const char *keys);

/* Any bytes; returns false if the program has ended. */
bool terminal_type_bytes(struct terminal *terminal, const char *bytes, size_t length);

/*
 * Waits until the program has read all input and sleeps; continues it if it is stopped. The screen
 * is then its answer. Returns false if it has ended.
 */
bool terminal_settle(struct terminal *terminal);

void terminal_resize(struct terminal *terminal, int rows, int columns);

/* Reads pending output of the program. */
void terminal_take(struct terminal *terminal);

/*
 * Wait until TEXT is on the screen, or no longer on it, in a whole frame. Return false at the
 * deadline.
 */
bool terminal_shows(struct terminal *terminal, const char *text);
bool terminal_shows_no_more(struct terminal *terminal, const char *text);

/* The same for each of COUNT texts, one after the other. */
bool terminal_shows_all(struct terminal *terminal, const char *const *texts, size_t count);

/* For a test whose terminal is the variable `terminal`: waits for each text. */
#define ASSERT_SHOWS(...)                                                                          \
    do {                                                                                           \
        static const char *const texts_[] = {__VA_ARGS__};                                         \
                                                                                                   \
        assert_true(terminal_shows_all(terminal, texts_, sizeof(texts_) / sizeof(texts_[0])));     \
    } while (0)

/* Types KEYS, then waits for the texts after it. */
#define TYPE_SHOWS(keys, ...)                                                                      \
    do {                                                                                           \
        terminal_type(terminal, keys);                                                             \
        ASSERT_SHOWS(__VA_ARGS__);                                                                 \
    } while (0)

/* Types KEYS, then waits until TEXT is no longer on the screen. */
#define TYPE_HIDES(keys, text)                                                                     \
    do {                                                                                           \
        terminal_type(terminal, keys);                                                             \
        assert_true(terminal_shows_no_more(terminal, text));                                       \
    } while (0)

/* Waits for the program to exit; returns its wait status, or -1 at the deadline. */
int terminal_wait_end(struct terminal *terminal);

/* The same, but reads none of its output. Returns false at the deadline. */
bool terminal_ends_unread(struct terminal *terminal);

/* The current screen, one line each, without trailing blanks. Valid until the next call. */
const char *terminal_text(struct terminal *terminal);

/* Line ROW (from 0), with trailing blanks. */
const char *terminal_line(struct terminal *terminal, int row);

/* Whether the full-screen buffer is shown, the cursor is visible, and typed characters are echoed.
 */
bool terminal_in_full_screen(const struct terminal *terminal);
bool terminal_cursor_visible(const struct terminal *terminal);
bool terminal_echoes(const struct terminal *terminal);

/* True if any cell has a colour other than the default. */
bool terminal_has_colour(struct terminal *terminal);

/* Whether any cell of the rows FROM to TO is in reverse video, and whether a cell is bold. */
bool terminal_has_reverse(struct terminal *terminal, int from, int to);
/* The number of the colour behind a cell; -1: none. */
int terminal_background(struct terminal *terminal, int row, int column);

/* The colour that terminals report as their background: "ffff/ffff/ffff"; NULL: none does. */
void terminal_set_background(const char *rgb);

bool terminal_is_bold(struct terminal *terminal, int row, int column);

/*
 * A letter for each cell of the screen, one line each: cells with the same colours and attributes
 * have the same letter, also in later calls. Valid until the next call.
 */
const char *terminal_looks(struct terminal *terminal);

/* What the program last asked to put on the clipboard, in base64; "": nothing. */
const char *terminal_copied(const struct terminal *terminal);

/* True if any character is not ASCII. */
bool terminal_has_non_ascii(struct terminal *terminal);

/* Writes the screen as text to the directory $WSCONSOLE_SCREENS, if set. */
void terminal_save(struct terminal *terminal, const char *name);

/* Closes the other end of the pseudo-terminal, like a closed window. */
void terminal_hang_up(struct terminal *terminal);

#endif
