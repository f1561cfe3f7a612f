/*
 * Names written into other languages: HTML, JSON, and the path of a URL. Names are bytes; where text
 * must be UTF-8, what is none, and control characters, become U+FFFD. Pure, but for the FILE.
 */
#ifndef COMMON_ESCAPE_H
#define COMMON_ESCAPE_H

#include "common/span.h"
#include <stddef.h>

#include <stdio.h>

/* As text, or as the value of an attribute in quotes. */
void escape_html(FILE *out, const char *text);

/* The inside of a string, without the quotes. Control characters are escaped (RFC 8259 section 7). */
void escape_json(FILE *out, const char *text);

/*
 * Percent-encodes what can't stand in a path (RFC 3986 section 3.3) to the ROOM bytes at TO; what
 * does not fit is left out. Returns the length that all of it has; TO is not ended by a NUL.
 */
size_t escape_path(char *to, size_t room, const char *text);

/* The same of a query as it was sent: what can't stand in one is encoded (section 3.4), escapes stay. */
size_t escape_query(char *to, size_t room, struct span text);

/*
 * Writes COUNT bytes as printable ASCII into BUFFER: at most SIZE bytes, NUL included. Other bytes and
 * the backslash become \xHH; the result is cut at a whole character. Returns BUFFER.
 */
char *escape_bytes(char *buffer, size_t size, const char *bytes, size_t count);

#endif
