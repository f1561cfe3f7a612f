/* Numbers and times as the console shows them. Pure; any thread. */
#ifndef CONSOLE_TEXT_H
#define CONSOLE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_SHORT = 32 }; /* size of every BUFFER below */

/* Each writes "-" for NAN and returns BUFFER. */
char *text_count(char *buffer, double count);     /* "12.3k" */
char *text_bytes(char *buffer, double bytes);     /* "1.50 MiB" */
char *text_latency(char *buffer, double ns);      /* "850 us" */
char *text_percent(char *buffer, double ratio);   /* "98.2%" for 0.982 */
char *text_since(char *buffer, uint64_t ns);      /* "120 ms", "4s", "3m 12s" */
char *text_clock(char *buffer, uint64_t wall_ns); /* "15:04:05.123", local time */

/* The length of the first line of TEXT (ASCII) when wrapped at blanks to WIDTH columns; at least 1 if
 * TEXT is not empty. */
size_t text_piece(const char *text, int width);

#endif
