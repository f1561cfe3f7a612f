/* The identity and the sizes of a server as one line of text. Pure. */
#ifndef CONSOLE_SUMMARY_H
#define CONSOLE_SUMMARY_H

#include "console/data/snapshot.h"

#include <stddef.h>

/*
 * Appends an item to LINE (SIZE bytes), separated by two spaces, if the line then has at most WIDTH
 * characters. Earlier items thus have priority.
 */
void summary_append(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "threads 4 of 4 (2 in each)", "workers 2 of 2" and so on, up to WIDTH. */
void summary_processes(const struct snapshot *now, char *line, size_t size, int width);

/* "NAME", "pid 1234", "up 3h 12m", "on 127.0.0.1:8080", "version 0.1.0", up to WIDTH. */
void summary_identity(const struct snapshot *now, char *line, size_t size, int width);

#endif
