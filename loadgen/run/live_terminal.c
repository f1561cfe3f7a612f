#include "loadgen/run/live_terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80, DEFAULT_HEIGHT = 24 };

static bool has_cursor(void)
{
    const char *terminal = getenv("TERM");

    return terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
}

bool live_terminal_is_capable(FILE *out)
{
    return isatty(fileno(out)) && has_cursor();
}

bool live_terminal_wants_colour(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");

    return live_terminal_is_capable(out) && (no_color == NULL || no_color[0] == '\0');
}

/* The font of the Linux console lacks most block characters. */
bool live_terminal_has_unicode(void)
{
    const char *terminal = getenv("TERM");

    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 &&
           (terminal == NULL || strcmp(terminal, "linux") != 0);
}

void live_terminal_size(const struct live_terminal *terminal, size_t *width, size_t *height)
{
    struct winsize window = {0};

    ioctl(fileno(terminal->out), TIOCGWINSZ, &window);
    *width = window.ws_col > 1 ? window.ws_col : DEFAULT_WIDTH;
    *height = window.ws_row > 1 ? window.ws_row : DEFAULT_HEIGHT;
}

/* Whether this process is in the foreground. */
static bool is_ours(const struct live_terminal *terminal)
{
    pid_t group = tcgetpgrp(fileno(terminal->out));

    return group < 0 || group == getpgrp();
}

static size_t rows_of(size_t columns, size_t width)
{
    return columns > width ? (columns + width - 1) / width : 1;
}

/*
 * The rows between the first line and the cursor, which is at the end of the last line. If the window has
 * become narrower since the frame was drawn, long lines take several rows.
 */
static size_t rows_above(const struct live_terminal *terminal)
{
    const struct live_frame *shown = &terminal->shown;
    size_t width, height, rows = 0;

    live_terminal_size(terminal, &width, &height);
    for (size_t i = 0; i < shown->lines; i++)
        rows += rows_of(shown->columns[i], width);
    rows = rows > 0 ? rows - 1 : 0;
    return rows < height ? rows : height - 1;
}

/* Writes everything at once to avoid flicker. */
void live_terminal_show(struct live_terminal *terminal, const struct live_frame *frame)
{
    size_t up = rows_above(terminal);

    if (!is_ours(terminal))
        return;
    fputc('\r', terminal->out);
    if (up > 0)
        fprintf(terminal->out, "\x1b[%zuA", up);
    for (size_t i = 0; i < frame->lines; i++)
        fprintf(terminal->out, "%s%s\x1b[K", i > 0 ? "\n" : "", frame->text[i]);
    fputs("\x1b[J", terminal->out);
    fflush(terminal->out);
    terminal->shown = *frame;
}

void live_terminal_end(struct live_terminal *terminal, bool stays)
{
    size_t up = rows_above(terminal);

    if (terminal->shown.lines == 0 || !is_ours(terminal))
        return;
    if (stays)
        fputc('\n', terminal->out);
    else if (up > 0)
        fprintf(terminal->out, "\r\x1b[%zuA\x1b[J", up);
    else
        fputs("\r\x1b[J", terminal->out);
    fflush(terminal->out);
    terminal->shown.lines = 0;
}
