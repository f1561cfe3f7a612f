/*
 * The settings: those options that may stand in console.ini, read at the start, changed one by one
 * while the console runs, and saved when that is asked for, never else. The console's only thread.
 */
#ifndef CONSOLE_SETTINGS_H
#define CONSOLE_SETTINGS_H

#include "console/app/options.h"

#include <stddef.h>
#include <stdio.h>

/*
 * Reads console.ini into OPTIONS, if there is one: lines "key = value"; what begins with #, ; or [
 * is passed over. Each wrong line is said on ERRORS, with its number; then OPTIONS_WRONG.
 */
enum options_result settings_read(struct options *options, FILE *errors);

/* Sets NAME, as the file names it, to VALUE. OPTIONS_WRONG: options->why says what is wrong. */
enum options_result settings_set(struct options *options, const char *name, const char *value);

/* The value of NAME in force, as the file would have it; "" for its default. Returns TEXT. */
char *settings_value(const struct options *options, const char *name, char *text, size_t size);

/* The names of all settings into NAMES, which has room for SETTINGS_MOST. Returns how many. */
enum { SETTINGS_MOST = 32 };
size_t settings_names(const char **names);

/*
 * Writes all settings that are not at their defaults into console.ini. Lines that are there keep
 * their order, comments stay, settings at their defaults go. The file is replaced in one step (the
 * one that a symbolic link points to); its folder is made if need be. Returns 0 with a sentence on
 * what was written where in SAID, or -1 with one on what is wrong: the file is then as it was.
 */
int settings_save(const struct options *options, char *said, size_t size);

#endif
