#include "console/ui/grid.h"

#include "console/ui/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int list_column(const struct list *list, const char *name)
{
    for (size_t i = 0; list != NULL && i < list->column_count; i++)
        if (column_is_named(&list->columns[i], name))
            return (int)i;
    return -1;
}

void grid_start(struct grid *grid, const struct list *list, void *state,
                const struct filter *filter)
{
    *grid = (struct grid){.list = list, .state = state, .filter = filter};
    if (list != NULL)
        grid->sorted_by = list->sorted_by;
}

void grid_release(struct grid *grid)
{
    free(grid->order);
    free(grid->keys);
    *grid = (struct grid){0};
}

void grid_set_list(struct grid *grid, const struct list *list)
{
    grid->list = list;
    grid->sorted_by = list->sorted_by;
    memset(grid->same, 0, sizeof(grid->same));
    grid->selecting = false;
    grid->top = grid->scrolled = 0;
    grid->shown = 0; /* its rows are unknown until the next update */
    grid->all = grid->ordered = 0;
}

static void fill_cell(const struct grid *grid, const struct scene *scene, size_t row, size_t column,
                      struct cell *cell)
{
    cell->text[0] = '\0';
    cell->tone = TONE_NORMAL;
    cell->number = NAN;
    cell->time_ns = 0;
    cell->no_key = cell->cut = false;
    if (grid->list->fill_cell != NULL)
        grid->list->fill_cell(grid->state, scene, row, column, cell);
}

void grid_fill(const struct grid *grid, const struct scene *scene, size_t row, struct cell *cells)
{
    for (size_t i = 0; i < grid->list->column_count; i++)
        fill_cell(grid, scene, row, i, &cells[i]);
    if (grid->list->fill_cell == NULL)
        grid->list->fill(grid->state, scene, row, cells);
}

static uint64_t id_of(const struct grid *grid, const struct scene *scene, size_t row)
{
    return grid->list->id != NULL ? grid->list->id(grid->state, scene, row) : row;
}

/* Order and keys are lost when it grows. */
static int make_grid_room(struct grid *grid, size_t rows)
{
    size_t room = grid->room > 0 ? grid->room : 64;

    while (room < rows)
        room *= 2;
    if (room == grid->room)
        return 0;
    free(grid->order);
    free(grid->keys);
    grid->order = calloc(room, sizeof(*grid->order));
    grid->keys = calloc(room, sizeof(*grid->keys));
    grid->room = grid->order != NULL && grid->keys != NULL ? room : 0;
    return grid->room > 0 ? 0 : -1;
}

static struct sort_key *key_of(const struct grid *grid, size_t row)
{
    return &grid->keys[(grid->first + row) & (grid->room - 1)];
}

/* The context of by_sort_key(): qsort() passes none, and there is only one thread. */
static struct {
    const struct grid *grid;
    bool by_number, descending;
} sorting;

static int by_sort_key(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    const struct sort_key *one = key_of(sorting.grid, left), *other = key_of(sorting.grid, right);
    double x = one->number, y = other->number;
    int order;

    if (!sorting.by_number)
        order = strcmp(one->text, other->text);
    else if (isnan(x) || isnan(y))
        order = isnan(x) - isnan(y); /* no number: lowest */
    else
        order = x < y ? -1 : x > y;
    if (order == 0)
        return left < right ? -1 : left > right;
    return sorting.descending ? -order : order;
}

/* The first KEPT rows are in order: the others are inserted. */
static void sort_rows(struct grid *grid, size_t kept)
{
    sorting.grid = grid;
    sorting.by_number = grid->list->columns[abs(grid->sorted_by) - 1].right;
    sorting.descending = grid->sorted_by < 0;
    if (kept == 0)
        qsort(grid->order, grid->ordered, sizeof(*grid->order), by_sort_key);
    for (size_t i = kept; kept > 0 && i < grid->ordered; i++) {
        uint32_t row = grid->order[i];
        size_t low = 0, high = i;

        while (low < high) {
            size_t middle = low + (high - low) / 2;

            if (by_sort_key(&row, &grid->order[middle]) < 0)
                high = middle;
            else
                low = middle + 1;
        }
        memmove(&grid->order[low + 1], &grid->order[low], (i - low) * sizeof(row));
        grid->order[low] = row;
    }
}

