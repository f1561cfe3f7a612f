#include "loadgen/plan/template.h"

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

static enum template_result fail(const struct maker *maker, const char *text)
{
    snprintf(maker->why, maker->size, "%s", text);
    return TEMPLATE_INVALID;
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
        put_encoded(out, value);
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
        return fail(maker, "out of memory");
    while (result == TEMPLATE_DONE && text.at < text.end)
        result = replace_next(maker, &text, out);
    return fclose(out) == 0 ? result : fail(maker, "out of memory");
}

static struct text text_of(const char *text, bool is_url)
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

static enum template_result append_field(const struct maker *maker, const char *field)
{
    char *expanded = NULL;
    size_t length;
    enum template_result result = replace_all(maker, text_of(field, false), &expanded, &length);

    if (result == TEMPLATE_DONE && has_control(expanded)) {
        snprintf(maker->why, maker->size, "control character in a value for the header field '%s'",
                 field);
        result = TEMPLATE_INVALID;
    }
    if (result == TEMPLATE_DONE && !string_list_append(&maker->made->fields, expanded))
        result = fail(maker, "out of memory");
    free(expanded);
    return result;
}

/* Whether a header field of the command line that has variables replaces FIELD. */
static bool is_replaced(const struct plan *plan, const char *field)
{
    size_t length = strcspn(field, ":") + 1;

    for (size_t i = 0; i < plan->header_count; i++)
        if (template_is_used(plan, plan->headers[i]) &&
            strncasecmp(plan->headers[i], field, length) == 0)
            return true;
    return false;
}

/* The fields of the template, and those of the command line that have variables. */
static enum template_result make_fields(const struct maker *maker, const struct plan *plan,
                                        const struct request_template *template)
{
    enum template_result result = TEMPLATE_DONE;

    for (const struct curl_slist *field = template->fields;
         result == TEMPLATE_DONE && field != NULL; field = field->next)
        if (!is_replaced(plan, field->data))
            result = append_field(maker, field->data);
    for (size_t i = 0; result == TEMPLATE_DONE && i < plan->header_count; i++)
        if (template_is_used(plan, plan->headers[i]))
            result = append_field(maker, plan->headers[i]);
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
    result = replace_all(&maker, text_of(template->url, true), &made->url, &length);
    if (result == TEMPLATE_DONE)
        result = make_fields(&maker, plan, template);
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
