/* The rows of a list for scripts: as text, as CSV (RFC 4180), as JSON. All have the filter and the
 * order of the grid, which was updated before. Pure but for the output. */
#ifndef CONSOLE_ROWS_H
#define CONSOLE_ROWS_H

#include "console/ui/grid.h"

#include <jansson.h>
#include <stdio.h>

void rows_print(const struct grid *grid, const struct scene *scene, FILE *out);

/* Numbers stand in base units (ns, bytes), as in JSON. The first line names the columns. */
void rows_print_csv(const struct grid *grid, const struct scene *scene, FILE *out);

/* An array of objects by column names; the caller owns the reference. */
json_t *rows_json(const struct grid *grid, const struct scene *scene);

#endif
