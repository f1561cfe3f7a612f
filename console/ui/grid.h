/*
 * A list on the screen: which rows pass the filter, in which order, which are in sight, which one
 * is selected. One for each view that has a list, kept by the program. The console's only thread.
 */
#ifndef CONSOLE_GRID_H
#define CONSOLE_GRID_H

#include "console/ui/keys.h"
#include "console/ui/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grid {
    const struct list *list;
    void *state; /* of the view */
    int sorted_by;
    bool selecting; /* a row is selected */
    uint64_t selected_id;
    size_t selected;      /* its place among the shown rows */
    size_t top;           /* the first shown row in sight */
    size_t page;          /* rows in sight */
    size_t all, shown;    /* rows there are, rows that pass the filter */
    uint32_t *order;      /* row numbers in the order shown */
    double *keys;         /* what they are sorted by */
    char (*texts)[48];    /* the same for columns of text */
    size_t room;          /* of order, keys and texts */
    struct canvas titles; /* where they were drawn last; height 0: nowhere */
    struct canvas rows;
    int widths[TABLE_COLUMNS_MAX];
};

void grid_start(struct grid *grid, const struct list *list, void *state);
void grid_release(struct grid *grid);

/* Shows LIST from now on, of the same view, in its own order and with nothing selected. */
void grid_turn_to(struct grid *grid, const struct list *list);

/* Takes the rows as they are now. Called by grid_draw(); for printing, call it by hand. */
void grid_update(struct grid *grid, const struct scene *scene);

/* Titles and rows. How many of how many are shown is said by the frame: grid_summary(). */
void grid_draw(struct grid *grid, const struct scene *scene, const struct canvas *canvas);

/* Moving, selecting, sorting. False when ACTION means nothing here. */
bool grid_key(struct grid *grid, const struct scene *scene, enum action action);

/* No row is selected any more; a list that follows does so again. True when one was. */
bool grid_deselect(struct grid *grid);

/* The row number (of the list) that is selected; false when none is, or it is gone. */
bool grid_selected(const struct grid *grid, size_t *row);

/* A click on the screen's line Y and column X: selects the row, or sorts by the column. Returns
 * true when it meant something; *AGAIN then tells a click on the row that was selected already. */
bool grid_click(struct grid *grid, const struct scene *scene, int y, int x, bool *again);

/* "12 of 340 shown" or "1 to 20 of 340"; "" without a list. Returns BUFFER. */
char *grid_summary(const struct grid *grid, const struct filter *filter, char *buffer, size_t size);

/* Cells of one row, as list.h says. */
void grid_fill(const struct grid *grid, const struct scene *scene, size_t row, struct cell *cells);

#endif
