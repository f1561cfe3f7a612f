/* What a server is and how many of everything it has, as short items of text. Pure. */
#ifndef CONSOLE_SUMMARY_H
#define CONSOLE_SUMMARY_H

#include "console/data/snapshot.h"

#include <stddef.h>

/*
 * Appends ITEM to LINE (SIZE bytes) with two spaces between items, if the line then is at most
 * WIDTH characters long; else leaves the line alone. So what stands first is kept longest.
 */
void summary_append(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "threads 4 of 4 (2 in each)", "workers 2 of 2" and so on: as many as fit WIDTH. */
void summary_processes(const struct snapshot *now, char *line, size_t size, int width);

/* "version 0.1.0", "pid 1234", "up 3h 12m", "listening on ...": as many as fit WIDTH. */
void summary_identity(const struct snapshot *now, char *line, size_t size, int width);

#endif
