#include "console/ui/rows.h"

#include <math.h>
#include <string.h>

void rows_print(const struct grid *grid, const struct scene *scene, FILE *out)
{
    struct cell cells[TABLE_COLUMNS_MAX];

    table_print(out, grid->list->columns, grid->list->column_count, NULL);
    for (size_t i = 0; i < grid->shown; i++) {
        grid_fill(grid, scene, grid->order[i], cells);
        table_print(out, grid->list->columns, grid->list->column_count, cells);
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

/* A number as itself; where there is none, nothing. */
static void print_cell(FILE *out, const struct column *column, const struct cell *cell)
{
    if (isfinite(cell->number))
        fprintf(out, "%.15g", cell->number);
    else if (!column->right)
        print_quoted(out, cell->text);
}

void rows_print_csv(const struct grid *grid, const struct scene *scene, FILE *out)
{
    const struct list *list = grid->list;
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];

    for (size_t i = 0; i < list->column_count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", column_name(&list->columns[i], name));
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
    if (isfinite(cell->number))
        return cell->number == floor(cell->number) && fabs(cell->number) < 1e15
                   ? json_integer((json_int_t)cell->number)
                   : json_real(cell->number);
    return column->right ? json_null() : json_string(cell->text);
}

json_t *rows_json(const struct grid *grid, const struct scene *scene)
{
    const struct list *list = grid->list;
    struct cell cells[TABLE_COLUMNS_MAX];
    char name[TABLE_NAME_BYTES];
    json_t *rows = json_array();

    for (size_t row = 0; row < grid->shown; row++) {
        json_t *object = json_object();

        grid_fill(grid, scene, grid->order[row], cells);
        for (size_t i = 0; i < list->column_count; i++)
            json_object_set_new(object, column_name(&list->columns[i], name),
                                json_cell(&list->columns[i], &cells[i]));
        json_array_append_new(rows, object);
    }
    return rows;
}
