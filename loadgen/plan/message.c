#include "loadgen/plan/message.h"

#include "common/span.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Header fields ---- */

bool message_is_token(const char *text)
{
    return text[0] != '\0' && text[strspn(text, MESSAGE_TOKEN_CHARACTERS)] == '\0';
}

bool message_is_value(const char *text)
{
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text) && *text != '\t')
            return false;
    return true;
}

/*
 * "NAME: VALUE" of any length. libcurl omits a field "Name:" without a value; "Name;" sends it
 * empty.
 */
static bool append_pair(struct curl_slist **list, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char *field = malloc(size);
    bool good = field != NULL;

    if (good) {
        snprintf(field, size, "%s%s%s", name, value[0] != '\0' ? ": " : ";", value);
        good = string_list_append(list, field);
    }
    free(field);
    return good;
}

/* Appends FIELD, "Name: value". */
static bool append_header_field(struct curl_slist **list, const char *field)
{
    size_t name_length = strcspn(field, ":");
    char *name;
    bool good;

    if (field[name_length + 1 + strspn(field + name_length + 1, " \t")] != '\0')
        return string_list_append(list, field);
    name = strndup(field, name_length);
    good = name != NULL && append_pair(list, name, "");
    free(name);
    return good;
}

/* Whether FIELD, "Name: value", has the name NAME of that length. */
static bool is_named(const char *field, const char *name, size_t length)
{
    return strncasecmp(field, name, length) == 0 && field[length] == ':';
}

bool message_closes(const char *field)
{
    const char *at = field + strlen("Connection");

    if (!is_named(field, "Connection", strlen("Connection")))
        return false;
    while (*at != '\0') {
        struct span option;

        at += strspn(at, ":, \t");
        option = (struct span){at, strcspn(at, ",")};
        if (span_is_nocase(span_trim(option), SPAN("close")))
            return true;
        at += option.length;
    }
    return false;
}

/* Fields with variables are among the request's own. */
static bool plan_has_field(const struct plan *plan, const char *name, size_t length)
{
    for (size_t i = 0; i < plan->header_count; i++)
        if (is_named(plan->headers[i], name, length) && !template_is_used(plan, plan->headers[i]))
            return true;
    return false;
}

static bool has_field(const struct plan *plan, const struct request *request, const char *name)
{
    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        if (is_named(field->data, name, strlen(name)))
            return true;
    return plan_has_field(plan, name, strlen(name));
}

/* Whether an option of the plan replaces a request's own FIELD. */
static bool is_replaced_by_plan(const struct plan *plan, const char *field)
{
    return plan_has_field(plan, field, strcspn(field, ":")) ||
           (plan->cookies && is_named(field, "Cookie", strlen("Cookie"))) ||
           (plan->user != NULL && is_named(field, "Authorization", strlen("Authorization"))) ||
           (plan->gzip && is_named(field, "Accept-Encoding", strlen("Accept-Encoding"))) ||
           (plan->range != NULL && is_named(field, "Range", strlen("Range")));
}

/* Base64 of RFC 4648 section 4; the caller frees. */
static char *encode_base64(const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text);
    char *out = malloc(4 * ((length + 2) / 3) + 1), *at = out;

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = (uint32_t)(unsigned char)text[i] << 16;

        if (i + 1 < length)
            bits |= (uint32_t)(unsigned char)text[i + 1] << 8;
        if (i + 2 < length)
            bits |= (unsigned char)text[i + 2];
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = i + 1 < length ? digits[bits >> 6 & 63] : '=';
        *at++ = i + 2 < length ? digits[bits & 63] : '=';
    }
    *at = '\0';
    return out;
}

/* RFC 7617. */
static bool append_authorization(struct curl_slist **list, const char *user)
{
    char *encoded = encode_base64(user), *value = NULL;
    size_t size = encoded != NULL ? strlen(encoded) + sizeof("Basic ") : 0;
    bool good = encoded != NULL && (value = malloc(size)) != NULL;

    if (good) {
        snprintf(value, size, "Basic %s", encoded);
        good = append_pair(list, "Authorization", value);
    }
    free(encoded);
    free(value);
    return good;
}

/* Adds a Connection field only if the default of the HTTP version differs from the plan. */
static bool append_connection(const struct plan *plan, const struct request *request,
                              struct curl_slist **list)
{
    if (has_field(plan, request, "Connection") || plan->http == PLAN_HTTP_2)
        return true;
    if (!plan->keepalive)
        return append_pair(list, "Connection", "close");
    return plan->http != PLAN_HTTP_1_0 || append_pair(list, "Connection", "keep-alive");
}

