#include "loadgen/plan/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool append(struct curl_slist **list, const char *field)
{
    struct curl_slist *longer = curl_slist_append(*list, field);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* "NAME: VALUE" of any length. */
static bool append_pair(struct curl_slist **list, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char *field = malloc(size);
    bool good = field != NULL;

    if (good) {
        snprintf(field, size, "%s: %s", name, value);
        good = append(list, field);
    }
    free(field);
    return good;
}

static bool has_field(const struct plan *plan, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < plan->header_count; i++)
        if (strncasecmp(plan->headers[i], name, length) == 0 && plan->headers[i][length] == ':')
            return true;
    return false;
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

static bool append_range(struct curl_slist **list, const char *range)
{
    char value[128];

    snprintf(value, sizeof(value), "bytes=%s", range);
    return append_pair(list, "Range", value);
}

/* How the connection is to go on, where that is not what HTTP/1.1 does anyway. */
static bool append_connection(const struct plan *plan, struct curl_slist **list)
{
    if (has_field(plan, "Connection") || plan->http == PLAN_HTTP_2)
        return true;
    if (!plan->keepalive)
        return append_pair(list, "Connection", "close");
    return plan->http != PLAN_HTTP_1_0 || append_pair(list, "Connection", "keep-alive");
}

/* Methods whose requests usually carry a body say that there is none (RFC 9110 section 8.6). */
static bool wants_length(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

static bool append_about_body(const struct plan *plan, const struct fields_body *body,
                              struct curl_slist **list)
{
    if (body->bytes == NULL)
        return !wants_length(plan->method) || append_pair(list, "Content-Length", "0");
    return has_field(plan, "Content-Type") ||
           append_pair(list, "Content-Type", "application/x-www-form-urlencoded");
}

bool fields_list(const struct plan *plan, const struct fields_body *body, struct curl_slist **list)
{
    bool good = true;

    *list = NULL;
    for (size_t i = 0; good && i < plan->header_count; i++)
        good = append(list, plan->headers[i]);
    return good && append_connection(plan, list) &&
           (!plan->gzip || append_pair(list, "Accept-Encoding", "gzip")) &&
           (plan->range == NULL || append_range(list, plan->range)) &&
           (plan->user == NULL || append_authorization(list, plan->user)) &&
           append_about_body(plan, body, list);
}

/* ---- The message ---- */

/* A part of TARGET's URL; curl_free() it. */
static char *part(const struct target *target, CURLUPart which)
{
    char *text = NULL;

    return curl_url_get(target->url, which, &text, 0) == CURLUE_OK ? text : NULL;
}

static void put_request_line(FILE *out, const struct plan *plan, const char *method,
                             const struct target *target)
{
    char *path = part(target, CURLUPART_PATH), *query = part(target, CURLUPART_QUERY);

    fprintf(out, "%s %s%s%s HTTP/1.%c\r\n", method, path != NULL ? path : "/",
            query != NULL ? "?" : "", query != NULL ? query : "",
            plan->http == PLAN_HTTP_1_0 ? '0' : '1');
    curl_free(path);
    curl_free(query);
}

/* The port is named where it is not the scheme's own. */
static void put_host(FILE *out, const struct target *target)
{
    char *host = part(target, CURLUPART_HOST);
    bool usual = target->port == (target->tls ? 443 : 80);

    fprintf(out, "Host: %s", host != NULL ? host : "");
    if (!usual)
        fprintf(out, ":%u", target->port);
    fputs("\r\n", out);
    curl_free(host);
}

char *fields_message(const struct plan *plan, const char *method, const struct target *target,
                     const struct curl_slist *list, const struct fields_body *body, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);

    if (out == NULL)
        return NULL;
    put_request_line(out, plan, method, target);
    if (!has_field(plan, "Host"))
        put_host(out, target);
    if (!has_field(plan, "User-Agent"))
        fputs("User-Agent: " FIELDS_USER_AGENT "\r\n", out);
    if (!has_field(plan, "Accept"))
        fputs("Accept: */*\r\n", out);
    for (; list != NULL; list = list->next)
        fprintf(out, "%s\r\n", list->data);
    if (body->bytes != NULL)
        fprintf(out, "Content-Length: %zu\r\n", body->length);
    fputs("\r\n", out);
    if (body->bytes != NULL)
        fwrite(body->bytes, 1, body->length, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
