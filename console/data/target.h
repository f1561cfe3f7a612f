/* Which control socket is meant. Any thread. */
#ifndef CONSOLE_TARGET_H
#define CONSOLE_TARGET_H

#include <stddef.h>

/*
 * Writes the path of the control socket of the instance NAME into PATH: GIVEN if there is one (not
 * NULL), else what the instance's shared memory says, else where an instance of that name would
 * have it. Returns 0, or -1 with a sentence in WHY.
 */
int target_socket(const char *name, const char *given, char *path, size_t path_size, char *why,
                  size_t size);

#endif
