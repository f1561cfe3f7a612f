/*
 * Two reports, as --format json wrote them, held against each other: round by round where both were
 * repeated, else second by second.
 */
#ifndef LOADGEN_COMPARE_H
#define LOADGEN_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/*
 * Returns the report in FILES, which the caller releases; NULL with WHY. Several names with commas
 * between are runs of the same, made in turns with others: their rounds are taken together.
 */
json_t *compare_read(const char *files, char *why, size_t size);

/*
 * Writes what changed from report A to report B, and whether that is more than noise. Returns whether
 * B is worse in anything.
 */
bool compare_write(FILE *out, const json_t *a, const json_t *b);

#endif
