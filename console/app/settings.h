/*
 * The settings: the options that console.ini may contain. They are read at the start, can be
 * changed while the console runs, and are saved only on request. Single thread.
 */
#ifndef CONSOLE_SETTINGS_H
#define CONSOLE_SETTINGS_H

#include "console/app/options.h"
#include "console/ui/filter.h"

#include <stddef.h>

/*
 * Reads console.ini, if it exists: lines "key = value"; lines that begin with #, ; or [ are
 * ignored. Prints each invalid line with its number; then returns OPTIONS_WRONG.
 */
enum options_result settings_read(struct options *options);

/* After OPTIONS_WRONG options->why has the error message. */
enum options_result settings_set(struct options *options, const char *name, const char *value);

/* The value of NAME as in the file; "" for the default. Returns TEXT. */
char *settings_value(const struct options *options, const char *name, char *text, size_t size);

/* Stores the names of all settings; returns their number. */
enum { SETTINGS_MOST = 32 };
size_t settings_names(const char **names);

/*
 * Writes all settings that differ from their defaults to console.ini. Order and comments of the
 * file stay; settings with default values are dropped. The file is replaced atomically (the target
 * of a symbolic link); its directory is created if needed. Returns 0, or -1 with the file
 * unchanged. MESSAGE receives what was written, or the error.
 */
int settings_save(const struct options *options, char *message, size_t size);

/*
 * Saved filters: the file "filters" beside console.ini has a line "NAME words" for each; the last
 * line of a name counts, and one without words removes it. Single thread.
 */

/* Saves the words TEXT ("": removes them) as NAME. Returns 0, or -1 with a message in WHY. */
int filters_save(const char *name, const char *text, char *why, size_t size);

/* Copies the words saved as NAME to TEXT (FILTER_BYTES). Returns 0, or -1 with a message in WHY. */
int filters_find(const char *name, char *text, char *why, size_t size);

#endif
