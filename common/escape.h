/*
 * Escaping of arbitrary bytes for HTML, JSON, URLs, logs and terminals. In HTML and JSON, invalid
 * UTF-8 (in HTML also control characters) becomes U+FFFD. Any thread.
 *
 * Text from outside (shared memory, configuration files, peers) is escaped with escape_text() or
 * escape_print() where it is written to a terminal or a log: it cannot end the line, move the
 * cursor or reverse the order of the text.
 */
#ifndef COMMON_ESCAPE_H
#define COMMON_ESCAPE_H

#include "common/span.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * True for code points that terminals interpret instead of showing: C0, DEL, C1, line and paragraph
 * separators, bidirectional controls.
 */
bool escape_unsafe(uint32_t code);

/*
 * Length of the UTF-8 character at TEXT, which has LEFT bytes, at least 1; 0 if the byte there is
 * not UTF-8 or begins an unsafe code point.
 */
size_t escape_printable(const char *text, size_t left);

/* True if TEXT is UTF-8 (RFC 3629). */
bool escape_utf8_valid(const char *text);

/* Writes TEXT for use as text or in a quoted attribute value. */
void escape_html(FILE *out, const char *text);

/*
 * Writes the inside of a JSON string, without the quotes (RFC 8259 section 7). Unsafe code points
 * become \uHHHH.
 */
void escape_json(FILE *out, const char *text);

/*
 * Copy of JSON, a whole JSON text, in which unsafe code points other than newlines are \uHHHH. It
 * has the same meaning. The caller frees it; NULL: out of memory.
 */
char *escape_json_text(const char *json);

/*
 * Percent-encodes TEXT for a path (RFC 3986 section 3.3) into TO, at most ROOM bytes, no NUL.
 * Returns the length of the complete result, which may be larger than ROOM.
 */
size_t escape_path(char *to, size_t room, const char *text);

/*
 * The same for a query as received (section 3.4). Keeps percent escapes; a '%' that begins none is
 * encoded.
 */
size_t escape_query(char *to, size_t room, struct span text);

/*
 * Writes COUNT bytes as printable ASCII into BUFFER: at most SIZE bytes, NUL included. Other
 * bytes and the backslash become \xHH; a result that does not fit is cut between characters.
 * Returns BUFFER.
 */
char *escape_bytes(char *buffer, size_t size, const char *bytes, size_t count);

/* Size that escape_bytes() and escape_text() need at most for LENGTH bytes. */
#define ESCAPE_TEXT_BYTES(length) (4 * (length) + 1)

/*
 * The same with readable UTF-8: only bytes that are not UTF-8 and unsafe code points become \xHH.
 * Escaping the result again does not change it.
 */
char *escape_text(char *buffer, size_t size, const char *bytes, size_t count);

/* The same for text of several lines: newlines and tabs stay. */
char *escape_lines(char *buffer, size_t size, const char *bytes, size_t count);

/* Write TEXT like escape_text() and escape_lines(). */
void escape_print(FILE *out, const char *text);
void escape_print_lines(FILE *out, const char *text);

/* Writes the error message "PROGRAM: TEXT", one line, to standard error. */
void escape_report(const char *program, const char *text);

/* TEXT, of any bytes, as a JSON string (escape_lines()); NULL: out of memory. */
json_t *json_text(const char *text);

#endif
