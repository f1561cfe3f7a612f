#include "loadgen/run/terminal_keys.h"

#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static bool changed;

/* In the background a terminal is someone else's: changing it would stop the process. */
static bool is_ours(void)
{
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool terminal_keys_begin(void)
{
    static bool registered;
    struct termios keys;

    if (!is_ours() || tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    keys = before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    if (!registered)
        atexit(terminal_keys_end);
    registered = true;
    changed = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    return changed;
}

void terminal_keys_end(void)
{
    if (changed)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    changed = false;
}