/* Methods that usually have a body need Content-Length: 0 without one (RFC 9110 section 8.6). */
static bool wants_length(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

static enum request_body_kind body_kind(const struct request *request)
{
    if (request->body != NULL)
        return REQUEST_BODY_GIVEN;
    return wants_length(request->method) ? REQUEST_BODY_EMPTY : REQUEST_BODY_NONE;
}

/* Without "Expect:" libcurl waits for "100 Continue" before it sends a large body. */
static bool append_body_fields(const struct plan *plan, const struct request *request,
                               struct curl_slist **list)
{
    if (request->body == NULL)
        return !wants_length(request->method) || append_pair(list, "Content-Length", "0");
    return (has_field(plan, request, "Content-Type") ||
            append_pair(list, "Content-Type", "application/x-www-form-urlencoded")) &&
           string_list_append(list, "Expect:");
}

/* A part of TARGET's URL, or NULL. Release with curl_free(). */
static char *target_part(const struct target *target, CURLUPart which)
{
    char *text = NULL;

    return curl_url_get(target->url, which, &text, 0) == CURLUE_OK ? text : NULL;
}

/*
 * With the port unless it is the default of the scheme. The empty field before it keeps libcurl from
 * formatting one of its own for each request.
 */
static bool append_host(const struct plan *plan, const struct request *request,
                        struct curl_slist **list)
{
    const struct target *target = &request->target;
    bool is_default = target->port == (target->tls ? 443 : 80), good;
    char *host, *field = NULL;

    if (!string_list_append(list, "Host:"))
        return false;
    if (has_field(plan, request, "Host"))
        return true;
    host = target_part(target, CURLUPART_HOST);
    good = host != NULL &&
           asprintf(&field, is_default ? "Host: %s" : "Host: %s:%u", host, target->port) > 0;
    good = good && string_list_append(list, field);
    curl_free(host);
    free(field);
    return good;
}

static bool make_header_fields(const struct plan *plan, const struct request *request,
                               struct curl_slist **list)
{
    char range[128] = "";
    bool good =
        append_host(plan, request, list) &&
        (has_field(plan, request, "User-Agent") || append_pair(list, "User-Agent", USER_AGENT)) &&
        (has_field(plan, request, "Accept") || append_pair(list, "Accept", "*/*"));

    for (const struct curl_slist *field = request->own_fields; good && field; field = field->next)
        good = is_replaced_by_plan(plan, field->data) || append_header_field(list, field->data);
    for (size_t i = 0; good && i < plan->header_count; i++)
        good =
            template_is_used(plan, plan->headers[i]) || append_header_field(list, plan->headers[i]);
    if (plan->range != NULL)
        snprintf(range, sizeof(range), "bytes=%s", plan->range);
    return good && append_connection(plan, request, list) &&
           (!plan->gzip || append_pair(list, "Accept-Encoding", "gzip")) &&
           (plan->range == NULL || append_pair(list, "Range", range)) &&
           (plan->user == NULL || append_authorization(list, plan->user)) &&
           append_body_fields(plan, request, list);
}

static void find_close(const struct plan *plan, struct request *request)
{
    request->closes = !plan->keepalive;
    if (plan->http == PLAN_HTTP_2) /* its requests have no field Connection */
        return;
    for (const struct curl_slist *field = request->own_fields; field; field = field->next)
        request->closes = request->closes ||
                          (message_closes(field->data) && !is_replaced_by_plan(plan, field->data));
}

/* Sets the fields of REQUEST; false if out of memory. */
static bool set_fields(struct request_plan *request_plan, struct request *request)
{
    struct request *first = &request_plan->requests[request->origin];
    struct curl_slist **shared = &first->shared_fields[body_kind(request)];

    if (request->own_fields != NULL)
        return make_header_fields(request_plan->plan, request, &request->fields);
    if (*shared == NULL && !make_header_fields(request_plan->plan, request, shared))
        return false;
    request->fields = *shared;
    return true;
}

/* ---- Messages ---- */

static void put_request_line(FILE *out, const struct plan *plan, const char *method,
                             const struct target *target)
{
    char *path = target_part(target, CURLUPART_PATH), *query = target_part(target, CURLUPART_QUERY);

    fprintf(out, "%s %s%s%s HTTP/1.%c\r\n", method, path != NULL ? path : "/",
            query != NULL ? "?" : "", query != NULL ? query : "",
            plan->http == PLAN_HTTP_1_0 ? '0' : '1');
    curl_free(path);
    curl_free(query);
}

/*
 * A field in libcurl's form: "Name: value", "Name;" without a value, or "Name:", which is not sent.
 */
static void put_field(FILE *out, const char *field)
{
    size_t name_length = strcspn(field, ":;");

    if (field[name_length] == ';')
        fprintf(out, "%.*s:\r\n", (int)name_length, field);
    else if (field[name_length + 1] != '\0')
        fprintf(out, "%s\r\n", field);
}

/* Sets the message of REQUEST; false if out of memory. */
static bool make_message(const struct plan *plan, struct request *request)
{
    FILE *out = open_memstream(&request->message, &request->message_length);

    if (out == NULL)
        return false;
    find_close(plan, request);
    put_request_line(out, plan, request->method, &request->target);
    for (const struct curl_slist *field = request->fields; field; field = field->next)
        put_field(out, field->data);
    if (request->body != NULL)
        fprintf(out, "Content-Length: %zu\r\n", request->body_length);
    fputs("\r\n", out);
    if (request->body != NULL)
        fwrite(request->body, 1, request->body_length, out);
    return fclose(out) == 0;
}

bool message_make(const struct plan *plan, struct request *request)
{
    request->owns_fields = true;
    return make_header_fields(plan, request, &request->fields) && make_message(plan, request);
}

bool message_make_all(struct request_plan *request_plan)
{
    for (size_t i = 0; i < request_plan->count; i++)
        if (!set_fields(request_plan, &request_plan->requests[i]) ||
            !make_message(request_plan->plan, &request_plan->requests[i]))
            return false;
    return true;
}
