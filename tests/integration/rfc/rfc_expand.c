/* Replaces "{etag /path}" in the bytes of a request by the entity tag of that file. */
#include "../http_client.h"
#include "rfc.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests "/path", or "/path coding". */
static void request_etag(const struct server *server, const char *what, int length, char *etag,
                         size_t size)
{
    struct http_response response;
    char request[512], path[128], coding[32] = "identity";

    snprintf(request, sizeof(request), "%.*s", length, what);
    assert_in_range(sscanf(request, "%127s %31s", path, coding), 1, 2);
    snprintf(request, sizeof(request), REQUEST("GET %s", "Accept-Encoding: %s\r\n"), path, coding);
    http_request(server_port(server), request, &response);
    assert_int_equal(response.status, 200);
    assert_non_null(http_field(&response, "ETag"));
    snprintf(etag, size, "%s", http_field(&response, "ETag"));
    http_response_free(&response);
}

uint64_t rfc_expand(const struct server *server, struct span bytes, struct span *expanded)
{
    static const struct span mark = {"{etag ", 6};
    const char *at = bytes.start, *end = bytes.start + bytes.length, *found;
    size_t room = bytes.length + 1024, used = 0;
    char *text = malloc(room);
    uint64_t responses = 0;

    assert_non_null(text);
    while ((found = memmem(at, (size_t)(end - at), mark.start, mark.length)) != NULL) {
        const char *close = memchr(found, '}', (size_t)(end - found));
        char etag[128];

        assert_non_null(close);
        request_etag(server, found + mark.length, (int)(close - found - (int)mark.length), etag,
                     sizeof(etag));
        responses++;
        assert_true(used + (size_t)(found - at) + strlen(etag) < room);
        memcpy(text + used, at, (size_t)(found - at));
        used += (size_t)(found - at);
        memcpy(text + used, etag, strlen(etag));
        used += strlen(etag);
        at = close + 1;
    }
    assert_true(used + (size_t)(end - at) <= room);
    memcpy(text + used, at, (size_t)(end - at));
    *expanded = (struct span){text, used + (size_t)(end - at)};
    return responses;
}
