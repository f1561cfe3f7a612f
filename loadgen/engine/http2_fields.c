#include "loadgen/engine/http2_fields.h"

#include "common/macros.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void add_http2_field(struct http2_fields *fields, const char *name, const char *value,
                            size_t length)
{
    fields->field[fields->count++] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = length,
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
    };
}

static bool is_hop_by_hop(const char *name)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Adds the field in LINE, which it splits; the Host field as :authority. */
static void add_field_line(struct http2_fields *fields, char *line)
{
    char *value = strchr(line, ':');

    if (value == NULL)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    for (char *at = line; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    if (strcmp(line, "host") == 0)
        fields->field[3].value = (uint8_t *)value, fields->field[3].valuelen = strlen(value);
    else if (!is_hop_by_hop(line))
        add_http2_field(fields, line, value, strlen(value));
}

/* The end of a line in the head, which it cuts off; or NULL. */
static char *cut_line(char *line)
{
    char *end = strstr(line, "\r\n");

    if (end == NULL)
        return NULL;
    *end = '\0';
    return end + 2;
}

static void split(struct http2_fields *fields, const struct request *request)
{
    char *next = cut_line(fields->text), *target = strchr(fields->text, ' ');
    size_t method_length = target != NULL ? (size_t)(target - fields->text) : 0;

    if (next == NULL || target == NULL)
        return;
    target++;
    add_http2_field(fields, ":method", fields->text, method_length);
    add_http2_field(fields, ":scheme", request->target.tls ? "https" : "http",
                    request->target.tls ? 5 : 4);
    add_http2_field(fields, ":path", target, strcspn(target, " "));
    add_http2_field(fields, ":authority", "", 0);
    for (char *line = next; line[0] != '\0' && (next = cut_line(line)) != NULL; line = next)
        add_field_line(fields, line);
}

static size_t head_length(const struct request *request)
{
    const char *end = memmem(request->message, request->message_length, "\r\n\r\n", 4);

    return end != NULL ? (size_t)(end - request->message) + 2 : 0;
}

bool http2_fields_make(struct http2_fields *fields, const struct request *request)
{
    size_t length = head_length(request), lines = 0;

    fields->text = calloc(1, length + 1);
    if (fields->text == NULL)
        return false;
    memcpy(fields->text, request->message, length);
    for (size_t i = 0; i < length; i++)
        lines += fields->text[i] == '\n';
    fields->field = calloc(lines + 4, sizeof(*fields->field));
    if (fields->field == NULL)
        return false;
    split(fields, request);
    return true;
}

int32_t http2_fields_submit(const struct http2_fields *fields, const char *cookies,
                            nghttp2_session *session, const nghttp2_data_provider *body,
                            void *stream)
{
    nghttp2_nv *all;
    int32_t id;

    if (cookies == NULL)
        return nghttp2_submit_request(session, NULL, fields->field, fields->count, body, stream);
    all = malloc((fields->count + 1) * sizeof(*all));
    if (all == NULL)
        return NGHTTP2_ERR_NOMEM;
    memcpy(all, fields->field, fields->count * sizeof(*all));
    all[fields->count] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t) "cookie",
        .value = (uint8_t *)(uintptr_t)cookies,
        .namelen = strlen("cookie"),
        .valuelen = strlen(cookies),
    };
    id = nghttp2_submit_request(session, NULL, all, fields->count + 1, body, stream);
    free(all);
    return id;
}

void http2_fields_free(struct http2_fields *fields)
{
    free(fields->field);
    free(fields->text);
    *fields = (struct http2_fields){0};
}
