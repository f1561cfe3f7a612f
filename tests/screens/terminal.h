/*
 * A program in a pseudo-terminal, its screen kept by libvterm: tests type, wait for texts, and look
 * at the screen as text. Waiting is for events, with a generous deadline; no test depends on speed.
 */
#ifndef TESTS_SCREENS_TERMINAL_H
#define TESTS_SCREENS_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal;

/*
 * Runs ARGUMENTS (the program first, NULL last) on a screen of ROWS x COLUMNS. ENVIRONMENT is a
 * list of "NAME=value" ended by NULL, put over the usual one; may be NULL. Ends the test when it
 * can't.
 */
struct terminal *terminal_start(int rows, int columns, const char *const *arguments,
                                const char *const *environment);

/* Ends the program if it still runs, and frees. */
void terminal_stop(struct terminal *terminal);

pid_t terminal_pid(const struct terminal *terminal);
void terminal_type(struct terminal *terminal, const char *keys);
void terminal_resize(struct terminal *terminal, int rows, int columns);

/* Takes what the program has written, without waiting for any of it in particular. */
void terminal_take(struct terminal *terminal);

/* Waits until TEXT is somewhere on the screen, or is not any more. False at the deadline. */
bool terminal_shows(struct terminal *terminal, const char *text);
bool terminal_shows_no_more(struct terminal *terminal, const char *text);

/* Waits for the program's end and returns its wait status; -1 at the deadline. */
int terminal_wait_end(struct terminal *terminal);

/* The screen as it is now, lines ended by newlines, blanks at their ends left out. Valid until the
 * next call. */
const char *terminal_text(struct terminal *terminal);

/* One line of it, from 0; with the blanks. */
const char *terminal_line(struct terminal *terminal, int row);

/* Whether the full-screen buffer is shown, the cursor is visible, and typed characters are echoed.
 */
bool terminal_in_full_screen(const struct terminal *terminal);
bool terminal_cursor_visible(const struct terminal *terminal);
bool terminal_echoes(const struct terminal *terminal);

/* True when any cell has another colour than the terminal's own. */
bool terminal_has_colour(struct terminal *terminal);

/* True when any character is not ASCII. */
bool terminal_has_non_ascii(struct terminal *terminal);

/* Writes the screen as text into the folder that WSCONSOLE_SCREENS names, if it is set. */
void terminal_save(struct terminal *terminal, const char *name);

/* Closes the pseudo-terminal's other end, as when the window goes away. */
void terminal_hang_up(struct terminal *terminal);

#endif
