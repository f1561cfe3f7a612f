/*
 * The terminal is given back as it was, whatever ends the program. Normal ends go through the
 * screen; this is for crashes. The console's only thread.
 */
#ifndef CONSOLE_TERMINAL_GUARD_H
#define CONSOLE_TERMINAL_GUARD_H

#include <stdbool.h>

/* Remembers the terminal's mode. Before curses starts. */
void terminal_guard_remember(void);

/* Takes over the signals of a crash. After curses has started on standard output. MOUSE: the
 * terminal was asked to tell of the mouse, and is to stop that too. */
void terminal_guard_start(bool mouse);

/*
 * Shows the cursor once more. After endwin(), which does it too early for terminals that keep the
 * cursor's visibility with its position (those made with libvterm): leaving full-screen mode brings
 * back the hidden one.
 */
void terminal_guard_show_cursor(void);

#endif
