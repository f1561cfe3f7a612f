/*
 * Escaping of arbitrary bytes for HTML, JSON, URLs and logs. In HTML and JSON, invalid UTF-8 (in
 * HTML also control characters) becomes U+FFFD. Any thread.
 */
#ifndef COMMON_ESCAPE_H
#define COMMON_ESCAPE_H

#include "common/span.h"

#include <stddef.h>
#include <stdio.h>

/* Writes TEXT for use as text or in a quoted attribute value. */
void escape_html(FILE *out, const char *text);

/* Writes the inside of a JSON string, without the quotes (RFC 8259 section 7). */
void escape_json(FILE *out, const char *text);

/*
 * Percent-encodes TEXT for a path (RFC 3986 section 3.3) into TO, at most ROOM bytes, no NUL.
 * Returns the length of the complete result, which may be larger than ROOM.
 */
size_t escape_path(char *to, size_t room, const char *text);

/* The same for a query as received (section 3.4); percent escapes in it are kept. */
size_t escape_query(char *to, size_t room, struct span text);

/*
 * Writes COUNT bytes as printable ASCII into BUFFER: at most SIZE bytes, NUL included. Other
 * bytes and the backslash become \xHH; a result that does not fit is cut between characters.
 * Returns BUFFER.
 */
char *escape_bytes(char *buffer, size_t size, const char *bytes, size_t count);

#endif
