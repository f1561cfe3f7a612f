#include "loadgen/plan/prepare.h"

#include "loadgen/plan/request_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { BODY_STEP = 64 * 1024 };

static int fail(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* ---- Header fields ---- */

bool string_list_append(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

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
        good = string_list_append(list, field);
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

/* Adds a Connection field only if the default of the HTTP version differs from the plan. */
static bool append_connection(const struct plan *plan, struct curl_slist **list)
{
    if (has_field(plan, "Connection") || plan->http == PLAN_HTTP_2)
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

static bool append_body_fields(const struct request_plan *request_plan, struct curl_slist **list)
{
    if (request_plan->body == NULL)
        return !wants_length(request_plan->plan->method) ||
               append_pair(list, "Content-Length", "0");
    return has_field(request_plan->plan, "Content-Type") ||
           append_pair(list, "Content-Type", "application/x-www-form-urlencoded");
}

/* All fields but Host, User-Agent, Accept and the length of a body. */
static bool make_headers(struct request_plan *request_plan)
{
    const struct plan *plan = request_plan->plan;
    struct curl_slist **list = &request_plan->headers;
    bool good = true;

    for (size_t i = 0; good && i < plan->header_count; i++)
        good = string_list_append(list, plan->headers[i]);
    return good && append_connection(plan, list) &&
           (!plan->gzip || append_pair(list, "Accept-Encoding", "gzip")) &&
           (plan->range == NULL || append_range(list, plan->range)) &&
           (plan->user == NULL || append_authorization(list, plan->user)) &&
           append_body_fields(request_plan, list);
}

/* ---- Messages ---- */

/* A part of TARGET's URL, or NULL. Release with curl_free(). */
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

/* With the port unless it is the default of the scheme. */
static void put_host(FILE *out, const struct target *target)
{
    char *host = part(target, CURLUPART_HOST);
    bool is_default = target->port == (target->tls ? 443 : 80);

    fprintf(out, "Host: %s", host != NULL ? host : "");
    if (!is_default)
        fprintf(out, ":%u", target->port);
    fputs("\r\n", out);
    curl_free(host);
}

/* Sets the message of REQUEST; false if out of memory. */
static bool make_message(const struct request_plan *request_plan, struct request *request)
{
    const struct plan *plan = request_plan->plan;
    FILE *out = open_memstream(&request->message, &request->message_length);

    if (out == NULL)
        return false;
    put_request_line(out, plan, request->method, &request->target);
    if (!has_field(plan, "Host"))
        put_host(out, &request->target);
    if (!has_field(plan, "User-Agent"))
        fputs("User-Agent: " USER_AGENT "\r\n", out);
    if (!has_field(plan, "Accept"))
        fputs("Accept: */*\r\n", out);
    for (const struct curl_slist *field = request_plan->headers; field; field = field->next)
        fprintf(out, "%s\r\n", field->data);
    if (request_plan->body != NULL)
        fprintf(out, "Content-Length: %zu\r\n", request_plan->body_length);
    fputs("\r\n", out);
    if (request_plan->body != NULL)
        fwrite(request_plan->body, 1, request_plan->body_length, out);
    return fclose(out) == 0;
}

/* ---- Requests ---- */

/* Reads all of FILE. Returns false with errno. */
static bool read_all(FILE *file, char **text, size_t *length)
{
    size_t capacity = 0;

    do {
        char *grown = realloc(*text, capacity + BODY_STEP);

        if (grown == NULL)
            return false;
        *text = grown;
        capacity += BODY_STEP;
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (*length == capacity);
    return ferror(file) == 0;
}

static int read_body_file(struct request_plan *request_plan, const char *name, char *why,
                          size_t size)
{
    FILE *file = fopen(name, "re");
    bool good = file != NULL && read_all(file, &request_plan->body, &request_plan->body_length);

    if (!good)
        snprintf(why, size, "cannot read body file '%s': %s", name, strerror(errno));
    if (file != NULL)
        fclose(file);
    return good ? 0 : -1;
}

static int read_body(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->body_file != NULL)
        return read_body_file(request_plan, plan->body_file, why, size);
    if (plan->body == NULL)
        return 0;
    request_plan->body = strdup(plan->body);
    request_plan->body_length = strlen(plan->body);
    return request_plan->body != NULL ? 0 : fail(why, size, "out of memory");
}

/* If there is a file, the URL of the command line is only the base of the paths in the file. */
static int add_urls(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    const char *file = plan->replay_file != NULL ? plan->replay_file : plan->urls_file;

    for (size_t i = 0; i < plan->url_count; i++)
        if (request_plan_add(request_plan, NULL, plan->urls[i], (struct request_entry){0}, why,
                             size) != 0)
            return -1;
    if (file == NULL)
        return 0;
    request_plan->entry_count = 0;
    if (request_file_read(request_plan, file, plan->replay_file != NULL, why, size) != 0)
        return -1;
    if (request_plan->entry_count > 0)
        return 0;
    snprintf(why, size, "'%s' contains no valid request", file);
    return -1;
}

/* The origin of a request: the number of the first request with the same scheme, host and port. */
static uint32_t origin_of(const struct request_plan *request_plan, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (request_plan->requests[i].origin == i &&
            target_same_origin(&request_plan->requests[i].target,
                               &request_plan->requests[number].target))
            return i;
    return number;
}

static int make_messages(struct request_plan *request_plan, char *why, size_t size)
{
    if (!make_headers(request_plan))
        return fail(why, size, "out of memory");
    for (uint32_t i = 0; i < request_plan->count; i++) {
        request_plan->requests[i].origin = origin_of(request_plan, i);
        if (!make_message(request_plan, &request_plan->requests[i]))
            return fail(why, size, "out of memory");
    }
    return 0;
}

static int make_connect_to(struct request_plan *request_plan, char *why, size_t size)
{
    for (size_t i = 0; i < request_plan->plan->connect_to_count; i++)
        if (!string_list_append(&request_plan->connect_to, request_plan->plan->connect_to[i]))
            return fail(why, size, "out of memory");
    return 0;
}

/* Checks a file before the run: libcurl would report the error once per connection. */
static int check_readable(const char *option, const char *file, char *why, size_t size)
{
    if (file == NULL || access(file, R_OK) == 0)
        return 0;
    snprintf(why, size, "%s: cannot read '%s': %s", option, file, strerror(errno));
    return -1;
}

/*
 * libcurl 7.88 sends the HTTP/2 preface again when it reuses a connection without TLS, which the server
 * closes (https://github.com/curl/curl/pull/10643).
 */
static int check_http2(const struct request_plan *request_plan, char *why, size_t size)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    bool broken = libcurl->version_num >= 0x075800 && libcurl->version_num < 0x080000;

    if (!broken || request_plan->plan->http != PLAN_HTTP_2 || !request_plan->plan->keepalive ||
        request_plan->requests[0].target.tls || request_plan->plan->engine == PLAN_ENGINE_RAW)
        return 0;
    snprintf(why, size,
             "--http2: libcurl %s cannot reuse HTTP/2 connections without TLS; use --engine raw, "
             "https:// or --no-keepalive",
             libcurl->version);
    return -1;
}

/* The raw engine multiplexes requests to one origin: each of its HTTP/2 connections has one. */
static int check_origins(const struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->http != PLAN_HTTP_2 || plan->engine != PLAN_ENGINE_RAW ||
        request_plan_count_origins(request_plan) <= 1)
        return 0;
    return fail(why, size,
                "--http2 with --engine raw sends to one server only: its connections do not "
                "change their server; use --engine curl");
}

int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size)
{
    *request_plan = (struct request_plan){.plan = plan};
    if (check_readable("--cacert", plan->ca_file, why, size) != 0 ||
        check_readable("--cert", plan->certificate, why, size) != 0 ||
        check_readable("--key", plan->key, why, size) != 0 ||
        read_body(request_plan, why, size) != 0 || add_urls(request_plan, why, size) != 0 ||
        check_http2(request_plan, why, size) != 0 || make_messages(request_plan, why, size) != 0 ||
        check_origins(request_plan, why, size) != 0)
        return -1;
    return make_connect_to(request_plan, why, size);
}

int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size)
{
    if (request_plan->plan->unix_socket != NULL || request_plan->plan->proxy != NULL)
        return 0;
    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *request = &request_plan->requests[i];

        if (request->origin == i && request_plan->plan->connect_to_count == 0 &&
            target_resolve(&request->target, request_plan->plan->family, why, size) != 0)
            return -1;
        request->addresses = request_plan->requests[request->origin].target.addresses;
    }
    return 0;
}
