/* Runs a case over HTTP/2, if it is one that means the same there. */
#include "../http2_client.h"
#include "rfc.h"
#include "tests/test.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields that HTTP/2 has not, or that frame a body. */
static const char *const of_http1[] = {"connection", "keep-alive",       "transfer-encoding",
                                       "upgrade",    "proxy-connection", "te",
                                       "trailer",    "content-length",   "expect"};

static bool is_of_http1(const char *name)
{
    for (size_t i = 0; i < sizeof(of_http1) / sizeof(of_http1[0]); i++)
        if (strcmp(name, of_http1[i]) == 0)
            return true;
    return false;
}

/* Appends "name: value" of LINE, but Host. Returns false if HTTP/2 cannot have it. */
static bool add_field(char *request, size_t size, const char *line)
{
    const char *colon = strchr(line, ':'), *end = line + strlen(line);
    size_t used = strlen(request);
    char name[64] = "";

    if (colon == NULL || colon == line || (size_t)(colon - line) >= sizeof(name))
        return false;
    for (const char *at = line; at < colon; at++)
        name[at - line] = (char)tolower((unsigned char)*at);
    colon++;
    while (*colon == ' ' || *colon == '\t')
        colon++;
    while (end > colon && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (strcmp(name, "host") == 0)
        return end - colon == 1 && *colon == 'h';
    if (is_of_http1(name))
        return false;
    snprintf(request + used, size - used, "\n%s: %.*s", name, (int)(end - colon), colon);
    return true;
}

/* Translates the only request in BYTES. Returns false if it is not one, or HTTP/2 cannot have it. */
static bool translate(struct span bytes, char *request, size_t size)
{
    char *text = strndup(bytes.start, bytes.length), *rest = text, *line;
    bool good;

    assert_non_null(text);
    good = strlen(text) == bytes.length && bytes.length + 64 < size &&
           fnmatch("[A-Z]* /* HTTP/1.1\r\n*\r\n\r\n", text, 0) == 0 &&
           strstr(text, "\r\n\r\n") + 4 == text + bytes.length;
    if (good) {
        line = strsep(&rest, "\n");
        snprintf(request, size, "%.*s", (int)(strstr(line, " HTTP/1.1") - line), line);
        good = strchr(strchr(request, ' ') + 1, ' ') == NULL;
    }
    while (good && (line = strsep(&rest, "\n")) != NULL && strcmp(line, "\r") != 0) {
        line[strlen(line) - 1] = '\0';
        good = add_field(request, size, line);
    }
    free(text);
    return good;
}

void rfc_end(struct rfc_runner *runner)
{
    if (runner->last_stream != 0)
        http2_close(&runner->http2);
    runner->last_stream = 0;
}

uint64_t rfc_run_over_http2(struct rfc_runner *runner, const struct rfc_case *rfc_case)
{
    const struct rfc_response *expected = rfc_case->responses;
    struct http_response response;
    char request[8192];
    uint32_t stream;

    if (expected[0].status < 200 || expected[1].status != RFC_KEPT || expected[0].then != NULL ||
        !translate(rfc_case->bytes, request, sizeof(request)))
        return 0;
    if (runner->last_stream == 0)
        http2_open(&runner->http2, server_port(runner->server), NULL);
    stream = runner->last_stream == 0 ? 1 : runner->last_stream + 2;
    runner->last_stream = 0; /* a case that fails does not return; the next one connects again */
    http2_request(&runner->http2, stream, FRAME_END_STREAM, request);
    http2_receive(&runner->http2, stream, &response);
    rfc_check_one(&response, expected);
    rfc_check_any(&response, false);
    http_response_free(&response);
    http2_check(&runner->http2, stream + 2, "GET /probe", 200, "probe");
    runner->last_stream = stream + 2;
    if (!runner->over_tls)
        rfc_end(runner);
    return 2;
}
