/*
 * The framing of the control socket: a request is a line of words. Pure, but for the buffer it takes
 * bytes from; one thread.
 */
#ifndef DAEMON_CONTROL_LINE_H
#define DAEMON_CONTROL_LINE_H

#include "common/control_client.h"

#include <event2/buffer.h>

enum control_line {
    CONTROL_LINE_INCOMPLETE, /* more bytes are needed */
    CONTROL_LINE_WHOLE,      /* *LINE is one, without its newline; the caller frees */
    CONTROL_LINE_TOO_LONG,   /* CONTROL_LINE_MAX bytes or more: nothing behind it can be trusted */
    CONTROL_LINE_NO_MEMORY,  /* there is one, and no memory for it */
};

/*
 * Takes the next line out of INPUT, which ends with LF or CRLF. Bytes behind a NUL do not count.
 */
enum control_line control_line_take(struct evbuffer *input, char **line);

/*
 * Cuts LINE at blanks and tabs: WORDS, with room for MOST, point into it. Returns how many there are,
 * MOST + 1 when there are more.
 */
int control_line_split(char *line, char **words, int most);

#endif
