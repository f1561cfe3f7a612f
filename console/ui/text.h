/* Numbers and times as the console shows them. Pure; any thread. */
#ifndef CONSOLE_TEXT_H
#define CONSOLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

enum { TEXT_SHORT = 32 }; /* size of every BUFFER below */

/*
 * Whether texts have ASCII characters only, as at first, which output for scripts needs; else
 * "850 µs" and "…". The console's only thread.
 */
void text_set_ascii(bool ascii);

/* What ends a text that is cut: "..", or "…". */
const char *text_cut(void);

/*
 * Writes "µs" instead of "us" after a number, where the terminal has UTF-8; SIZE is the room of
 * TEXT, which is returned.
 */
char *text_micro(char *text, size_t size);

/* Each writes "-" for NAN and returns BUFFER. */
char *text_count(char *buffer, double count);       /* "12.3k" */
char *text_bytes(char *buffer, double bytes);       /* "1.50 MiB" */
char *text_latency(char *buffer, double ns);        /* "850 us" */
char *text_percent(char *buffer, double ratio);     /* "98.2%" for 0.982 */
char *text_since(char *buffer, uint64_t ns);        /* "120 ms", "4 s", "3m 12s" */
char *text_clock(char *buffer, uint64_t wall_ns);   /* "15:04:05.123", local time */
char *text_rfc3339(char *buffer, uint64_t wall_ns); /* "2026-01-02T15:04:05.123456789Z" */

/* Writes COUNT bytes as base64 (RFC 4648). */
void text_base64(FILE *out, const void *bytes, size_t count);

/*
 * Writes TEXT as at most ROOM cells and returns their number. A wide character takes two cells, the
 * second is 0. The bytes of one that the terminal would interpret, or not show in a column of its
 * own, are written as \xNN. Text that is not in the character set of the locale gives no cells.
 */
size_t text_cells(const char *text, wchar_t *cells, size_t room);

/* The width of TEXT in these cells. */
int text_columns(const char *text);

/* The length of the part of TEXT that fits WIDTH columns, bytes. */
size_t text_fitting(const char *text, int width);

/* The length of the first line of TEXT when wrapped at blanks to WIDTH columns; at least one
 * character if TEXT is not empty. */
size_t text_piece(const char *text, int width);

#endif