/*
 * Keeps the selection on the same subject; if that no longer exists, on the row now at its place.
 */
static void find_selected(struct grid *grid, const struct scene *scene)
{
    if (!grid->selecting)
        return;
    for (size_t i = 0; i < grid->shown; i++)
        if (id_of(grid, scene, grid->order[i]) == grid->selected_id) {
            grid->selected = i;
            return;
        }
    if (grid->shown == 0) {
        grid->selecting = false;
        return;
    }
    grid->selected = grid->selected < grid->shown ? grid->selected : grid->shown - 1;
    grid->selected_id = id_of(grid, scene, grid->order[grid->selected]);
}

/* The length of the first word of *WORDS, which is moved to its start; 0: there is none. */
static size_t next_word(const char **words)
{
    *words += strspn(*words, " ");
    return strcspn(*words, " ");
}

/* True if the column is named by the word of LENGTH at WORD. */
static bool is_named(const struct column *column, const char *word, size_t length)
{
    char text[TABLE_NAME_BYTES];

    snprintf(text, sizeof(text), "%.*s", (int)length, word);
    return column_is_named(column, text);
}

bool grid_hides(const struct grid *grid, size_t column)
{
    const char *word = grid->unwanted;

    for (size_t length; (length = next_word(&word)) > 0; word += length)
        if (is_named(&grid->list->columns[column], word, length))
            return true;
    return false;
}

bool grid_hide(struct grid *grid, const bool *hidden)
{
    const struct list *list = grid->list;
    char words[GRID_UNWANTED_BYTES] = "", name[TABLE_NAME_BYTES];
    const char *word = grid->unwanted;
    size_t used = 0;

    for (size_t length; (length = next_word(&word)) > 0; word += length) {
        size_t i = 0;

        while (i < list->column_count && !is_named(&list->columns[i], word, length))
            i++;
        if (i == list->column_count && used < sizeof(words))
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%.*s",
                                     used > 0 ? " " : "", (int)length, word);
    }
    for (size_t i = 0; i < list->column_count; i++)
        if (hidden[i] && used < sizeof(words))
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s",
                                     used > 0 ? " " : "", column_name(&list->columns[i], name));
    if (used >= sizeof(words))
        return false;
    memcpy(grid->unwanted, words, sizeof(words));
    return true;
}

static void choose_columns(struct grid *grid, const struct scene *scene)
{
    const struct list *list = grid->list;

    memcpy(grid->columns, list->columns, list->column_count * sizeof(*list->columns));
    for (size_t i = 0; list->lacks != NULL && i < list->column_count; i++)
        grid->columns[i].hidden |= list->lacks(scene, i);
    for (size_t i = 0; i < list->column_count; i++)
        grid->columns[i].hidden |= grid_hides(grid, i);
}

