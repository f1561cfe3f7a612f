#include "loadgen/plan/expansion.h"

#include "common/macros.h"

#include "loadgen/plan/csv_file.h"
#include "loadgen/plan/input.h"

#include <stdio.h>
#include <stdlib.h>

struct expansion {
    struct request_plan *request_plan;
    struct csv_file csv;
    size_t row;
    size_t replaced; /* variables so far */
    char *why;
    size_t size;
};

/* The line of the current row. */
static struct input_place here(const struct expansion *expansion)
{
    return (struct input_place){expansion->csv.name, csv_file_line(&expansion->csv, expansion->row),
                                expansion->why, expansion->size};
}

/* ---- Requests ---- */

/* Finds the value of a column in the current row. */
static const char *find_value(void *context, const char *name, size_t length)
{
    const struct expansion *expansion = context;
    const struct csv_file *csv = &expansion->csv;
    const char *value = csv_file_find(csv, expansion->row, name, length);
    char names[CSV_FILE_NAMES];

    if (value == NULL)
        snprintf(expansion->why, expansion->size, "%s: no column '%.*s' for {{%.*s}} (columns: %s)",
                 csv->name, (int)length, name, (int)length, name, csv_file_names(csv, names));
    return value;
}

/* Adds the request of TEMPLATE for the current row. */
static int expand(struct expansion *expansion, const struct request_template *template,
                  struct request_entry entry)
{
    struct request_plan *request_plan = expansion->request_plan;
    const struct template_variables variables = {find_value, expansion};
    struct request_template whole = *template;
    struct template_request made;
    struct request_parts parts;
    char why[256];
    enum template_result result;

    if (whole.body == NULL && request_plan->body != NULL &&
        template_is_used(request_plan->plan, request_plan->body)) {
        whole.body = request_plan->body;
        whole.body_length = request_plan->body_length;
    }
    result = template_make_request(request_plan->plan, &whole, &variables, &made, why, sizeof(why));
    parts = (struct request_parts){
        .method = template->method,
        .url = template->is_path ? NULL : made.url,
        .path = template->is_path ? made.url : NULL,
        .fields = made.fields,
        .body = made.body,
        .body_length = made.body_length,
    };
    if (result == TEMPLATE_DONE &&
        request_plan_add(request_plan, &parts, entry, why, sizeof(why)) != 0)
        result = TEMPLATE_INVALID;
    expansion->replaced += made.replaced;
    template_request_free(&made);
    if (result == TEMPLATE_INVALID)
        return input_fail(here(expansion), "%s", why);
    return result == TEMPLATE_DONE ? 0 : -1;
}

static int expand_rows(struct expansion *expansion, const struct request_template *templates,
                       const struct request_entry *entries, size_t count)
{
    for (expansion->row = 0; expansion->row < expansion->csv.rows; expansion->row++)
        for (size_t i = 0; i < count; i++)
            if (expand(expansion, &templates[entries[i].request], entries[i]) != 0)
                return -1;
    if (expansion->replaced > 0)
        return 0;
    snprintf(expansion->why, expansion->size,
             "%s: no URL, header field or body has a variable such as {{%s}}", expansion->csv.name,
             expansion->csv.cells[0]);
    return -1;
}

int expansion_make(struct request_plan *request_plan, const char *file, char *why, size_t size)
{
    struct expansion expansion = {.request_plan = request_plan, .why = why, .size = size};
    struct request_entry *entries = request_plan->entries;
    size_t count = request_plan->entry_count;
    int result = csv_file_read(&expansion.csv, file, why, size);

    request_plan->entries = NULL;
    request_plan->entry_count = request_plan->entry_capacity = 0;
    request_plan->makes_templates = false;
    if (result == 0)
        result = expand_rows(&expansion, request_plan->templates, entries, count);
    request_plan->pass_length = count;
    csv_file_free(&expansion.csv);
    free(entries);
    return result;
}
