/* The parser of HTTP/1 responses, with input in pieces of every size. */
#include "common/macros.h"
#include "loadgen/engine/response.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static char line[RESPONSE_LINE_MAX];
static char body[4096];
static size_t body_length;

static void keep_body(void *context, const char *bytes, size_t length)
{
    (void)context;
    assert_true(body_length + length < sizeof(body));
    memcpy(body + body_length, bytes, length);
    body_length += length;
}

static const struct {
    const char *text; /* a response and the bytes after it */
    bool head;        /* the response to a HEAD */
    size_t rest;      /* bytes after the response */
    uint16_t status;
    bool keep_alive;
    const char *body;
} good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 0, 200, true, "hello"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP", false, 4, 200, true, "hello"},
    {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", false, 0, 200, true, ""},
    {"HTTP/1.1 200 \n\nrest", true, 4, 200, true, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 0, 200, true, ""},
    {"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", false, 0, 204, true, ""},
    {"HTTP/1.1 304 Not\r\nTransfer-Encoding: chunked\r\n\r\n", false, 0, 304, true, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok", false, 0, 200, true,
     "ok"},
    {"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, CLOSE\r\nContent-Length: 0\r\n\r\n", false, 0, 200,
     false, ""},
    {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false, 0, 200, false, ""},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", false, 0, 200, true,
     ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false, 0, 200,
     true, "hello"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n"
     "00a;x=\"y\"\r\n0123456789\r\n1\r\n!\r\n000\r\nA: trailer\r\nB: c\r\n\r\nX",
     false, 1, 200, true, "0123456789!"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n0\r\n\r\n", false,
     0, 200, true, ""},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: <a>\r\n\r\n"
     "HTTP/1.1 500 Oh\r\nContent-Length: 1\r\n\r\nx",
     false, 0, 500, true, "x"},
    {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\nx", false, 0, 200, true, "x"},
    {"HTTP/1.1 200 \xc3\xa4\r\nX: \xff\t.\r\nContent-Length: 0\r\n\r\n", false, 0, 200, true, ""},
};

/* Feeds TEXT in pieces of SIZE bytes and checks *used for each result. */
static enum response_result feed(struct response *response, const char *text, size_t size,
                                 size_t *used_total)
{
    size_t length = strlen(text);

    *used_total = 0;
    for (size_t at = 0; at < length; at += size) {
        size_t piece = length - at < size ? length - at : size, used;
        char *copy = malloc(piece); /* sanitizers find reads past its end */
        enum response_result result;

        assert_non_null(copy);
        memcpy(copy, text + at, piece);
        result = response_feed(response, copy, piece, &used);
        free(copy);
        *used_total += used;
        if (result != RESPONSE_MORE)
            return result;
        assert_int_equal(used, piece);
    }
    return RESPONSE_MORE;
}

static void begin(struct response *response, bool head)
{
    *response = (struct response){.line = line, .on_body = keep_body};
    body_length = 0;
    response_begin(response, head);
}

TEST(valid_response_is_parsed_in_any_pieces)
{
    struct response response;

    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        for (size_t size = 1; size <= strlen(good[i].text); size++) {
            size_t used;

            begin(&response, good[i].head);
            if (feed(&response, good[i].text, size, &used) != RESPONSE_DONE)
                fail_msg("%zu in pieces of %zu: %s", i, size, response.why);
            assert_int_equal(used, strlen(good[i].text) - good[i].rest);
            assert_int_equal(response.status, good[i].status);
            assert_int_equal(response.keep_alive, good[i].keep_alive);
            assert_int_equal(response.body_bytes, strlen(good[i].body));
            assert_int_equal(body_length, strlen(good[i].body));
            assert_memory_equal(body, good[i].body, body_length);
        }
}

