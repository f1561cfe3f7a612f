#include "console/views/views.h"

#include "common/macros.h"
#include "common/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIEW(name) extern const struct view view_##name;
#include "console/views/views.def"
#undef VIEW

const struct view *const view_table[VIEW_COUNT] = {
#define VIEW(name) &view_##name,
#include "console/views/views.def"
#undef VIEW
};

const char *const view_names[VIEW_COUNT] = {
#define VIEW(name) #name,
#include "console/views/views.def"
#undef VIEW
};

const struct view *view_named(const char *name)
{
    int view = table_find(name, view_names, VIEW_COUNT);

    return view >= 0 ? view_table[view] : NULL;
}

int view_open(struct open_view *open, const struct view *view, const struct filter *filter)
{
    open->view = view;
    open->state = calloc(1, view->state_size + 1);
    grid_start(&open->grid, view->list, open->state, filter);
    return open->state != NULL ? 0 : -1;
}

bool view_has_data(const struct view *view, const struct scene *scene)
{
    return view->section == 0 || model_now(scene->model) == NULL || scene_has(scene, view->section);
}

void view_close(struct open_view *open)
{
    if (open->state != NULL && open->view->release != NULL)
        open->view->release(open->state);
    grid_release(&open->grid);
    free(open->state);
}

/* Columns in filters */

enum { NAMES_MAX = VIEW_COUNT * 4 * TABLE_COLUMNS_MAX };

/* The names of all columns, in filters and in output. */
struct names {
    char text[NAMES_MAX][TABLE_NAME_BYTES];
    const char *name[NAMES_MAX];
    size_t count;
};

static void add_names(struct names *names, const struct list *list)
{
    static const char *(*const name_of[])(const struct column *column, char *buffer) = {
        column_name, column_title_name, column_output_name};

    for (size_t i = 0; i < list->column_count; i++)
        for (size_t j = 0; j < ARRAY_LENGTH(name_of) && names->count < NAMES_MAX; j++) {
            char name[TABLE_NAME_BYTES], *text = names->text[names->count];

            snprintf(text, TABLE_NAME_BYTES, "%s", name_of[j](&list->columns[i], name));
            names->name[names->count++] = text;
        }
}

static void collect_names(struct names *names)
{
    names->count = 0;
    for (size_t i = 0; i < VIEW_COUNT; i++) {
        const struct view *view = view_table[i];

        for (size_t j = 0; j < view->list_count; j++)
            add_names(names, &view->lists[j]);
        if (view->list_count == 0 && view->list != NULL)
            add_names(names, view->list);
    }
}

int views_check_filter(const struct filter *filter, char *why, size_t size)
{
    static struct names names; /* too large for the stack */

    if (names.count == 0)
        collect_names(&names);
    for (size_t i = 0; i < filter->words; i++) {
        const char *name = filter->word[i].column;
        char near[DID_YOU_MEAN_SIZE];

        if (filter->word[i].compare == '\0' || table_find(name, names.name, names.count) >= 0)
            continue;
        snprintf(why, size, "unknown column '%s' in the filter%s", name,
                 did_you_mean(near, name, WORD_LIST(names.name, names.count),
                              " (examples: status, path, client)"));
        return -1;
    }
    return 0;
}

/* Hidden columns */

enum { PART_BYTES = 256 };

/* Copies the next part of *TEXT, up to ';', and moves *TEXT behind it; false: there is none. */
static bool cut_part(const char **text, char part[PART_BYTES])
{
    size_t length;

    *text += strspn(*text, "; ");
    length = strcspn(*text, ";");
    snprintf(part, PART_BYTES, "%.*s", (int)length, *text);
    *text += length;
    return part[0] != '\0';
}

static bool view_has_column(const struct view *view, const char *name)
{
    for (size_t i = 0; i < view->list_count; i++)
        if (list_column(&view->lists[i], name) >= 0)
            return true;
    return list_column(view->list, name) >= 0;
}

int views_check_columns(const char *text, char *why, size_t size)
{
    char part[PART_BYTES];

    while (cut_part(&text, part)) {
        char *left = NULL, *word = strtok_r(part, " ", &left);
        const struct view *view = word != NULL ? view_named(word) : NULL;

        if (view == NULL || view->list == NULL) {
            snprintf(why, size, "no view with a list is called '%.40s' (example: log client took)",
                     word != NULL ? word : "");
            return -1;
        }
        while ((word = strtok_r(NULL, " ", &left)) != NULL)
            if (!view_has_column(view, word)) {
                snprintf(why, size, "view %s has no column '%.40s'", view->name, word);
                return -1;
            }
    }
    return 0;
}

void views_hidden_columns(const char *text, const struct view *view, char *names, size_t size)
{
    size_t length = strlen(view->name);
    char part[PART_BYTES];

    names[0] = '\0';
    while (cut_part(&text, part))
        if (strncmp(part, view->name, length) == 0 && part[length] == ' ')
            snprintf(names, size, "%s", part + length + 1);
}
