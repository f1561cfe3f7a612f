/*
 * Saved filters: the file "filters" beside console.ini has a line "NAME words" for each; the last line
 * of a name counts, and one without words removes it. Single thread.
 */
#ifndef CONSOLE_FILTERS_H
#define CONSOLE_FILTERS_H

#include "console/ui/filter.h"

#include <stddef.h>

/* Saves the words TEXT ("": removes them) as NAME. Returns 0, or -1 with a message in WHY. */
int filters_save(const char *name, const char *text, char *why, size_t size);

/* Copies the words saved as NAME to TEXT (FILTER_BYTES). Returns 0, or -1 with a message in WHY. */
int filters_find(const char *name, char *text, char *why, size_t size);

#endif
