/*
 * The request parser, by tables: accepted heads and their requests, and the heads of all RFC cases.
 * Every head is parsed whole, byte by byte, and cut at every length. It ends right before an
 * unreadable page, so that reading too far crashes the test.
 */
#include "common/macros.h"
#include "daemon/http1/request_parser.h"
#include "tests/test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARDED_PAGES = 4 };

static const struct request_limits usual = {
    .line_bytes = 1024, .head_bytes = 4096, .field_count = 20};

static char *guard; /* the first unreadable byte */

static int set_up(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, (GUARDED_PAGES + 1) * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    if (pages == MAP_FAILED)
        return -1;
    guard = pages + GUARDED_PAGES * page;
    return mprotect(guard, page, PROT_NONE);
}

const struct test_fixture test_group_fixture = {set_up, NULL};

/* Copies BYTES so that they end before the guard. */
static const char *guarded(const char *bytes, size_t length)
{
    return memcpy(guard - length, bytes, length);
}

static int parse_once(const char *bytes, size_t length, const struct request_limits *limits,
                      struct request *request)
{
    size_t scanned = 0;

    memset(request, 0xa5, sizeof(*request)); /* the parser must overwrite everything */
    return request_parse(guarded(bytes, length), length, limits, &scanned, request);
}

/* Feeds the head byte by byte. Returns the first result that is not 0. */
static int parse_dripping(const char *bytes, size_t length, const struct request_limits *limits,
                          struct request *request)
{
    size_t scanned = 0;
    int result = 0;

    for (size_t i = 1; i <= length && result == 0; i++)
        result = request_parse(guarded(bytes, i), i, limits, &scanned, request);
    return result;
}

/* --- Accepted -----------------------------------------------------------------------------------
 */

enum {
    KEEP = 1 << 0,
    BODY = 1 << 1,
    CHUNKED = 1 << 2,
    EXPECT = 1 << 3,
    OLD = 1 << 4, /* HTTP/1.0 */
};

struct accepted {
    const char *rule;
    const char *bytes;
    enum http_method method;
    unsigned flags;
    const char *target;
    const char *host; /* NULL: absent */
    uint64_t content_length;
};

#define H   "Host: a\r\n"
#define END "\r\n"

