/*
 * A list: rows of the same columns. A view declares it; the frame gives it selection, scrolling,
 * sorting, the filter, mouse, details, --csv and --json. Rows are filled one by one and only as far
 * as they are needed.
 */
#ifndef CONSOLE_LIST_H
#define CONSOLE_LIST_H

#include "console/scene/scene.h"
#include "console/ui/table.h"

#include <stdint.h>
#include <stdio.h>

struct list {
    const struct column *columns;
    size_t column_count; /* at most TABLE_COLUMNS_MAX */

    /* How many rows there are now; row 0 stands at the top unless sorted otherwise. */
    size_t (*count)(void *state, const struct scene *scene);

    /* Sets all cells of a row. Cells come with empty text, TONE_NORMAL, and NAN. */
    void (*fill)(void *state, const struct scene *scene, size_t row, struct cell *cells);

    /* What stays the same for the same thing, so that the selection stays on it. NULL: its number.
     */
    uint64_t (*id)(void *state, const struct scene *scene, size_t row);

    /* Writes all that is known of a row: lines "label<tab>value", or lines of text without a tab.
     * NULL: every column with its cell. */
    void (*detail)(void *state, const struct scene *scene, size_t row, FILE *out);

    int sorted_by; /* at first: column number + 1, negative: the largest on top; 0: as it comes */
    bool follow;   /* new rows come at the bottom, and it is the bottom that is shown at first */
};

#endif
