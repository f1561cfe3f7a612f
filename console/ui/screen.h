/*
 * The terminal: starting and stopping it, and where everything stands. The only place that makes
 * areas; a resize goes through the same function as the start. The console's only thread.
 */
#ifndef CONSOLE_SCREEN_H
#define CONSOLE_SCREEN_H

#include "console/ui/canvas.h"
#include "console/ui/graph.h"
#include "console/ui/theme.h"

#include <stdbool.h>
#include <stddef.h>

/* Below this an own, one-line picture is drawn. */
enum { SCREEN_LEAST_WIDTH = 40, SCREEN_LEAST_HEIGHT = 10 };

struct screen {
    bool tiny; /* too small for areas: only `all` is to be used */
    struct canvas all;
    struct canvas bar;  /* the top line: views */
    struct canvas head; /* the line below it: which server, and how it is */
    struct canvas body; /* the view */
    struct canvas foot; /* the last line: messages and keys */
    bool ascii;
    enum graph_style style;
};

/*
 * Takes the terminal over. ASCII asks for plain characters; they are also used where the locale or
 * the terminal has no others. MOUSE asks the terminal to tell of the mouse. Returns 0, or -1 with a
 * sentence in WHY.
 */
int screen_start(struct screen *screen, enum theme theme, bool ascii, bool mouse, char *why,
                 size_t size);

/* The same of these three, while it is started. */
void screen_adjust(struct screen *screen, enum theme theme, bool ascii, bool mouse);

/* Takes the terminal's present size over. */
void screen_resize(struct screen *screen);

/* Gives the terminal back. May be called again. */
void screen_stop(void);

/* The signals that end or resize us, readable on a descriptor instead of interrupting. -1: errno. */
int screen_signals(void);

/* A key's curses code if one is waiting, or -1. */
int screen_key(void);

/* What the mouse does, and where on the screen. */
enum pointer { POINTER_CLICK, POINTER_WHEEL_UP, POINTER_WHEEL_DOWN };

struct pointer_event {
    enum pointer what;
    int y, x;
};

/*
 * After KEY_MOUSE: what the mouse did, oldest first; more than one event where several came at
 * once. EVENTS has room for SCREEN_POINTER_MOST. Returns how many there are.
 */
enum { SCREEN_POINTER_MOST = 16 };
size_t screen_pointer(struct pointer_event *events);

/* Empties the picture; shows what was drawn since. Everything anew after screen_spoilt(). */
void screen_begin(void);
void screen_show(void);
void screen_spoilt(void);

#endif
