/*
 * Colours by meaning: a view chooses a tone, the theme how it looks. Colour is never the only signal:
 * a letter, a word or a number says the same. The console's only thread.
 */
#ifndef CONSOLE_THEME_H
#define CONSOLE_THEME_H

enum tone {
    TONE_NORMAL,
    TONE_DIM,   /* labels, axes, minor details */
    TONE_TITLE, /* titles of panels and columns */
    TONE_VALUE, /* the main number of a panel */
    TONE_GOOD,  /* busy, answered, in force */
    TONE_NOTE,  /* notable: redirects, work in progress */
    TONE_WARN,
    TONE_BAD,
    TONE_GRAPH,
    TONE_PEAK,
    TONE_BAR,      /* the first and the last line of the screen */
    TONE_BAR_KEY,  /* a key named there */
    TONE_TAB,      /* the tab of the visible view */
    TONE_SELECTED, /* the selected row */
    TONE_COOL,     /* low, on a scale that continues with TONE_GOOD, TONE_WARN, TONE_BAD */
    TONE_COUNT
};

enum theme { THEME_DARK, THEME_LIGHT, THEME_MONO, THEME_COUNT };

extern const char *const theme_names[THEME_COUNT];

/* The theme called NAME, or THEME_COUNT. */
enum theme theme_named(const char *name);

/*
 * Prepares the colours of THEME; curses must be running. Returns the theme in force: THEME_MONO if
 * the terminal has no colours.
 */
enum theme theme_start(enum theme theme);

/* The argument of attrset() for TONE. */
int theme_attributes(enum tone tone);

#endif
