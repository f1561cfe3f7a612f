/*
 * A temporary folder for one server: its site, its logs, its run directory. Every function fails
 * the running test when the file system refuses.
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stddef.h>

enum { SCRATCH_PATH_MAX = 256 };

/* Makes a new empty folder and writes its path into PATH (SCRATCH_PATH_MAX bytes). */
void scratch_make(char *path);

/* Removes the folder and all in it. */
void scratch_remove(const char *path);

/* Makes the folders of PATH (which ends with a file's name) where they are missing. */
void scratch_make_folders(const char *path);

/* Writes the file at PATH anew: beside it first, then renamed over, so that nobody sees a half. */
void scratch_write(const char *path, const void *bytes, size_t length);

/* The whole file, ended by a NUL that *length does not count; empty when absent. The caller frees. */
char *scratch_read(const char *path, size_t *length);

/* How many names a folder holds, without . and ..; of those that begin with PREFIX. */
size_t scratch_count(const char *path, const char *prefix);

#endif