/* True if a row matches the filter; its sort key is then set. */
static bool take_row(const struct grid *grid, const struct scene *scene,
                     const struct filter_plan *plan, size_t row)
{
    struct cell cells[TABLE_COLUMNS_MAX];
    size_t by = (size_t)abs(grid->sorted_by);
    struct sort_key *key = key_of(grid, row);

    if (by == 0 && !filter_active(grid->filter))
        return true;
    if (grid->list->fill_cell == NULL)
        grid_fill(grid, scene, row, cells);
    else
        for (size_t i = 0; i < grid->list->column_count; i++)
            if (plan->reads[i] || by == i + 1)
                fill_cell(grid, scene, row, i, &cells[i]);
    if (!filter_matches(plan, cells))
        return false;
    if (by == 0)
        return true;
    key->number = cells[by - 1].number;
    snprintf(key->text, sizeof(key->text), "%.47s", cells[by - 1].text);
    for (char *c = key->text; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return true;
}

/* Whether the rows in ORDER still match and are in order. Notes what they will be ordered by. */
static bool check_order(struct grid *grid)
{
    const char *filter = filter_active(grid->filter) ? grid->filter->text : "";
    bool same = grid->list->lasting && grid->ordered_by == grid->sorted_by &&
                strcmp(grid->ordered_filter, filter) == 0;

    grid->ordered_by = grid->sorted_by;
    snprintf(grid->ordered_filter, sizeof(grid->ordered_filter), "%s", filter);
    return same;
}

/* Removes the first GONE rows from ORDER. */
static void drop_rows(struct grid *grid, uint64_t gone)
{
    size_t kept = 0;

    for (size_t i = 0; i < grid->ordered; i++)
        if (grid->order[i] >= gone)
            grid->order[kept++] = grid->order[i] - (uint32_t)gone;
    grid->ordered = kept;
}

void grid_update(struct grid *grid, const struct scene *scene)
{
    const struct list *list = grid->list;
    struct filter_plan plan = filter_plan_for(grid->filter, list->columns, list->column_count);
    uint64_t first = grid->first, end = first + grid->all;
    size_t room = grid->room, row = 0, kept;

    choose_columns(grid, scene);
    grid->all = list->count(grid->state, scene);
    grid->first = list->lasting && grid->all > 0 ? id_of(grid, scene, 0) : 0;
    if (make_grid_room(grid, grid->all) != 0)
        grid->all = 0;
    if (check_order(grid) && grid->room == room && grid->first >= first &&
        grid->first + grid->all >= end) {
        drop_rows(grid, grid->first - first);
        row = end > grid->first ? (size_t)(end - grid->first) : 0;
    } else {
        grid->ordered = 0;
    }
    kept = grid->ordered;
    for (; row < grid->all; row++)
        if (take_row(grid, scene, &plan, row))
            grid->order[grid->ordered++] = (uint32_t)row;
    if (grid->sorted_by != 0)
        sort_rows(grid, kept);
    grid->shown = grid->ordered;
    find_selected(grid, scene);
}

/* Drawing */

static void keep_in_sight(struct grid *grid, size_t page)
{
    size_t last_top = grid->shown > page ? grid->shown - page : 0;

    grid->page = page;
    if (grid->list->follow && !grid->selecting && grid->sorted_by == 0)
        grid->top = last_top;
    if (grid->selecting && grid->selected < grid->top)
        grid->top = grid->selected;
    if (grid->selecting && page > 0 && grid->selected >= grid->top + page)
        grid->top = grid->selected - page + 1;
    if (grid->top > last_top)
        grid->top = last_top;
}

/* Marks the title of the column that the rows are sorted by. */
static void draw_sort_mark(const struct grid *grid)
{
    int column = abs(grid->sorted_by) - 1, x = 0;
    bool ascii = grid->ascii != NULL && *grid->ascii;
    wchar_t mark = grid->sorted_by < 0 ? (ascii ? L'v' : L'▼') : ascii ? L'^' : L'▲';

    if (grid->sorted_by == 0 || grid->widths[column] == 0)
        return;
    for (int i = 0; i < column; i++)
        x += grid->widths[i] > 0 ? grid->widths[i] + TABLE_GAP : 0;
    canvas_repeat(&grid->titles, 0, x + grid->widths[column], 1, TONE_NOTE, mark);
}

/* Draws the folded columns at the right, if the titles leave room. */
static void draw_folded(const struct grid *grid, const char *text)
{
    int end = 0, x = 0;

    for (size_t i = 0; i < grid->list->column_count; i++)
        if (grid->widths[i] > 0) {
            end = x +
                  (grid->columns[i].right ? grid->widths[i] : text_columns(grid->columns[i].title));
            x += grid->widths[i] + TABLE_GAP;
        }
    if (end + 2 + text_columns(text) <= grid->titles.width)
        canvas_right(&grid->titles, 0, grid->titles.width, TONE_DIM, text);
}

static void draw_row(const struct grid *grid, const struct scene *scene, size_t place, int y)
{
    struct cell cells[TABLE_COLUMNS_MAX];
    bool selected = grid->selecting && place == grid->selected;

    grid_fill(grid, scene, grid->order[place], cells);
    if (selected) {
        canvas_repeat(&grid->rows, y, 0, grid->rows.width, TONE_SELECTED, L' ');
        for (size_t i = 0; i < grid->list->column_count; i++)
            cells[i].tone = TONE_SELECTED;
    }
    table_draw_row(&grid->rows, y, grid->list->columns, grid->list->column_count, grid->widths,
                   cells);
}

char *grid_summary(const struct grid *grid, char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (grid == NULL || grid->list == NULL || grid->rows.height == 0)
        return buffer; /* no list, or it is not on the screen */
    if (filter_active(grid->filter) || grid->shown <= grid->page)
        snprintf(buffer, size, "%zu of %zu shown", grid->shown, grid->all);
    else
        snprintf(buffer, size, "%zu to %zu of %zu", grid->top + 1, grid->top + grid->page,
                 grid->all);
    return buffer;
}

/* A column that was not constant a moment ago stays, so that it does not come and go. */
enum { FOLD_FRAMES = 100, FOLDED_BYTES = 120 };

/* Counts in which columns all visible rows have the same text. TEXTS receives those texts. */
static void compare_rows(struct grid *grid, const struct scene *scene,
                         char texts[TABLE_COLUMNS_MAX][48])
{
    struct cell cells[TABLE_COLUMNS_MAX];
    size_t count = grid->list->column_count;
    bool differs[TABLE_COLUMNS_MAX] = {false};

    for (size_t row = 0; row < grid->page && grid->top + row < grid->shown; row++) {
        grid_fill(grid, scene, grid->order[grid->top + row], cells);
        for (size_t i = 0; i < count; i++) {
            if (row == 0)
                snprintf(texts[i], sizeof(texts[i]), "%.47s", cells[i].text);
            differs[i] |= strncmp(texts[i], cells[i].text, sizeof(texts[i]) - 1) != 0;
        }
    }
    for (size_t i = 0; i < count; i++)
        grid->same[i] = differs[i] ? 1
                        : grid->folds_at_once
                            ? 0
                            : grid->same[i] + (grid->same[i] != 0 && grid->same[i] <= FOLD_FRAMES);
}

/*
 * Hides the columns that fold, and writes their titles and texts to FOLDED: "protocol HTTP/1.1".
 * One without a text is only hidden.
 */
static void fold_columns(struct grid *grid, const struct scene *scene, char *folded, size_t size)
{
    char texts[TABLE_COLUMNS_MAX][48] = {{'\0'}}, name[TABLE_NAME_BYTES];
    bool any = false;
    size_t used = 0;

    folded[0] = '\0';
    for (size_t i = 0; i < grid->list->column_count; i++)
        any |= grid->columns[i].folds;
    if (!any || grid->shown == 0 || grid->page == 0)
        return;
    compare_rows(grid, scene, texts);
    for (size_t i = 0; i < grid->list->column_count; i++) {
        if (!grid->columns[i].folds || grid->columns[i].hidden ||
            abs(grid->sorted_by) == (int)i + 1 ||
            (grid->same[i] > 0 && grid->same[i] <= FOLD_FRAMES))
            continue;
        grid->columns[i].hidden = true;
        if (texts[i][0] != '\0' && used < size)
            used += (size_t)snprintf(folded + used, size - used, "%s%s %s", used > 0 ? "  " : "",
                                     column_title_name(&grid->columns[i], name), texts[i]);
    }
}

/* Hides the columns scrolled out. */
static void scroll_columns(struct grid *grid)
{
    size_t left = grid->scrolled;

    for (size_t i = 0; i < grid->list->column_count && left > 0; i++)
        if (!grid->columns[i].hidden) {
            grid->columns[i].hidden = true;
            left--;
        }
}

/* True if a column has no room. */
static bool lacks_room(const struct grid *grid)
{
    size_t i = 0;

    while (i < grid->list->column_count && (grid->columns[i].hidden || grid->widths[i] > 0))
        i++;
    return i < grid->list->column_count;
}

/* Sets the widths; columns are scrolled out only until all others have room. */
static void fit_columns(struct grid *grid, int width)
{
    struct column columns[TABLE_COLUMNS_MAX];
    size_t wanted = grid->scrolled;

    memcpy(columns, grid->columns, sizeof(columns));
    grid->scrolled = 0;
    for (;;) {
        memcpy(grid->columns, columns, sizeof(columns));
        scroll_columns(grid);
        table_fit(grid->columns, grid->list->column_count, width, grid->widths);
        if (grid->scrolled == wanted || !lacks_room(grid))
            return;
        grid->scrolled++;
    }
}

void grid_draw(struct grid *grid, const struct scene *scene, const struct canvas *canvas)
{
    char folded[FOLDED_BYTES];
    size_t page;

    grid->titles = canvas_part(canvas, 0, 0, 1, canvas->width);
    grid->rows = canvas_part(canvas, 1, 0, canvas->height - 1, canvas->width);
    page = (size_t)grid->rows.height;
    grid_update(grid, scene);
    keep_in_sight(grid, page);
    fold_columns(grid, scene, folded, sizeof(folded));
    fit_columns(grid, canvas->width);
    table_draw_row(canvas, 0, grid->columns, grid->list->column_count, grid->widths, NULL);
    draw_folded(grid, folded);
    draw_sort_mark(grid);
    for (size_t i = 0; i < page && grid->top + i < grid->shown; i++)
        draw_row(grid, scene, grid->top + i, (int)i);
    if (grid->shown == 0 && page > 0)
        canvas_print(&grid->rows, 0, 0, TONE_DIM, "%s",
                     grid->all > 0 ? "No row matches the filter; Esc clears it."
                                   : "The list is empty.");
}

/* Keys and mouse */

static void select_place(struct grid *grid, const struct scene *scene, size_t place)
{
    grid->selected = place < grid->shown ? place : grid->shown - 1;
    grid->selected_id = id_of(grid, scene, grid->order[grid->selected]);
    grid->selecting = true;
}

/* Moves the selection by STEPS. The first step selects a visible row. */
static void move_selection(struct grid *grid, const struct scene *scene, long steps)
{
    long place = (long)grid->selected + steps;
    bool last = grid->list->follow && grid->sorted_by == 0;

    if (!grid->selecting)
        place = last        ? (long)grid->shown - 1 + (steps < -1 ? steps : 0)
                : steps > 1 ? steps
                            : (long)grid->top;
    if (grid->selecting && last && place >= (long)grid->shown) {
        grid->selecting = false; /* after the last row: follows again */
        return;
    }
    select_place(grid, scene, place < 0 ? 0 : (size_t)place);
}

/* The first rows in the new order are visible. */
static void set_order(struct grid *grid, int sorted_by)
{
    grid->sorted_by = sorted_by;
    grid->selecting = false;
    grid->top = 0;
}

void grid_sort(struct grid *grid, int column)
{
    set_order(grid, grid->list->columns[column].right ? -(column + 1) : column + 1);
}

static void sort_by_next(struct grid *grid)
{
    int column = abs(grid->sorted_by); /* index of the next column */
    int count = (int)grid->list->column_count;

    while (column < count && grid->widths[column] == 0)
        column++;
    if (column < count)
        grid_sort(grid, column);
    else
        set_order(grid, 0);
}

bool grid_key(struct grid *grid, const struct scene *scene, enum action action)
{
    long page = grid->page > 1 ? (long)grid->page - 1 : 1;

    if (grid->list == NULL)
        return false;
    if (action == ACTION_SORT) {
        sort_by_next(grid);
        return true;
    }
    if (action == ACTION_SORT_REVERSE) {
        set_order(grid, -grid->sorted_by);
        return true;
    }
    if (action == ACTION_COLUMNS_RIGHT || action == ACTION_COLUMNS_LEFT) {
        if (action == ACTION_COLUMNS_RIGHT)
            grid->scrolled += grid->scrolled < grid->list->column_count;
        else
            grid->scrolled -= grid->scrolled > 0;
        return true;
    }
    if (grid->shown == 0)
        return false;
    switch (action) {
    case ACTION_UP:
        move_selection(grid, scene, -1);
        return true;
    case ACTION_DOWN:
        move_selection(grid, scene, 1);
        return true;
    case ACTION_PAGE_UP:
        move_selection(grid, scene, -page);
        return true;
    case ACTION_PAGE_DOWN:
        move_selection(grid, scene, page);
        return true;
    case ACTION_HALF_UP:
        move_selection(grid, scene, -(page + 1) / 2);
        return true;
    case ACTION_HALF_DOWN:
        move_selection(grid, scene, (page + 1) / 2);
        return true;
    case ACTION_FIRST:
        select_place(grid, scene, 0);
        return true;
    case ACTION_LAST:
        select_place(grid, scene, grid->shown - 1);
        grid->selecting = !grid->list->follow || grid->sorted_by != 0;
        return true;
    default:
        return false;
    }
}

void grid_deselect(struct grid *grid)
{
    grid->selecting = false;
}

bool grid_selected(const struct grid *grid, size_t *row)
{
    if (!grid->selecting || grid->selected >= grid->shown)
        return false;
    *row = grid->order[grid->selected];
    return true;
}

bool grid_subject(const struct grid *grid, size_t *row)
{
    if (grid->selecting || grid->shown != 1)
        return grid_selected(grid, row);
    *row = grid->order[0];
    return true;
}

static void sort_by_title(struct grid *grid, int x)
{
    int at = grid->titles.x;

    for (int i = 0; i < (int)grid->list->column_count; i++) {
        if (grid->widths[i] == 0)
            continue;
        if (x < at + grid->widths[i] + 1) {
            if (abs(grid->sorted_by) == i + 1)
                set_order(grid, -grid->sorted_by);
            else
                grid_sort(grid, i);
            return;
        }
        at += grid->widths[i] + TABLE_GAP;
    }
}

bool grid_click(struct grid *grid, const struct scene *scene, int y, int x, bool *again)
{
    size_t place;

    *again = false;
    if (grid->list == NULL)
        return false;
    if (canvas_holds(&grid->titles, y, x)) {
        sort_by_title(grid, x);
        return true;
    }
    place = grid->top + (size_t)(y - grid->rows.y);
    if (!canvas_holds(&grid->rows, y, x) || place >= grid->shown)
        return false;
    *again = grid->selecting && grid->selected == place;
    select_place(grid, scene, place);
    return true;
}

/* Output for scripts */

void grid_print(const struct grid *grid, const struct scene *scene, FILE *out)
{
    struct cell cells[TABLE_COLUMNS_MAX];

    table_print(out, grid->columns, grid->list->column_count, NULL);
    for (size_t i = 0; i < grid->shown; i++) {
        grid_fill(grid, scene, grid->order[i], cells);
        table_print(out, grid->columns, grid->list->column_count, cells);
    }
}

static void print_quoted(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* The text of a cell without the blanks that indent it on the screen. */
static const char *output_text(const struct column *column, const struct cell *cell, char *buffer)
{
    if (column->output == OUTPUT_TIME)
        return cell->time_ns > 0 ? text_rfc3339(buffer, cell->time_ns) : "";
    return cell->text + strspn(cell->text, " ");
}

static bool is_number(const struct column *column, const struct cell *cell)
{
    return column->output != OUTPUT_TIME && isfinite(cell->number);
}

/* Durations are whole nanoseconds. */
static double output_number(const struct column *column, const struct cell *cell)
{
    return column->output == OUTPUT_PLAIN ? cell->number : round(cell->number);
}

static bool is_whole(double number)
{
    return number == floor(number) && fabs(number) < 9007199254740992.0;
}

/* Prints numbers unquoted; a numeric cell without a number is empty. */
static void print_cell(FILE *out, const struct column *column, const struct cell *cell)
{
    double number = output_number(column, cell);
    char buffer[TEXT_SHORT];

    if (is_number(column, cell))
        fprintf(out, is_whole(number) ? "%.0f" : "%.15g", number);
    else if (!column->right || column->output == OUTPUT_TIME)
        print_quoted(out, output_text(column, cell, buffer));
}

void grid_print_csv(const struct grid *grid, const struct scene *scene, FILE *out)
{
    const struct list *list = grid->list;
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];

    for (size_t i = 0; i < list->column_count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", column_output_name(&list->columns[i], name));
    fputs("\r\n", out);
    for (size_t row = 0; row < grid->shown; row++) {
        grid_fill(grid, scene, grid->order[row], cells);
        for (size_t i = 0; i < list->column_count; i++) {
            if (i > 0)
                fputc(',', out);
            print_cell(out, &list->columns[i], &cells[i]);
        }
        fputs("\r\n", out);
    }
}

static json_t *json_cell(const struct column *column, const struct cell *cell)
{
    double number = output_number(column, cell);
    char buffer[TEXT_SHORT];

    if (is_number(column, cell))
        return is_whole(number) ? json_integer((json_int_t)number) : json_real(number);
    if (column->right && cell->time_ns == 0)
        return json_null();
    return json_string(output_text(column, cell, buffer));
}

json_t *grid_json(const struct grid *grid, const struct scene *scene)
{
    const struct list *list = grid->list;
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];
    json_t *rows = json_array();

    for (size_t row = 0; row < grid->shown; row++) {
        json_t *object = json_object();

        grid_fill(grid, scene, grid->order[row], cells);
        for (size_t i = 0; i < list->column_count; i++)
            json_object_set_new(object, column_output_name(&list->columns[i], name),
                                json_cell(&list->columns[i], &cells[i]));
        json_array_append_new(rows, object);
    }
    return rows;
}
