#include "loadgen/plan/expansion.h"

#include "common/macros.h"

#include "loadgen/plan/csv_file.h"
#include "loadgen/plan/message.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct expansion {
    struct request_plan *request_plan;
    struct csv_file csv;
    size_t row;
    size_t replaced; /* variables so far */
    char *why;
    size_t size;
};

PRINTF_LIKE(2, 3) static int fail(const struct expansion *expansion, const char *format, ...)
{
    va_list arguments;
    int used = snprintf(expansion->why, expansion->size, "%s:%u: ", expansion->csv.name,
                        csv_file_line(&expansion->csv, expansion->row));

    va_start(arguments, format);
    if (used >= 0 && (size_t)used < expansion->size)
        vsnprintf(expansion->why + used, expansion->size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- Texts ---- */

/* A text with variables, and where they are replaced. */
struct text {
    const char *at, *end;
    bool is_url; /* {{NAME}} is percent-encoded, {{{NAME}}} is not */
};

/* The value of the variable with this name, or NULL with WHY. */
static const char *value_of(const struct expansion *expansion, const char *name, size_t length)
{
    const struct csv_file *csv = &expansion->csv;
    char names[200] = "";

    for (size_t i = 0; i < csv->columns; i++)
        if (strlen(csv->cells[i]) == length && memcmp(csv->cells[i], name, length) == 0)
            return csv_file_value(csv, expansion->row, i);
    for (size_t i = 0;
         i < csv->columns && strlen(names) + strlen(csv->cells[i]) + 3 < sizeof(names); i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? ", " : "",
                 csv->cells[i]);
    snprintf(expansion->why, expansion->size, "%s: no column '%.*s' for {{%.*s}} (columns: %s)",
             csv->name, (int)length, name, (int)length, name, names);
    return NULL;
}

/* All but the unreserved characters (RFC 3986 section 2.3). */
static void put_encoded(FILE *out, const char *value)
{
    for (; *value != '\0'; value++)
        if (isalnum((unsigned char)*value) || strchr("-._~", *value) != NULL)
            fputc(*value, out);
        else
            fprintf(out, "%%%02X", (unsigned)(unsigned char)*value);
}

/* Copies up to the next variable and replaces it; text->at is then behind it. Returns 0, or -1 with WHY. */
static int replace_next(struct expansion *expansion, struct text *text, FILE *out)
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
        return 0;
    }
    plain = text->is_url && open[2] == '{' && close + 2 < text->end && close[2] == '}';
    fwrite(text->at, 1, (size_t)(open - text->at), out);
    open += plain ? 3 : 2;
    value = value_of(expansion, open, (size_t)(close - open));
    if (value == NULL)
        return -1;
    if (text->is_url && !plain)
        put_encoded(out, value);
    else
        fputs(value, out);
    expansion->replaced++;
    text->at = close + (plain ? 3 : 2);
    return 0;
}

/* Sets *expanded, owned by the caller, and *length. Returns 0, or -1 with WHY. */
static int replace_all(struct expansion *expansion, struct text text, char **expanded,
                       size_t *length)
{
    FILE *out = open_memstream(expanded, length);
    int result = 0;

    if (out == NULL)
        return fail(expansion, "out of memory");
    while (result == 0 && text.at < text.end)
        result = replace_next(expansion, &text, out);
    return fclose(out) == 0 ? result : fail(expansion, "out of memory");
}

static struct text text_of(const char *text, bool is_url)
{
    return (struct text){text, text + strlen(text), is_url};
}

/* ---- Requests ---- */

static int append_field(struct expansion *expansion, const char *field, struct curl_slist **list)
{
    char *expanded = NULL;
    size_t length;
    int result = replace_all(expansion, text_of(field, false), &expanded, &length);

    if (result == 0 && !message_is_value(expanded))
        result = fail(expansion, "control character in a value for the header field '%s'", field);
    if (result == 0 && !string_list_append(list, expanded))
        result = fail(expansion, "out of memory");
    free(expanded);
    return result;
}

/* Whether a header field of the command line that has variables replaces FIELD. */
static bool is_replaced(const struct plan *plan, const char *field)
{
    size_t length = strcspn(field, ":") + 1;

    for (size_t i = 0; i < plan->header_count; i++)
        if (request_plan_is_template(plan, plan->headers[i]) &&
            strncasecmp(plan->headers[i], field, length) == 0)
            return true;
    return false;
}

/* The fields of the template, and those of the command line that have variables. */
static int expand_fields(struct expansion *expansion, const struct request_template *template,
                         struct curl_slist **list)
{
    const struct plan *plan = expansion->request_plan->plan;
    int result = 0;

    for (const struct curl_slist *field = template->fields; result == 0 && field != NULL;
         field = field->next)
        if (!is_replaced(plan, field->data))
            result = append_field(expansion, field->data, list);
    for (size_t i = 0; result == 0 && i < plan->header_count; i++)
        if (request_plan_is_template(plan, plan->headers[i]))
            result = append_field(expansion, plan->headers[i], list);
    return result;
}

/* The body of the template, or else that of the command line if it has variables. */
static int expand_body(struct expansion *expansion, const struct request_template *template,
                       char **body, size_t *length)
{
    const struct request_plan *request_plan = expansion->request_plan;
    const char *text = template->body != NULL ? template->body : request_plan->body;
    size_t text_length = template->body != NULL ? template->body_length : request_plan->body_length;

    if (text == NULL ||
        (template->body == NULL && !request_plan_is_template(request_plan->plan, text)))
        return 0;
    return replace_all(expansion, (struct text){text, text + text_length, false}, body, length);
}

/* Adds the request of TEMPLATE for the current row. */
static int expand(struct expansion *expansion, const struct request_template *template,
                  struct request_entry entry)
{
    char *url = NULL, *body = NULL, why[256];
    size_t url_length, body_length = 0;
    struct curl_slist *fields = NULL;
    struct request_parts parts;
    int result = replace_all(expansion, text_of(template->url, true), &url, &url_length);

    if (result == 0)
        result = expand_fields(expansion, template, &fields);
    if (result == 0)
        result = expand_body(expansion, template, &body, &body_length);
    parts = (struct request_parts){
        .method = template->method,
        .url = template->is_path ? NULL : url,
        .path = template->is_path ? url : NULL,
        .fields = fields,
        .body = body,
        .body_length = body_length,
    };
    if (result == 0 &&
        request_plan_add(expansion->request_plan, &parts, entry, why, sizeof(why)) != 0)
        result = fail(expansion, "%s", why);
    curl_slist_free_all(fields);
    free(url);
    free(body);
    return result;
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
