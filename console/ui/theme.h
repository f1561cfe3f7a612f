/*
 * Colours by meaning. A view says what a text is (its tone); the theme says how that looks. Colour
 * is never the only signal: whatever a tone tells is also said by a letter, a word or a number. The
 * console's only thread.
 */
#ifndef CONSOLE_THEME_H
#define CONSOLE_THEME_H

enum tone {
    TONE_NORMAL,
    TONE_DIM,   /* labels, axes, what may be overlooked */
    TONE_TITLE, /* names of panels and columns */
    TONE_VALUE, /* the number that matters most in its panel */
    TONE_GOOD,  /* at work, answered, in force */
    TONE_NOTE,  /* worth noticing: redirects, what is under way */
    TONE_WARN,
    TONE_BAD,
    TONE_GRAPH,
    TONE_PEAK,
    TONE_BAR,      /* the line at the top and at the bottom */
    TONE_BAR_KEY,  /* a key that is named there */
    TONE_TAB,      /* the view that is shown */
    TONE_SELECTED, /* the row that a key would act on */
    TONE_COOL,     /* little, on a scale that ends in TONE_GOOD, TONE_WARN, TONE_BAD */
    TONE_COUNT
};

enum theme { THEME_DARK, THEME_LIGHT, THEME_MONO, THEME_COUNT };

extern const char *const theme_names[THEME_COUNT];

/* The theme called NAME, or THEME_COUNT when there is none. */
enum theme theme_named(const char *name);

/*
 * Prepares the colours of THEME; curses must be running. On a terminal without colours it becomes
 * THEME_MONO. Returns the theme that is in force.
 */
enum theme theme_start(enum theme theme);

/* What attrset() takes for TONE. */
int theme_attributes(enum tone tone);

#endif
