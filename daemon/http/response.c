#include "daemon/http/response.h"

#include "common/macros.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static_assert(STATUS_OK == 200, "STATUS_OK has index 0");

static const char *const connection_fields[] = {
    [PREFIX_DEFAULT] = "",
    [PREFIX_KEEP_ALIVE] = "Connection: keep-alive\r\n",
    [PREFIX_CLOSE] = "Connection: close\r\n",
};

const char *response_reason(int status)
{
    switch (status) {
#define HTTP_STATUS(code, name, reason)                                                            \
    case code:                                                                                     \
        return reason;
#include "common/http_status.def"
#undef HTTP_STATUS
    default:
        return "Unknown";
    }
}

bool response_is_of_request(int status)
{
    return status >= 400 && status != STATUS_FORBIDDEN && status != STATUS_NOT_FOUND &&
           status != STATUS_GONE && status != STATUS_METHOD_NOT_ALLOWED &&
           status != STATUS_NOT_ACCEPTABLE;
}

static size_t write_prefix(const struct response_prefixes *prefixes, int status,
                           enum prefix_form form, char *buffer)
{
    const char *server = prefixes->server != NULL ? prefixes->server : "webserverd";
    bool nameless = server[0] == '\0';
    char lines[RESPONSE_PREFIX_MAX];
    size_t length = (size_t)snprintf(lines, sizeof(lines), "%s%s%sDate: %.*s\r\n",
                                     nameless ? "" : "Server: ", server, nameless ? "" : "\r\n",
                                     HTTP_DATE_BYTES, prefixes->date);

    if (form == PREFIX_HPACK)
        return (size_t)(hpack_put_lines(hpack_put_status(buffer, status),
                                        (struct span){lines, length}) -
                        buffer);
    return (size_t)snprintf(buffer, RESPONSE_PREFIX_MAX, "HTTP/1.1 %d %s\r\n%.*s%s", status,
                            response_reason(status), (int)length, lines, connection_fields[form]);
}

/* The index of STATUS in the prepared prefixes; STATUS_COUNT if it is not in the list. */
static unsigned prefix_index(int status)
{
    enum {
#define HTTP_STATUS(code, name, reason) INDEX_##name,
#include "common/http_status.def"
#undef HTTP_STATUS
    };

    switch (status) {
#define HTTP_STATUS(code, name, reason)                                                            \
    case code:                                                                                     \
        return INDEX_##name;
#include "common/http_status.def"
#undef HTTP_STATUS
    default:
        return STATUS_COUNT;
    }
}

void response_prefixes_update(struct response_prefixes *prefixes, int64_t second)
{
    if (second == prefixes->second)
        return;
    prefixes->second = second;
    http_date_write(second, prefixes->date);
}

size_t response_prefix(struct response_prefixes *prefixes, int status, enum prefix_form form,
                       char *buffer)
{
    unsigned index = LIKELY(status == STATUS_OK) ? 0 : prefix_index(status);
    struct response_prefix *prefix;

    if (UNLIKELY(index == STATUS_COUNT))
        return write_prefix(prefixes, status, form, buffer);
    prefix = &prefixes->prepared[index][form];
    if (UNLIKELY(prefix->second != prefixes->second)) {
        prefix->second = prefixes->second;
        prefix->length = write_prefix(prefixes, status, form, prefix->text);
    }
    memcpy(buffer, prefix->text, prefix->length);
    return prefix->length;
}

#define ERROR_PAGE(status)                                                                         \
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"                          \
    "<meta name=\"viewport\" content=\"width=device-width\">"                                      \
    "<meta name=\"color-scheme\" content=\"light dark\"><title>" status                            \
    "</title></head>\n<body><h1>" status "</h1></body>\n</html>\n"