TEST(response_without_length_ends_with_connection)
{
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\n\r\nall of it",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 3\r\n\r\nall of it",
    };

    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct response response;
        size_t used;

        begin(&response, false);
        assert_int_equal(feed(&response, texts[i], 3, &used), RESPONSE_MORE);
        assert_int_equal(response_end(&response), RESPONSE_DONE);
        assert_int_equal(response.body_bytes, 9);
        assert_false(response.keep_alive);
    }
}

TEST(truncated_response_is_rejected)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    for (size_t length = 0; length < sizeof(text) - 1; length++) {
        struct response response;
        size_t used;

        begin(&response, false);
        assert_int_equal(response_feed(&response, text, length, &used), RESPONSE_MORE);
        assert_int_equal(response_end(&response), RESPONSE_BAD);
    }
}

static const struct {
    const char *text, *why;
} bad[] = {
    {"220 this is a mail server\r\n", "invalid HTTP/1 status line"},
    {"HTTP/2 200 OK\r\n", "invalid HTTP/1 status line"},
    {"HTTP/1.1 20 OK\r\n", "invalid HTTP/1 status line"},
    {"HTTP/1.1 099 OK\r\n", "invalid HTTP/1 status line"},
    {"HTTP/1.1 2000\r\n", "invalid HTTP/1 status line"},
    {"HTTP/1.1  200 OK\r\n", "invalid HTTP/1 status line"},
    {"\r\nHTTP/1.1 200 OK\r\n", "invalid HTTP/1 status line"},
    {"HTTP/1.1 101 Switching\r\n\r\n", "unsolicited 101 Switching Protocols"},
    {"HTTP/1.1 200 OK\r\nno colon\r\n", "invalid header field"},
    {"HTTP/1.1 200 OK\r\nName : x\r\n", "invalid header field"},
    {"HTTP/1.1 200 OK\r\n: x\r\n", "invalid header field"},
    {"HTTP/1.1 200 OK\r\nA: \x01\r\n", "control character in a header field"},
    {"HTTP/1.1 200 OK\r\nA: x\ry\r\n", "control character in a header field"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\n", "folded framing field"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n", "Content-Length is not a number"},
    {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n", "Content-Length is not a number"},
    {"HTTP/1.1 200 OK\r\nContent-Length:\r\n", "Content-Length is not a number"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
     "Content-Length is not a number"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
     "Content-Length values differ"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n", "transfer coding after chunked"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", "invalid chunk size"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "invalid chunk size"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 x\r\n", "invalid chunk size"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
     "chunk size too large"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
     "chunk longer than its size"},
};

TEST(malformed_response_is_rejected)
{
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        for (size_t size = 1; size <= strlen(bad[i].text); size++) {
            struct response response;
            size_t used;

            begin(&response, false);
            if (feed(&response, bad[i].text, size, &used) != RESPONSE_BAD ||
                strcmp(response.why, bad[i].why) != 0)
                fail_msg("%zu in pieces of %zu: %s", i, size,
                         response.why != NULL ? response.why : "accepted");
        }
}

TEST(oversized_line_or_head_is_rejected)
{
    static char text[RESPONSE_HEAD_MAX + 64];
    struct response response;
    size_t used, at;

    memset(text, 'x', sizeof(text));
    memcpy(text, "HTTP/1.1 200 ", 13);
    begin(&response, false);
    assert_int_equal(response_feed(&response, text, RESPONSE_LINE_MAX, &used), RESPONSE_MORE);
    assert_int_equal(response_feed(&response, text, 1, &used), RESPONSE_BAD);
    assert_string_equal(response.why, "line longer than 100 KiB, the limit of wsload");
    memcpy(text, "HTTP/1.1 200 OK\r\n", 17);
    for (at = 17; at + 1000 < sizeof(text); at += 1000) {
        memcpy(text + at, "A:", 2);
        text[at + 999] = '\n';
    }
    begin(&response, false);
    assert_int_equal(response_feed(&response, text, at, &used), RESPONSE_BAD);
    assert_string_equal(response.why, "head longer than 300 KiB, the limit of wsload");
}