static const struct accepted accepted[] = {
    {"9112 3", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", METHOD_GET, KEEP, "/", "x", 0},
    {"9112 3", "HEAD /a HTTP/1.1\r\n" H END, METHOD_HEAD, KEEP, "/a", "a", 0},
    {"9112 3", "OPTIONS /a HTTP/1.1\r\n" H END, METHOD_OPTIONS, KEEP, "/a", "a", 0},
    {"9112 3", "POST / HTTP/1.1\r\n" H END, METHOD_POST, KEEP, "/", "a", 0},
    {"9112 3", "PUT / HTTP/1.1\r\n" H END, METHOD_PUT, KEEP, "/", "a", 0},
    {"9112 3", "DELETE / HTTP/1.1\r\n" H END, METHOD_DELETE, KEEP, "/", "a", 0},
    {"9112 3", "TRACE / HTTP/1.1\r\n" H END, METHOD_TRACE, KEEP, "/", "a", 0},
    {"5789 2", "PATCH / HTTP/1.1\r\n" H END, METHOD_PATCH, KEEP, "/", "a", 0},
    {"9110 9.1 is case-sensitive", "get / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"9110 9.1", "Get / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"9110 9.1", "GETS / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"9110 9.1", "GE / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"9110 9.1", "G / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"4918 9.1", "PROPFIND / HTTP/1.1\r\n" H END, METHOD_REGISTERED, KEEP, "/", "a", 0},
    {"IANA", "VERSION-CONTROL / HTTP/1.1\r\n" H END, METHOD_REGISTERED, KEEP, "/", "a", 0},
    {"9113 3.4", "PRI / HTTP/1.1\r\n" H END, METHOD_UNKNOWN, KEEP, "/", "a", 0},
    {"9110 5.6.2 every token byte", "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\n" H END, METHOD_UNKNOWN,
     KEEP, "/", "a", 0},
    {"9112 2.2 one empty line", "\r\nGET / HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "/", "a", 0},
    {"9112 2.2 four empty lines", "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "/",
     "a", 0},
    {"9112 3.2.1", "GET /a/b.html?c=d&e=%20f HTTP/1.1\r\n" H END, METHOD_GET, KEEP,
     "/a/b.html?c=d&e=%20f", "a", 0},
    {"9112 3.2.1", "GET //a/../b HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "//a/../b", "a", 0},
    {"raw UTF-8", "GET /\xc3\xa4 HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "/\xc3\xa4", "a", 0},
    {"9112 3.2.2", "GET http://b/c HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "http://b/c", "b", 0},
    {"9112 3.2.2", "GET HTTP://b:80 HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "HTTP://b:80", "b:80",
     0},
    {"9112 3.2.2", "GET http://b?q HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "http://b?q", "b", 0},
    {"9112 3.2.2", "GET http://b#f HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "http://b#f", "b", 0},
    {"9112 3.2.2", "GET http://[::1]:8/ HTTP/1.1\r\n" H END, METHOD_GET, KEEP, "http://[::1]:8/",
     "[::1]:8", 0},
    {"9112 3.2.2 in HTTP/1.0", "GET http://b/ HTTP/1.0\r\n\r\n", METHOD_GET, OLD, "http://b/", "b",
     0},
    {"9112 3.2.3", "CONNECT a.b:443 HTTP/1.1\r\n" H END, METHOD_CONNECT, KEEP, "a.b:443", "a", 0},
    {"9112 3.2.3", "CONNECT [::1]:443 HTTP/1.1\r\n" H END, METHOD_CONNECT, KEEP, "[::1]:443", "a",
     0},
    {"9112 3.2.4", "OPTIONS * HTTP/1.1\r\n" H END, METHOD_OPTIONS, KEEP, "*", "a", 0},
    {"9110 2.5 a later minor version", "GET / HTTP/1.2\r\n" H END, METHOD_GET, KEEP, "/", "a", 0},
    {"9110 2.5", "GET / HTTP/1.9\r\n" H END, METHOD_GET, KEEP, "/", "a", 0},
    {"1945 without Host", "GET / HTTP/1.0\r\n\r\n", METHOD_GET, OLD, "/", NULL, 0},
    {"1945 with Host", "GET / HTTP/1.0\r\n" H END, METHOD_GET, OLD, "/", "a", 0},
    {"9112 9.3", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", METHOD_GET, OLD | KEEP, "/",
     NULL, 0},
    {"9112 9.3", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", METHOD_GET, OLD | KEEP, "/",
     NULL, 0},
    {"9112 9.3 close takes precedence", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
     METHOD_GET, OLD, "/", NULL, 0},
    {"9112 9.3", "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", METHOD_GET, 0, "/", "a", 0},
    {"9112 9.3", "GET / HTTP/1.1\r\n" H "connection:CLOSE\r\n\r\n", METHOD_GET, 0, "/", "a", 0},
    {"9112 9.3", "GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\n\r\n", METHOD_GET, KEEP, "/",
     "a", 0},
    {"9110 7.6.1", "GET / HTTP/1.1\r\n" H "Connection: TE, close\r\n\r\n", METHOD_GET, 0, "/", "a",
     0},
    {"9110 7.6.1", "GET / HTTP/1.1\r\n" H "Connection: close , TE\r\n\r\n", METHOD_GET, 0, "/", "a",
     0},
    {"9110 5.6.1", "GET / HTTP/1.1\r\n" H "Connection: ,,\t close,\r\n\r\n", METHOD_GET, 0, "/",
     "a", 0},
    {"9110 5.3 two fields", "GET / HTTP/1.1\r\n" H "Connection: close\r\nConnection: TE\r\n\r\n",
     METHOD_GET, 0, "/", "a", 0},
    {"9110 5.3 two fields", "GET / HTTP/1.1\r\n" H "Connection: TE\r\nConnection: close\r\n\r\n",
     METHOD_GET, 0, "/", "a", 0},
    {"9110 7.6.1 other options", "GET / HTTP/1.1\r\n" H "Connection: closed, enclose\r\n\r\n",
     METHOD_GET, KEEP, "/", "a", 0},
    {"9110 7.6.1 no option", "GET / HTTP/1.1\r\n" H "Connection:\r\n\r\n", METHOD_GET, KEEP, "/",
     "a", 0},
    {"9110 8.6", "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n", METHOD_POST, KEEP | BODY, "/",
     "a", 5},
    {"9110 8.6", "GET / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", METHOD_GET, KEEP, "/", "a", 0},
    {"9110 8.6 1*DIGIT", "PUT / HTTP/1.1\r\n" H "CONTENT-LENGTH:\t 007 \r\n\r\n", METHOD_PUT,
     KEEP | BODY, "/", "a", 7},
    {"9110 8.6 2^63 - 1", "PUT / HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n",
     METHOD_PUT, KEEP | BODY, "/", "a", INT64_MAX},
    {"9112 7.1", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n", METHOD_POST,
     KEEP | BODY | CHUNKED, "/", "a", 0},
    {"9112 7", "POST / HTTP/1.1\r\n" H "transfer-encoding:  CHUNKED\t\r\n\r\n", METHOD_POST,
     KEEP | BODY | CHUNKED, "/", "a", 0},
    {"9110 10.1.1", "PUT / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
     METHOD_PUT, KEEP | BODY | EXPECT, "/", "a", 9},
    {"9110 10.1.1", "PUT / HTTP/1.1\r\n" H "Content-Length: 9\r\nexpect: 100-Continue\r\n\r\n",
     METHOD_PUT, KEEP | BODY | EXPECT, "/", "a", 9},
    {"9110 10.1.1 without a body", "PUT / HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n",
     METHOD_PUT, KEEP, "/", "a", 0},
    {"9110 10.1.1 in HTTP/1.0",
     "PUT / HTTP/1.0\r\n" H "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", METHOD_PUT,
     OLD | BODY, "/", "a", 9},
    {"9112 3.2", "GET / HTTP/1.1\r\nHost:a\r\n\r\n", METHOD_GET, KEEP, "/", "a", 0},
    {"9112 3.2", "GET / HTTP/1.1\r\nHOST: \t a.b-c_d~e:80\t \r\n\r\n", METHOD_GET, KEEP, "/",
     "a.b-c_d~e:80", 0},
    {"3986 3.2.3 empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", METHOD_GET, KEEP, "/", "a:", 0},
    {"3986 3.2.3", "GET / HTTP/1.1\r\nHost: 127.0.0.1:65535\r\n\r\n", METHOD_GET, KEEP, "/",
     "127.0.0.1:65535", 0},
    {"3986 3.2.2", "GET / HTTP/1.1\r\nHost: [2001:db8::1.2.3.4]:8080\r\n\r\n", METHOD_GET, KEEP,
     "/", "[2001:db8::1.2.3.4]:8080", 0},
    {"3986 3.2.2", "GET / HTTP/1.1\r\nHost: [::]\r\n\r\n", METHOD_GET, KEEP, "/", "[::]", 0},
    {"3986 3.2.2", "GET / HTTP/1.1\r\nHost: a%2eb!$&'()*+,;=c:1\r\n\r\n", METHOD_GET, KEEP, "/",
     "a%2eb!$&'()*+,;=c:1", 0},
    {"9110 5.5 empty value", "GET / HTTP/1.1\r\n" H "X:\r\nY: \t \r\n\r\n", METHOD_GET, KEEP, "/",
     "a", 0},
    {"9110 5.5 HTAB, obs-text", "GET / HTTP/1.1\r\n" H "X: a\tb\t\xff\x80 c\r\n\r\n", METHOD_GET,
     KEEP, "/", "a", 0},
    {"9110 5.5 many HTABs",
     "GET / HTTP/1.1\r\n" H "X:\t\t1234567890123456\t1234567890123456\t\t\r\n\r\n", METHOD_GET,
     KEEP, "/", "a", 0},
    {"9110 5.1 every token byte", "GET / HTTP/1.1\r\n" H "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n",
     METHOD_GET, KEEP, "/", "a", 0},
    {"9110 5.1 a long name",
     "GET / HTTP/1.1\r\n" H "Abcdefghijklmnopqrstuvwxyz-_abcdefghijklmnop: x\r\n\r\n", METHOD_GET,
     KEEP, "/", "a", 0},
    {"names as long as those that count",
     "GET / HTTP/1.1\r\n" H "Hose: 1\r\nRefered: 2\r\nExpekt: 3\r\nConnectiom: close\r\n"
     "Content-Lengti: 5\r\nTransfer-Encodinf: gzip\r\nIf-None-Matci: 4\r\n\r\n",
     METHOD_GET, KEEP, "/", "a", 0},
    {"names that differ by bit 0x20 in a mark", "GET / HTTP/1.1\r\n" H "Content~Length: x\r\n\r\n",
     METHOD_GET, KEEP, "/", "a", 0},
};

static void check_span(const char *rule, struct span span, const char *expected)
{
    if (expected == NULL && span.start == NULL && span.length == 0)
        return;
    if (expected == NULL || span.length != strlen(expected) ||
        memcmp(span.start, expected, span.length) != 0)
        fail_msg("%s: '%.*s' instead of '%s'", rule, (int)span.length, span.start,
                 expected != NULL ? expected : "(absent)");
}

static void check_accepted(const struct accepted *c, const struct request *request)
{
    unsigned flags = (request->keep_alive ? KEEP : 0u) | (request->has_body ? BODY : 0u) |
                     (request->chunked ? CHUNKED : 0u) | (request->expect_continue ? EXPECT : 0u) |
                     (request->minor_version == 0 ? OLD : 0u);

    if (request->method != c->method || flags != c->flags)
        fail_msg("%s: method %d instead of %d, flags %x instead of %x in %s", c->rule,
                 (int)request->method, (int)c->method, flags, c->flags, c->bytes);
    if (request->content_length != c->content_length)
        fail_msg("%s: a wrong length in %s", c->rule, c->bytes);
    check_span(c->rule, request->target, c->target);
    check_span(c->rule, request->host, c->host);
    check_span(c->rule, request->referer, NULL);
    check_span(c->rule, request->user_agent, NULL);
    assert_int_equal(request->present, 0);
    assert_int_equal(request->repeated, 0);
}

TEST(well_formed_head_is_accepted)
{
    struct request request;

    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++) {
        const struct accepted *c = &accepted[i];
        int used = parse_once(c->bytes, strlen(c->bytes), &usual, &request);

        if (used != (int)strlen(c->bytes))
            fail_msg("%s: %d for %s", c->rule, used, c->bytes);
        check_accepted(c, &request);
        used = parse_dripping(c->bytes, strlen(c->bytes), &usual, &request);
        if (used != (int)strlen(c->bytes))
            fail_msg("%s: %d byte by byte for %s", c->rule, used, c->bytes);
        check_accepted(c, &request);
    }
}

TEST(cut_head_is_incomplete)
{
    struct request request;

    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++)
        for (size_t length = 0; length < strlen(accepted[i].bytes); length++) {
            int used = parse_once(accepted[i].bytes, length, &usual, &request);

            if (used != 0)
                fail_msg("%s: %d for the first %zu bytes of %s", accepted[i].rule, used, length,
                         accepted[i].bytes);
        }
}

TEST(bytes_after_head_are_not_used)
{
    static const char *const next[] = {"\r\n", "\n", "GET / HTTP/1.1\r\n", "\0\xff", " folded"};
    struct request request;
    char bytes[512];

    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++)
        for (size_t j = 0; j < ARRAY_LENGTH(next); j++) {
            int length = snprintf(bytes, sizeof(bytes), "%s%s", accepted[i].bytes, next[j]);

            assert_int_equal(parse_once(bytes, (size_t)length, &usual, &request),
                             strlen(accepted[i].bytes));
            check_accepted(&accepted[i], &request);
        }
}

static void parse_all(const char *bytes, size_t length, struct request *request)
{
    assert_int_equal(parse_once(bytes, length, &usual, request), length);
}

TEST(interpreted_fields_are_stored)
{
    static const char bytes[] = "GET /x HTTP/1.1\r\n"
                                "host: example.org\r\n"
                                "USER-AGENT: Agent/1.0 (with, words) \t\r\n"
                                "Referer:http://example.org/?a b\r\n"
                                "If-Match: \"3\"\r\n"
                                "If-None-Match: W/\"1\", \"2\"\r\n"
                                "If-Modified-Since:  Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                "IF-unmodified-SINCE: Mon, 07 Nov 1994 08:49:37 GMT\r\n"
                                "range: bytes=0-1\r\n"
                                "If-Range:\"4\"\r\n"
                                "Accept: */*\r\n"
                                "Accept-Encoding: gzip, br;q=0\r\n"
                                "\r\n";
    struct request request;

    parse_all(bytes, sizeof(bytes) - 1, &request);
    check_span("line", request.line, "GET /x HTTP/1.1");
    check_span("host", request.host, "example.org");
    check_span("agent", request.user_agent, "Agent/1.0 (with, words)");
    check_span("referer", request.referer, "http://example.org/?a b");
    check_span("if-match", request.if_match, "\"3\"");
    check_span("if-none-match", request.if_none_match, "W/\"1\", \"2\"");
    check_span("since", request.if_modified_since, "Sun, 06 Nov 1994 08:49:37 GMT");
    check_span("unmodified", request.if_unmodified_since, "Mon, 07 Nov 1994 08:49:37 GMT");
    check_span("range", request.range, "bytes=0-1");
    check_span("if-range", request.if_range, "\"4\"");
    check_span("accept", request.accept, "*/*");
    check_span("accept-encoding", request.accept_encoding, "gzip, br;q=0");
    assert_int_equal(request.present, 0xff);
    assert_int_equal(request.repeated, 0);
    assert_int_equal(request.fields.length, sizeof(bytes) - 1 - strlen("GET /x HTTP/1.1\r\n\r\n"));
}

TEST(repeated_fields_keep_first_value)
{
    static const char bytes[] = "GET / HTTP/1.1\r\nHost: a\r\n"
                                "User-Agent: 1\r\nUser-Agent: 2\r\n"
                                "Referer: \r\nReferer: 2\r\n"
                                "\r\n";
    struct request request;

    parse_all(bytes, sizeof(bytes) - 1, &request);
    check_span("agent", request.user_agent, "1");
    assert_non_null(request.referer.start); /* present but empty */
    assert_int_equal(request.referer.length, 0);
}

/* A value may look like a field line of the same name. */
TEST(next_value_iterates_over_field_lines)
{
    static const char bytes[] = "GET / HTTP/1.1\r\nHost: a\r\n"
                                "If-None-Match: if-none-match: 0\r\n"
                                "Accept: 1\r\n"
                                "X: if-none-match: 1\r\n"
                                "if-none-MATCH:\r\n"
                                "If-None-Matches: 2\r\n"
                                "IF-NONE-MATCH: \"3\" , \"4\"\t\r\n"
                                "\r\n";
    static const char *const expected[] = {"if-none-match: 0", "", "\"3\" , \"4\""};
    struct request request;
    const char *at = NULL;
    struct span value;

    parse_all(bytes, sizeof(bytes) - 1, &request);
    assert_int_equal(request.present, REQUEST_IF_NONE_MATCH | REQUEST_ACCEPT);
    assert_int_equal(request.repeated, REQUEST_IF_NONE_MATCH);
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_true(request_next_value(&request, REQUEST_IF_NONE_MATCH, &at, &value));
        check_span("list", value, expected[i]);
    }
    assert_false(request_next_value(&request, REQUEST_IF_NONE_MATCH, &at, &value));
    at = NULL;
    assert_true(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    check_span("one line", value, "1");
    assert_false(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    at = NULL;
    assert_false(request_next_value(&request, REQUEST_IF_MATCH, &at, &value));
}

/* --- Rejected -----------------------------------------------------------------------------------
 */

#define HOST                   "Host: h\r\n"
#define REQUEST(start, fields) start " HTTP/1.1\r\n" HOST fields END
#define GET(target)            REQUEST("GET " target, "")

/* Those of the integration tests, which assert the statuses. */
static const struct span heads[] = {
#define CASE(rule, title, bytes, ...) {bytes, sizeof(bytes) - 1},
#include "tests/integration/rfc/framing.def"
#include "tests/integration/rfc/message.def"
#include "tests/integration/rfc/method.def"
#include "tests/integration/rfc/target.def"
#undef CASE
};

TEST(head_in_pieces_has_the_same_result)
{
    static const struct request_limits wide = {
        .line_bytes = 16384, .head_bytes = 32768, .field_count = 20};
    struct request request;

    for (size_t i = 0; i < ARRAY_LENGTH(heads); i++) {
        int once = parse_once(heads[i].start, heads[i].length, &wide, &request);
        int dripping = parse_dripping(heads[i].start, heads[i].length, &wide, &request);

        if (once != dripping)
            fail_msg("%d, but %d byte by byte for %s", once, dripping, heads[i].start);
    }
}

static bool in_token(unsigned char byte)
{
    return isalnum(byte) || (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

/* A colon ends the name and is no error. */
static bool in_token_or_colon(unsigned char byte)
{
    return in_token(byte) || byte == ':';
}

static bool in_value(unsigned char byte)
{
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

static bool in_target(unsigned char byte)
{
    return byte > 0x20 && byte != 0x7f;
}

/* Puts every byte at every position of 40 'a' between BEFORE and AFTER. */
static void check_every_byte(const char *before, const char *after, bool (*good)(unsigned char))
{
    struct request request;
    char bytes[256];

    for (int byte = 0; byte < 256; byte++)
        for (size_t place = 0; place < 40; place++) {
            int length = snprintf(bytes, sizeof(bytes), "%s%.40s%s", before,
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", after);
            int expected = good((unsigned char)byte) ? length : -400;

            bytes[strlen(before) + place] = (char)byte;
            if (parse_once(bytes, (size_t)length, &usual, &request) != expected)
                fail_msg("byte %02x at %zu behind %s", (unsigned)byte, place, before);
        }
}

TEST(invalid_byte_is_rejected_at_every_position)
{
    check_every_byte("GET / HTTP/1.1\r\nHost: a\r\nX: ", ".\r\n\r\n", in_value);
    check_every_byte("GET / HTTP/1.1\r\nHost: a\r\nX", "Y: \r\n\r\n", in_token_or_colon);
    check_every_byte("GET /", " HTTP/1.1\r\nHost: a\r\n\r\n", in_target);
    check_every_byte("X", " / HTTP/1.1\r\nHost: a\r\n\r\n", in_token);
}

TEST(rejection_reports_request_line)
{
    static const struct {
        const char *bytes, *line;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1"},
        {"GET /a  HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a  HTTP/1.1"},
        {"GET /\r\n\r\n", "GET /"},
        {"\r\nGET / HTTP/2.0\r\n\r\n", "GET / HTTP/2.0"},
        {"GET /\x01 HTTP/1.1\r\n\r\n", "GET /"},
        {"\x16\x03\x01", ""},
    };
    struct request request;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_true(parse_once(cases[i].bytes, strlen(cases[i].bytes), &usual, &request) < 0);
        check_span("line", request.line, cases[i].line);
    }
}

/* --- Limits -------------------------------------------------------------------------------------
 */

/* "GET /aaa… HTTP/1.1" of LENGTH bytes. */
static size_t write_line(char *bytes, size_t length)
{
    memset(bytes, 'a', length);
    memcpy(bytes, "GET /", 5);
    memcpy(bytes + length - 9, " HTTP/1.1\r\n", 11);
    return length + 2;
}

TEST(incomplete_head_reports_request_line)
{
    static const char bytes[] = "HEAD /a HTTP/1.1\r\nHost: a\r\nX";
    struct request request;

    for (size_t length = 0; length < sizeof(bytes); length++) {
        assert_int_equal(parse_once(bytes, length, &usual, &request), 0);
        check_span("line", request.line, length < 18 ? NULL : "HEAD /a HTTP/1.1");
    }
    assert_int_equal(request.method, METHOD_HEAD);
}

TEST(request_line_above_limit_is_414)
{
    static const struct request_limits limits = {
        .line_bytes = 300, .head_bytes = 4096, .field_count = 20};
    struct request request;
    char bytes[1024];

    for (size_t line = 290; line <= 310; line++) {
        size_t length = write_line(bytes, line);
        int expected;

        memcpy(bytes + length, H END, sizeof(H END) - 1);
        length += sizeof(H END) - 1;
        expected = line <= 300 ? (int)length : -414;
        assert_int_equal(parse_once(bytes, length, &limits, &request), expected);
        assert_int_equal(parse_dripping(bytes, length, &limits, &request), expected);
    }
}

TEST(endless_request_line_is_rejected)
{
    static const struct request_limits limits = {
        .line_bytes = 300, .head_bytes = 4096, .field_count = 20};
    static const char *const beginnings[] = {"GET /", "GET / ", "GET / HTTP/1.1", "", "http://"};
    struct request request;
    char bytes[1024];
    int expected;

    for (size_t i = 0; i < ARRAY_LENGTH(beginnings); i++) {
        memset(bytes, 'a', sizeof(bytes));
        memcpy(bytes, beginnings[i], strlen(beginnings[i]));
        if (strchr(beginnings[i], ':') != NULL)
            continue; /* not a token: rejected for that */
        assert_int_equal(parse_once(bytes, 301, &limits, &request), 0);
        /* The method itself exceeds the limit: it is longer than any known method. */
        expected = beginnings[i][0] == '\0' ? -501 : -414;
        assert_int_equal(parse_once(bytes, 302, &limits, &request), expected);
        assert_int_equal(parse_dripping(bytes, sizeof(bytes), &limits, &request), expected);
    }
}

TEST(head_above_limit_is_431)
{
    struct request_limits limits = {.line_bytes = 64, .field_count = 20};
    static const char bytes[] =
        "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789\r\n\r\nGET / HTTP/1.1\r\n";
    const int head = (int)(strstr(bytes, "\r\n\r\n") - bytes) + 4;
    struct request request;

    for (int limit = 1; limit < head + 4; limit++) {
        int expected = limit >= head ? head : limit < 4 ? -501 : limit < 16 ? -414 : -431;

        limits.head_bytes = (size_t)limit;
        assert_int_equal(parse_once(bytes, sizeof(bytes) - 1, &limits, &request), expected);
        assert_int_equal(parse_dripping(bytes, sizeof(bytes) - 1, &limits, &request), expected);
    }
}

TEST(endless_head_is_rejected)
{
    static const struct request_limits limits = {
        .line_bytes = 64, .head_bytes = 1000, .field_count = 2000};
    struct request request;
    char bytes[1200] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    size_t used = strlen(bytes);

    memset(bytes + used, 'y', sizeof(bytes) - used);
    assert_int_equal(parse_once(bytes, 999, &limits, &request), 0);
    assert_int_equal(parse_once(bytes, 1000, &limits, &request), -431);
    assert_int_equal(parse_dripping(bytes, sizeof(bytes), &limits, &request), -431);
    while (used + 5 <= sizeof(bytes)) {
        memcpy(bytes + used, "\r\nZ:", 4);
        used += 4;
    }
    assert_int_equal(parse_once(bytes, 999, &limits, &request), 0);
    assert_int_equal(parse_once(bytes, sizeof(bytes), &limits, &request), -431);
    assert_int_equal(parse_dripping(bytes, sizeof(bytes), &limits, &request), -431);
}

TEST(too_many_fields_are_431)
{
    struct request_limits limits = {.line_bytes = 64, .head_bytes = 1000, .field_count = 3};
    static const char three[] = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\n\r\n";
    static const char four[] = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\nX: 3\r\n\r\n";
    struct request request;

    assert_int_equal(parse_once(three, sizeof(three) - 1, &limits, &request), sizeof(three) - 1);
    assert_int_equal(parse_once(four, sizeof(four) - 1, &limits, &request), -431);
    assert_int_equal(parse_dripping(four, sizeof(four) - 1, &limits, &request), -431);
}

/* Makes bytes unreadable that an earlier call has searched: the parser must not read them again. */
TEST(slow_head_is_searched_once)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct request_limits limits = {.line_bytes = 64, .head_bytes = 3 * page, .field_count = page};
    static const char line[] = "GET / HTTP/1.1\r\nHost:a\r\n"; /* a multiple of 4 */
    char *data = guard - 3 * page;
    struct request request;
    size_t scanned = 0;

    for (size_t i = 0; i + 4 <= 3 * page; i += 4)
        memcpy(data + i, "X:\r\n", 4);
    memcpy(data, line, sizeof(line) - 1);
    for (size_t length = 1; length <= page + 8; length++)
        assert_int_equal(request_parse(data, length, &limits, &scanned, &request), 0);
    assert_int_equal(scanned, page + 8);
    assert_int_equal(mprotect(data, page, PROT_NONE), 0);
    for (size_t length = page + 9; length < 3 * page - 8; length++)
        assert_int_equal(request_parse(data, length, &limits, &scanned, &request), 0);
    assert_int_equal(mprotect(data, page, PROT_READ | PROT_WRITE), 0);
    memcpy(data + 3 * page - 4, "\r\n", 2);
    assert_int_equal(request_parse(data, 3 * page, &limits, &scanned, &request), 3 * page - 2);
}
