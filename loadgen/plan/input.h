/* Reads input files. Main thread. */
#ifndef LOADGEN_INPUT_H
#define LOADGEN_INPUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Reads all of FILE into *text, which has a NUL after its *length bytes. The caller frees *text in either case.
 * Returns false with errno.
 */
bool input_read(const char *file, char **text, size_t *length);

#endif
