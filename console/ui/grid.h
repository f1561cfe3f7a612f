/*
 * A grid shows a list: rows with the same columns. The view declares the list; the grid provides
 * selection, scrolling, sorting, the filter, mouse clicks, and the same rows as text, CSV or JSON.
 * Rows are filled when they are drawn or printed, and for a filter or a sort. The console's only
 * thread.
 */
#ifndef CONSOLE_GRID_H
#define CONSOLE_GRID_H

#include "console/ui/filter.h"
#include "console/ui/keys.h"
#include "console/ui/table.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The data behind the rows, defined by the owner of the list. Opaque to the grid, which passes it
 * to the callbacks.
 */
struct scene;

struct list {
    const struct column *columns;
    size_t column_count; /* at most TABLE_COLUMNS_MAX */

    /* Number of rows; row 0 is the top one unless the grid sorts. */
    size_t (*count)(void *state, const struct scene *scene);

    /*
     * Fills all cells of a row, or with FILL_CELL instead that of one COLUMN: filters and sorting
     * then fill no others. On entry they are empty: "", TONE_NORMAL, NAN.
     */
    void (*fill)(void *state, const struct scene *scene, size_t row, struct cell *cells);
    void (*fill_cell)(void *state, const struct scene *scene, size_t row, size_t column,
                      struct cell *cell);

    /*
     * A stable identity of the row's subject, so that the selection follows it. NULL: the row
     * number.
     */
    uint64_t (*id)(void *state, const struct scene *scene, size_t row);

    /*
     * Writes all details of a row: lines "label<tab>value", or text lines without a tab. NULL:
     * every column with its cell.
     */
    void (*detail)(void *state, const struct scene *scene, size_t row, FILE *out);

    /* Whether this server has nothing for COLUMN; it is then hidden, too. NULL: no column. */
    bool (*lacks)(const struct scene *scene, size_t column);

    int sorted_by; /* initial order: column number + 1, negative: descending; 0: not sorted */
    bool opens;    /* Enter shows the requests of a row before its details */
    bool follow;   /* new rows appear at the bottom; initially the bottom is visible */
    /*
     * The cells of an identity never change, and the identities of neighbouring rows differ by one.
     * Filters and sorting then fill each row once.
     */
    bool lasting;
};

/* The number of the column of LIST with this name (column_is_named()); -1: none, or no list. */
int list_column(const struct list *list, const char *name);

enum { GRID_UNWANTED_BYTES = 160, GRID_KEY_BYTES = 48 };

/* Of the column sorted by. */
struct sort_key {
    double number;
    char text[GRID_KEY_BYTES]; /* lower case */
};

struct grid {
    const struct list *list;
    void *state;                        /* state of the view */
    const struct filter *filter;        /* rows that do not match are hidden */
    const bool *ascii;                  /* draw ASCII characters only; NULL: no */
    bool folds_at_once;                 /* whether a column folds depends on the rows drawn only */
    char unwanted[GRID_UNWANTED_BYTES]; /* names of the columns that the user hides, with blanks */
    int sorted_by;                      /* as list.sorted_by */
    bool selecting;                     /* a row is selected */
    uint64_t selected_id;
    size_t selected;   /* its index among the shown rows */
    size_t top;        /* index of the first visible row */
    size_t page;       /* visible rows */
    size_t scrolled;   /* columns scrolled out at the left */
    size_t all, shown; /* number of rows; of those that match the filter, 0: not on the screen */
    size_t ordered;    /* rows in ORDER */
    uint32_t *order;   /* row numbers in the order shown */
    struct sort_key *keys; /* by row number or, of lasting rows, by identity modulo ROOM */
    size_t room;           /* capacity of order and keys: a power of two */
    uint64_t first;        /* identity of row 0, if rows last; else 0 */
    int ordered_by;        /* sorted_by and filter that ORDER is of */
    char ordered_filter[FILTER_BYTES];
    struct canvas titles; /* where they were last drawn; height 0: not on the screen */
    struct canvas rows;
    struct column columns[TABLE_COLUMNS_MAX]; /* those of the list, with what the server lacks */
    /* In how many frames in a row the visible rows had the same text in a column that folds. */
    unsigned same[TABLE_COLUMNS_MAX];
    int widths[TABLE_COLUMNS_MAX];
};

/* LIST may be NULL: then there are no rows and no keys. STATE and FILTER are borrowed. */
void grid_start(struct grid *grid, const struct list *list, void *state,
                const struct filter *filter);
void grid_release(struct grid *grid);

/* Switches to another LIST of the same view, in its own order, with nothing selected. */
void grid_set_list(struct grid *grid, const struct list *list);

/* Reads, filters and sorts the rows. grid_draw() does it; call it before printing. */
void grid_update(struct grid *grid, const struct scene *scene);

/* Draws titles and rows. */
void grid_draw(struct grid *grid, const struct scene *scene, const struct canvas *canvas);

/* Moves, selects and sorts. Returns false if ACTION means nothing here. */
bool grid_key(struct grid *grid, const struct scene *scene, enum action action);

/* Sorts by COLUMN of the list: numbers from the largest, texts from A. */
void grid_sort(struct grid *grid, int column);

/* Whether the user hides COLUMN of the list. */
bool grid_hides(const struct grid *grid, size_t column);

/*
 * Hides the columns of the list that HIDDEN says, and no others of it; the names of columns that
 * only other lists of the view have stay. Returns false, with nothing changed, if there are too
 * many.
 */
bool grid_hide(struct grid *grid, const bool *hidden);

/* Clears the selection; a list with FOLLOW then follows again. */
void grid_deselect(struct grid *grid);

/* Stores the number of the selected row; false if none is selected. */
bool grid_selected(const struct grid *grid, size_t *row);

/* The row that a key acts on: the selected one, or the only one that is shown. */
bool grid_subject(const struct grid *grid, size_t *row);

/*
 * A click at line Y, column X of the screen: selects a row, or sorts by a column. Returns false if
 * it hit neither. *AGAIN: the row was already selected.
 */
bool grid_click(struct grid *grid, const struct scene *scene, int y, int x, bool *again);

/* "12 of 340 shown" or "1 to 20 of 340"; "" if the grid is not on the screen. Returns BUFFER. */
char *grid_summary(const struct grid *grid, char *buffer, size_t size);

/* Fills CELLS (as many as the list has columns) with one row. */
void grid_fill(const struct grid *grid, const struct scene *scene, size_t row, struct cell *cells);

/* Output for scripts: the filtered and sorted rows of the last grid_update(). */
void grid_print(const struct grid *grid, const struct scene *scene, FILE *out);

/* CSV (RFC 4180) with a line of column names (column_output_name()). */
void grid_print_csv(const struct grid *grid, const struct scene *scene, FILE *out);

/* An array of objects with the same names as keys; the caller owns the reference. */
json_t *grid_json(const struct grid *grid, const struct scene *scene);

#endif
