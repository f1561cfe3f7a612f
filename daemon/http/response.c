#include "daemon/http/response.h"

#include "common/macros.h"
#include "daemon/http/hpack.h"

#include <assert.h>
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

/* Writes Server, unless it is empty, and Date; returns the number of bytes. */
static size_t write_lines(const struct response_prefixes *prefixes, char *buffer)
{
    const char *server = prefixes->server != NULL ? prefixes->server : "webserverd";
    bool nameless = server[0] == '\0';

    return (size_t)snprintf(buffer, RESPONSE_PREFIX_MAX, "%s%s%sDate: %.*s\r\n",
                            nameless ? "" : "Server: ", server, nameless ? "" : "\r\n",
                            HTTP_DATE_BYTES, prefixes->date);
}

static size_t write_prefix(const struct response_prefixes *prefixes, int status,
                           enum prefix_form form, char *buffer)
{
    char lines[RESPONSE_PREFIX_MAX];
    size_t length = write_lines(prefixes, lines);

    if (form == PREFIX_HPACK)
        return (size_t)(hpack_put_lines(hpack_put_status(buffer, status),
                                        (struct span){lines, length}) -
                        buffer);
    return (size_t)snprintf(buffer, RESPONSE_PREFIX_MAX, "HTTP/1.1 %d %s\r\n%.*s%s", status,
                            response_reason(status), (int)length, lines, connection_fields[form]);
}

/* The index of STATUS in the prepared prefixes; STATUS_COUNT if it is not in the list. */
static unsigned index_of(int status)
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

static void prepare(const struct response_prefixes *prefixes, struct response_prefix *prefix,
                    int status, enum prefix_form form)
{
    prefix->second = prefixes->second;
    prefix->length = write_prefix(prefixes, status, form, prefix->text);
}

size_t response_prefix(struct response_prefixes *prefixes, int status, enum prefix_form form,
                       char *buffer)
{
    unsigned index = LIKELY(status == STATUS_OK) ? 0 : index_of(status);
    struct response_prefix *prefix;

    if (UNLIKELY(index == STATUS_COUNT))
        return write_prefix(prefixes, status, form, buffer);
    prefix = &prefixes->prepared[index][form];
    if (UNLIKELY(prefix->second != prefixes->second))
        prepare(prefixes, prefix, status, form);
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
