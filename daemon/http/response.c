#include "daemon/http/response.h"

#include "common/macros.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static_assert(STATUS_OK == 200, "STATUS_OK has index 0");

static const char *const connection_fields[PERSIST_COUNT] = {"", "Connection: keep-alive\r\n",
                                                             "Connection: close\r\n"};

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

static size_t write_prefix(char *buffer, int status, const char *server, const char *date,
                           enum persistence persistence)
{
    bool nameless = server != NULL && server[0] == '\0';
    int length = snprintf(
        buffer, RESPONSE_PREFIX_MAX, "HTTP/1.1 %d %s\r\n%s%s%sDate: %.*s\r\n%s", status,
        response_reason(status), nameless ? "" : "Server: ", server != NULL ? server : "webserverd",
        nameless ? "" : "\r\n", HTTP_DATE_BYTES, date, connection_fields[persistence]);

    return (size_t)length;
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
                    int status, enum persistence persistence)
{
    prefix->second = prefixes->second;
    prefix->length =
        write_prefix(prefix->text, status, prefixes->server, prefixes->date, persistence);
}

size_t response_prefix(struct response_prefixes *prefixes, int status, enum persistence persistence,
                       char *buffer)
{
    unsigned index = LIKELY(status == STATUS_OK) ? 0 : index_of(status);
    struct response_prefix *prefix;

    if (UNLIKELY(index == STATUS_COUNT))
        return write_prefix(buffer, status, prefixes->server, prefixes->date, persistence);
    prefix = &prefixes->prepared[index][persistence];
    if (UNLIKELY(prefix->second != prefixes->second))
        prepare(prefixes, prefix, status, persistence);
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
