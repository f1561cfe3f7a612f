/* Two reports, as --format json wrote them, held against each other second by second. */
#ifndef LOADGEN_COMPARE_H
#define LOADGEN_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the report in FILE, which the caller releases; NULL with WHY. */
json_t *compare_read(const char *file, char *why, size_t size);

/*
 * Writes what changed from report A to report B, and whether that is more than noise. Returns whether
 * B is worse in anything.
 */
bool compare_write(FILE *out, const json_t *a, const json_t *b);

#endif