struct span response_error_page(int status)
{
    switch (status) {
#define HTTP_STATUS(code, name, reason)                                                            \
    case code:                                                                                     \
        return SPAN(ERROR_PAGE(#code " " reason));
#include "common/http_status.def"
#undef HTTP_STATUS
    default:
        return SPAN(ERROR_PAGE("Error"));
    }
}

/* HPACK */

/* First bits of a representation (RFC 7541 section 6) and the largest number in the rest. */
enum { INDEXED = 0x80, LITERAL = 0x00, LITERAL_PREFIX = 15, STRING_PREFIX = 127 };

/* Indices in the static table (appendix A). */
enum { INDEX_STATUS_200 = 8, INDEX_FIRST_NAME = 15 };

/* The names of the static table from INDEX_FIRST_NAME on, those before are pseudo-header fields. */
static const struct span static_names[] = {
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    NAME("accept-charset"),
    NAME("accept-encoding"),
    NAME("accept-language"),
    NAME("accept-ranges"),
    NAME("accept"),
    NAME("access-control-allow-origin"),
    NAME("age"),
    NAME("allow"),
    NAME("authorization"),
    NAME("cache-control"),
    NAME("content-disposition"),
    NAME("content-encoding"),
    NAME("content-language"),
    NAME("content-length"),
    NAME("content-location"),
    NAME("content-range"),
    NAME("content-type"),
    NAME("cookie"),
    NAME("date"),
    NAME("etag"),
    NAME("expect"),
    NAME("expires"),
    NAME("from"),
    NAME("host"),
    NAME("if-match"),
    NAME("if-modified-since"),
    NAME("if-none-match"),
    NAME("if-range"),
    NAME("if-unmodified-since"),
    NAME("last-modified"),
    NAME("link"),
    NAME("location"),
    NAME("max-forwards"),
    NAME("proxy-authenticate"),
    NAME("proxy-authorization"),
    NAME("range"),
    NAME("referer"),
    NAME("refresh"),
    NAME("retry-after"),
    NAME("server"),
    NAME("set-cookie"),
    NAME("strict-transport-security"),
    NAME("transfer-encoding"),
    NAME("user-agent"),
    NAME("vary"),
    NAME("via"),
    NAME("www-authenticate"),
#undef NAME
};

/* An integer whose first byte holds BITS and, if they suffice, the number (section 5.1). */
static char *put_number(char *to, unsigned bits, unsigned prefix, size_t number)
{
    if (number < prefix) {
        *to++ = (char)(bits | number);
        return to;
    }
    *to++ = (char)(bits | prefix);
    for (number -= prefix; number >= 128; number /= 128)
        *to++ = (char)(number % 128 + 128);
    *to++ = (char)number;
    return to;
}

static char *put_string(char *to, struct span text)
{
    to = put_number(to, 0, STRING_PREFIX, text.length);
    memcpy(to, text.start, text.length);
    return to + text.length;
}

static char *put_name(char *to, struct span name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(static_names); i++)
        if (span_is_nocase(name, static_names[i]))
            return put_number(to, LITERAL, LITERAL_PREFIX, INDEX_FIRST_NAME + i);
    *to++ = LITERAL;
    to = put_number(to, 0, STRING_PREFIX, name.length);
    for (size_t i = 0; i < name.length; i++) {
        char byte = name.start[i];

        *to++ = (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte);
    }
    return to;
}

char *hpack_put_status(char *to, int status)
{
    static const int indexed[] = {200, 204, 206, 304, 400, 404, 500};
    char digits[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                      (char)('0' + status % 10)};

    for (size_t i = 0; i < ARRAY_LENGTH(indexed); i++)
        if (indexed[i] == status)
            return put_number(to, INDEXED, 127, INDEX_STATUS_200 + i);
    to = put_number(to, LITERAL, LITERAL_PREFIX, INDEX_STATUS_200);
    return put_string(to, (struct span){digits, sizeof(digits)});
}

char *hpack_put_lines(char *to, struct span lines)
{
    const char *at = lines.start, *end = at + lines.length;

    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *line_end = memchr(colon, '\r', (size_t)(end - colon));

        to = put_name(to, (struct span){at, (size_t)(colon - at)});
        to = put_string(to, (struct span){colon + 2, (size_t)(line_end - colon) - 2});
        at = line_end + 2;
    }
    return to;
}
