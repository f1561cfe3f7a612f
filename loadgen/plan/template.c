#include "loadgen/plan/template.h"

#include "common/macros.h"

#include "loadgen/plan/input.h"
#include "loadgen/plan/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void request_template_free(struct request_template *template)
{
    free(template->method);
    free(template->url);
    curl_slist_free_all(template->fields);
    free(template->body);
}

bool string_list_append(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

bool template_is_used(const struct plan *plan, const char *text)
{
    bool replaces = plan->csv_file != NULL || plan->scenario_file != NULL;
    const char *open = replaces ? strstr(text, "{{") : NULL;

    return open != NULL && strstr(open, "}}") != NULL;
}

/* ---- Texts ---- */

struct maker {
    const struct template_variables *variables;
    struct template_request *made;
    char *why;
    size_t size;
};

/* A text with variables, and where they are replaced. */
struct text {
    const char *at, *end;
    bool is_url; /* {{NAME}} is percent-encoded, {{{NAME}}} is not */
};

static enum template_result fail_template(const struct maker *maker, const char *text)
{
    snprintf(maker->why, maker->size, "%s", text);
    return TEMPLATE_INVALID;
}

/* All but the unreserved characters (RFC 3986 section 2.3). */
static void put_percent_encoded(FILE *out, const char *value)
{
    for (; *value != '\0'; value++)
        if (isalnum((unsigned char)*value) || strchr("-._~", *value) != NULL)
            fputc(*value, out);
        else
            fprintf(out, "%%%02X", (unsigned)(unsigned char)*value);
}

/* Copies up to the next variable and replaces it; text->at is then behind it. */
static enum template_result replace_next(const struct maker *maker, struct text *text, FILE *out)
{
    const char *open = memmem(text->at, (size_t)(text->end - text->at), "{{", 2), *close, *value;
    bool plain;

    /* Of "{{{", only a URL takes the first brace as part of the variable. */
    while (open != NULL && !text->is_url && open + 2 < text->end && open[2] == '{')
        open++;
    close = open != NULL ? memmem(open, (size_t)(text->end - open), "}}", 2) : NULL;
    if (close == NULL) {
        fwrite(text->at, 1, (size_t)(text->end - text->at), out);
        text->at = text->end;
        return TEMPLATE_DONE;
    }
    plain = text->is_url && open[2] == '{' && close + 2 < text->end && close[2] == '}';
    fwrite(text->at, 1, (size_t)(open - text->at), out);
    open += plain ? 3 : 2;
    value = maker->variables->find(maker->variables->context, open, (size_t)(close - open));
    if (value == NULL)
        return TEMPLATE_UNKNOWN;
    if (text->is_url && !plain)
        put_percent_encoded(out, value);
    else
        fputs(value, out);
    maker->made->replaced++;
    text->at = close + (plain ? 3 : 2);
    return TEMPLATE_DONE;
}

/* Sets *expanded, owned by the caller, and *length. */
static enum template_result replace_all(const struct maker *maker, struct text text,
                                        char **expanded, size_t *length)
{
    FILE *out = open_memstream(expanded, length);
    enum template_result result = TEMPLATE_DONE;

    if (out == NULL)
        return fail_template(maker, "out of memory");
    while (result == TEMPLATE_DONE && text.at < text.end)
        result = replace_next(maker, &text, out);
    return fclose(out) == 0 ? result : fail_template(maker, "out of memory");
}

static struct text template_text(const char *text, bool is_url)
{
    return (struct text){text, text + strlen(text), is_url};
}

/* ---- Requests ---- */

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text) && *text != '\t')
            return true;
    return false;
}

static enum template_result append_template_field(const struct maker *maker, const char *field)
{
    char *expanded = NULL;
    size_t length;
    enum template_result result =
        replace_all(maker, template_text(field, false), &expanded, &length);

    if (result == TEMPLATE_DONE && has_control(expanded)) {
        snprintf(maker->why, maker->size, "control character in a value for the header field '%s'",
                 field);
        result = TEMPLATE_INVALID;
    }
    if (result == TEMPLATE_DONE && !string_list_append(&maker->made->fields, expanded))
        result = fail_template(maker, "out of memory");
    free(expanded);
    return result;
}

/* Whether a header field of the command line that has variables replaces FIELD. */
static bool plan_replaces(const struct plan *plan, const char *field)
{
    size_t length = strcspn(field, ":") + 1;

    for (size_t i = 0; i < plan->header_count; i++)
        if (template_is_used(plan, plan->headers[i]) &&
            strncasecmp(plan->headers[i], field, length) == 0)
            return true;
    return false;
}

/* The fields of the template, and those of the command line that have variables. */
static enum template_result make_template_fields(const struct maker *maker, const struct plan *plan,
                                                 const struct request_template *template)
{
    enum template_result result = TEMPLATE_DONE;

    for (const struct curl_slist *field = template->fields;
         result == TEMPLATE_DONE && field != NULL; field = field->next)
        if (!plan_replaces(plan, field->data))
            result = append_template_field(maker, field->data);
    for (size_t i = 0; result == TEMPLATE_DONE && i < plan->header_count; i++)
        if (template_is_used(plan, plan->headers[i]))
            result = append_template_field(maker, plan->headers[i]);
    return result;
}

enum template_result template_make_request(const struct plan *plan,
                                           const struct request_template *template,
                                           const struct template_variables *variables,
                                           struct template_request *made, char *why, size_t size)
{
    const struct maker maker = {variables, made, why, size};
    const char *body = template->body;
    enum template_result result;
    size_t length;

    *made = (struct template_request){0};
    result = replace_all(&maker, template_text(template->url, true), &made->url, &length);
    if (result == TEMPLATE_DONE)
        result = make_template_fields(&maker, plan, template);
    if (result == TEMPLATE_DONE && body != NULL)
        result = replace_all(&maker, (struct text){body, body + template->body_length, false},
                             &made->body, &made->body_length);
    return result;
}

void template_request_free(struct template_request *made)
{
    free(made->url);
    curl_slist_free_all(made->fields);
    free(made->body);
    *made = (struct template_request){0};
}

/* ---- Requests for each row of a table ---- */

struct expansion {
    struct request_plan *request_plan;
    struct csv_file csv;
    size_t row;
    size_t replaced; /* variables so far */
    char *why;
    size_t size;
};

/* The line of the current row. */
static struct input_place place_of_entry(const struct expansion *expansion)
{
    return (struct input_place){expansion->csv.file_name,
                                csv_file_line(&expansion->csv, expansion->row), expansion->why,
                                expansion->size};
}

/* ---- Requests ---- */

/* Finds the value of a column in the current row. */
static const char *find_cell(void *context, const char *name, size_t length)
{
    const struct expansion *expansion = context;
    const struct csv_file *csv = &expansion->csv;
    const char *value = csv_file_find(csv, expansion->row, name, length);
    char names[CSV_FILE_NAMES];

    if (value == NULL)
        snprintf(expansion->why, expansion->size, "%s: no column '%.*s' for {{%.*s}} (columns: %s)",
                 csv->file_name, (int)length, name, (int)length, name, csv_file_names(csv, names));
    return value;
}

/* Adds the request of TEMPLATE for the current row. */
static int expand(struct expansion *expansion, const struct request_template *template,
                  struct request_entry entry)
{
    struct request_plan *request_plan = expansion->request_plan;
    const struct template_variables variables = {find_cell, expansion};
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
        return input_fail(place_of_entry(expansion), "%s", why);
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
             "%s: no URL, header field or body has a variable such as {{%s}}",
             expansion->csv.file_name, expansion->csv.cells[0]);
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
