#include "daemon/response.h"

#include "daemon/http_date.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

void response_prefixes_update(struct response_prefixes *prefixes, int64_t second)
{
    char date[HTTP_DATE_BYTES];

    if (second == prefixes->second)
        return;
    prefixes->second = second;
    http_date_write(second, date);
    for (int i = 0; i < PERSIST_COUNT; i++)
        prefixes->length[i] =
            write_prefix(prefixes->text[i], 200, prefixes->server, date, (enum persistence)i);
}

size_t response_prefix(const struct response_prefixes *prefixes, int status,
                       enum persistence persistence, char *buffer)
{
    char date[HTTP_DATE_BYTES];

    if (status == 200) {
        memcpy(buffer, prefixes->text[persistence], prefixes->length[persistence]);
        return prefixes->length[persistence];
    }
    http_date_write(prefixes->second, date);
    return write_prefix(buffer, status, prefixes->server, date, persistence);
}

size_t response_error_page(int status, char *buffer)
{
    const char *reason = response_reason(status);
    int length = snprintf(buffer, RESPONSE_BODY_MAX,
                          "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
                          "<title>%d %s</title></head>\n<body><h1>%d %s</h1></body>\n</html>\n",
                          status, reason, status, reason);

    return (size_t)length;
}
