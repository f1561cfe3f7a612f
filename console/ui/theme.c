#include "console/ui/theme.h"

#include <curses.h>
#include <string.h>

struct look {
    short front, back; /* -1: the terminal's default */
    attr_t attributes;
    short front_256, back_256; /* on terminals with 256 colours; 0: as above */
};

const char *const theme_names[THEME_COUNT] = {"dark", "light", "mono"};

static const struct look looks[THEME_COUNT][TONE_COUNT] =
    {
        [THEME_DARK] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_DIM, 0, 0},
                [TONE_TITLE] = {COLOR_CYAN, -1, A_NORMAL, 109, -1},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {COLOR_GREEN, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {COLOR_CYAN, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {COLOR_YELLOW, -1, A_NORMAL, 0, 0},
                [TONE_BAD] = {COLOR_RED, -1, A_BOLD, 0, 0},
                [TONE_GRAPH] = {COLOR_GREEN, -1, A_NORMAL, 108, -1},
                [TONE_PEAK] = {COLOR_YELLOW, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {COLOR_WHITE, COLOR_BLUE, A_NORMAL, 250, 236},
                [TONE_BAR_KEY] = {COLOR_YELLOW, COLOR_BLUE, A_BOLD, 222, 236},
                [TONE_TAB] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, 234, 109},
                [TONE_SELECTED] = {COLOR_BLACK, COLOR_WHITE, A_NORMAL, 234, 152},
                [TONE_COOL] = {COLOR_BLUE, -1, A_BOLD, 67, -1},
            },
        [THEME_LIGHT] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_DIM, 0, 0},
                [TONE_TITLE] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {COLOR_GREEN, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {COLOR_MAGENTA, -1, A_NORMAL, 0, 0},
                [TONE_BAD] = {COLOR_RED, -1, A_BOLD, 0, 0},
                [TONE_GRAPH] = {COLOR_BLUE, -1, A_NORMAL, 0, 0},
                [TONE_PEAK] = {COLOR_MAGENTA, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {COLOR_WHITE, COLOR_BLUE, A_NORMAL, 236, 253},
                [TONE_BAR_KEY] = {COLOR_WHITE, COLOR_BLUE, A_BOLD, 25, 253},
                [TONE_TAB] = {COLOR_BLACK, COLOR_WHITE, A_NORMAL, 255, 25},
                [TONE_SELECTED] = {COLOR_WHITE, COLOR_BLACK, A_NORMAL, 255, 31},
                [TONE_COOL] = {COLOR_CYAN, -1, A_NORMAL, 0, 0},
            },
        [THEME_MONO] =
            {
                [TONE_NORMAL] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_DIM] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_TITLE] = {-1, -1, A_UNDERLINE, 0, 0},
                [TONE_VALUE] = {-1, -1, A_BOLD, 0, 0},
                [TONE_GOOD] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_NOTE] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_WARN] = {-1, -1, A_BOLD, 0, 0},
                [TONE_BAD] = {-1, -1, A_BOLD | A_REVERSE, 0, 0},
                [TONE_GRAPH] = {-1, -1, A_NORMAL, 0, 0},
                [TONE_PEAK] = {-1, -1, A_BOLD, 0, 0},
                [TONE_BAR] = {-1, -1, A_REVERSE, 0, 0},
                [TONE_BAR_KEY] = {-1, -1, A_REVERSE | A_BOLD, 0, 0},
                [TONE_TAB] = {-1, -1, A_BOLD, 0, 0},
                [TONE_SELECTED] = {-1, -1, A_REVERSE, 0, 0},
                [TONE_COOL] = {-1, -1, A_NORMAL, 0, 0},
            },
};

static enum theme in_force = THEME_MONO;

enum theme theme_named(const char *name)
{
    int theme = 0;

    while (theme < THEME_COUNT && strcmp(name, theme_names[theme]) != 0)
        theme++;
    return (enum theme)theme;
}

static int start_pair(short pair, const struct look *look)
{
    bool many = COLORS >= 256 && (look->front_256 != 0 || look->back_256 != 0);

    return init_pair(pair, many ? look->front_256 : look->front,
                     many ? look->back_256 : look->back);
}

enum theme theme_start(enum theme theme)
{
    in_force = THEME_MONO;
    if (theme == THEME_MONO || !has_colors() || start_color() == ERR)
        return in_force;
    if (use_default_colors() == ERR)
        return in_force; /* the themes need the terminal's default background */
    for (int tone = 0; tone < TONE_COUNT; tone++)
        if (start_pair((short)(tone + 1), &looks[theme][tone]) == ERR)
            return in_force;
    in_force = theme;
    return in_force;
}

int theme_attributes(enum tone tone)
{
    attr_t attributes = looks[in_force][tone].attributes;

    if (in_force != THEME_MONO)
        attributes |= (attr_t)COLOR_PAIR(tone + 1);
    return (int)attributes;
}
