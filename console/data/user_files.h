/* Paths of the user's own files, by the XDG base directories. Any thread. */
#ifndef CONSOLE_USER_FILES_H
#define CONSOLE_USER_FILES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Sets PATH to "$VARIABLE/webserverd/NAME", or to "$HOME/FALLBACK/webserverd/NAME" if VARIABLE is
 * not set to an absolute path. Returns false, with PATH "", if HOME is not either.
 */
bool user_files_path(const char *variable, const char *fallback, const char *name, char *path,
                     size_t size);

/* Creates the missing parent directories of PATH, mode 0700. Returns 0, or -1 with errno. */
int user_files_make_parents(const char *path);

#endif
