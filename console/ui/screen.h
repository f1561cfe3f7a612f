/*
 * The terminal: start, stop, resize, input, and the areas of the screen. The terminal is restored
 * even if the process crashes. The console's only thread.
 */
#ifndef CONSOLE_SCREEN_H
#define CONSOLE_SCREEN_H

#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/keys.h"

#include <stdbool.h>
#include <stddef.h>

/* Smaller screens have no areas: one line is drawn instead. */
enum { SCREEN_MIN_WIDTH = 40, SCREEN_MIN_HEIGHT = 10 };

struct screen {
    bool tiny; /* too small: only `all` is valid */
    struct canvas all;
    struct canvas bar;  /* first line: tabs of the views */
    struct canvas head; /* second line: the server and its state */
    struct canvas body; /* the view */
    struct canvas foot; /* last line: messages and keys */
    bool ascii;
    enum graph_style style;
};

/*
 * Takes over the terminal. ASCII: draw ASCII only; implied if the locale or the terminal supports
 * nothing else. MOUSE: report mouse events. Returns 0, or -1 with a message in WHY.
 */
int screen_start(struct screen *screen, enum theme theme, bool ascii, bool mouse, char *why,
                 size_t size);

/* Shows the frames on SHEET (borrowed) instead of a terminal, without screen_start(). */
void screen_start_on(struct screen *screen, struct sheet *sheet, bool ascii);

/* Changes these three settings while the screen is started. */
void screen_adjust(struct screen *screen, enum theme theme, bool ascii, bool mouse);

/* Asks the terminal to put TEXT on the clipboard (OSC 52); many need a setting for it. */
void screen_copy(const char *text);

/* Rings the bell of the terminal, unless it takes no bytes. */
void screen_bell(void);

/* Restores the terminal. May be called more than once. */
void screen_stop(void);

/*
 * Blocks the signals that end, resize, stop or resume the console; returns a signalfd for them, or
 * -1 with errno.
 */
int screen_signals(void);

/*
 * Resizes, stops (Ctrl-Z) or resumes as the signals in SIGNALS, a descriptor of screen_signals(),
 * say. True: one of them ends the console.
 */
bool screen_signalled(struct screen *screen, int signals);

/* The code of the next key (see keys.h), or -1 if none is waiting. */
int screen_key(void);

/* The mouse event of the last key, which was KEY_MOUSE. */
struct pointer_event screen_pointer(void);

/*
 * A frame: screen_begin() clears it, screen_show() writes what changed to the terminal, without
 * waiting for one that takes no bytes (Ctrl-S, a hung connection). Draw only if screen_ready(): it
 * continues the frame before, and is false while the terminal has not taken all of it; frames are
 * then dropped. After screen_invalidate() the next frame is written in full.
 */
bool screen_ready(void);
void screen_begin(void);
void screen_show(void);
void screen_invalidate(void);

/* The descriptor to poll for POLLOUT while a frame is not written whole; else -1. */
int screen_output(void);

#endif
