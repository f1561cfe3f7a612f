/*
 * A temporary directory for one server: site, logs, run directory. File system errors fail the
 * running test.
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

enum { SCRATCH_PATH_MAX = 256 };

/* Creates an empty directory and stores its path in PATH (SCRATCH_PATH_MAX bytes). */
void scratch_make(char *path);

/* Removes the directory recursively. */
void scratch_remove(const char *path);

/* Creates the missing parent directories of PATH. */
void scratch_make_directories(const char *path);

/* Writes the file atomically: to a temporary file that is renamed to PATH. */
void scratch_write(const char *path, const void *bytes, size_t length);

/*
 * Returns the content of the file, NUL-terminated (not counted in *length), empty if it does not
 * exist. The caller must free it.
 */
char *scratch_read(const char *path, size_t *length);

/*
 * Removes a file from the page cache. Returns false if a page of it stays there, as on a tmpfs, or if
 * the file system does not support RWF_NOWAIT.
 */
bool scratch_make_cold(const char *path);

/* A file that is cold may be in memory again when the server looks, so tests try it so often. */
enum { SCRATCH_COLD_TRIES = 20 };

/* Number of entries in a directory, without . and .., that begin with PREFIX. */
size_t scratch_count(const char *path, const char *prefix);

#endif
