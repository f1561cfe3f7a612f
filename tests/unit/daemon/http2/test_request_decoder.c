/* Header blocks as requests: what is well-formed, malformed or over the limits. */
#include "daemon/http2/request_decoder.h"

#include "common/macros.h"
#include "daemon/http/response.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPACE = DECODED_BYTES_MAX(32 * 1024), FIELDS_MAX = 300 };

static const struct decoder_limits usual = {8192, 32 * 1024, 100};

/* nghttp2's encoder is the reference. */
struct codec {
    nghttp2_hd_deflater *deflater;
    nghttp2_hd_inflater *inflater;
    uint8_t block[256 * 1024];
    char space[SPACE];
};

static int set_up(void **state)
{
    struct codec *codec = calloc(1, sizeof(*codec));

    assert_non_null(codec);
    assert_int_equal(nghttp2_hd_deflate_new(&codec->deflater, 4096), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&codec->inflater), 0);
    *state = codec;
    return 0;
}

static int tear_down(void **state)
{
    struct codec *codec = *state;

    nghttp2_hd_deflate_del(codec->deflater);
    nghttp2_hd_inflate_del(codec->inflater);
    free(codec);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* Encodes FIELDS: "name=value" each, up to an empty line or the end. */
static struct span encode(struct codec *codec, const char *fields)
{
    static nghttp2_nv pairs[FIELDS_MAX];
    size_t count = 0;
    ssize_t length;

    while (*fields != '\0') {
        size_t line = strcspn(fields, "\n");
        const char *equals = memchr(fields, '=', line);

        assert_true(count < FIELDS_MAX);
        pairs[count++] =
            (nghttp2_nv){(uint8_t *)(uintptr_t)fields, (uint8_t *)(uintptr_t)(equals + 1),
                         (size_t)(equals - fields), (size_t)(fields + line - equals - 1), 0};
        fields += line + (fields[line] == '\n');
    }
    length =
        nghttp2_hd_deflate_hd(codec->deflater, codec->block, sizeof(codec->block), pairs, count);
    assert_true(length >= 0);
    return (struct span){(const char *)codec->block, (size_t)length};
}

#define GET ":method=GET\n:scheme=http\n:authority=h\n:path=/\n"

TEST(requests_are_well_formed_or_not)
{
    enum { MALFORMED = -1 };
    static const struct {
        const char *fields;
        int status; /* 0: served */
        bool ends_stream;
    } cases[] = {
        {GET, 0, true},
        {GET "x=y", 0, true},
        {GET "te=trailers", 0, true},
        {GET "content-length=0", 0, true},
        {GET "content-length=5", 0, false},
        {GET "content-length=5", MALFORMED, true},
        {GET "content-length=x", 400, false},
        {GET "expect=x", 417, false},
        {GET "host=h", 0, true},
        {GET "host=H", 0, true},
        {GET "host=other", MALFORMED, true},
        {":method=GET\n:scheme=http\n:path=/\nhost=h", 0, true},
        {":method=GET\n:scheme=http\n:path=/", MALFORMED, true},
        {":method=GET\n:scheme=http\n:path=/\n:authority=", 400, true},
        {":method=GET\n:scheme=http\n:path=/\n:authority=u@h", 400, true},
        {":method=GET\n:scheme=http\n:authority=h", MALFORMED, true},
        {":method=GET\n:scheme=http\n:authority=h\n:path=", MALFORMED, true},
        {":method=GET\n:scheme=http\n:authority=h\n:path=a", MALFORMED, true},
        {":method=GET\n:scheme=http\n:authority=h\n:path=/a b", MALFORMED, true},
        {":method=GET\n:scheme=http\n:authority=h\n:path=*", MALFORMED, true},
        {":method=OPTIONS\n:scheme=http\n:authority=h\n:path=*", 0, true},
        {":method=GET\n:authority=h\n:path=/", MALFORMED, true},
        {":scheme=http\n:authority=h\n:path=/", MALFORMED, true},
        {":method=G T\n:scheme=http\n:authority=h\n:path=/", MALFORMED, true},
        {":method=CONNECT\n:authority=h:1", 0, false},
        {":method=CONNECT\n:authority=h:1\n:path=/", MALFORMED, false},
        {":method=CONNECT\n:authority=h:1\n:scheme=http", MALFORMED, false},
        {":method=CONNECT\nhost=h:1", MALFORMED, false},
        {GET ":path=/", MALFORMED, true},
        {GET ":status=200", MALFORMED, true},
        {GET ":x=1", MALFORMED, true},
        {":method=GET\n:scheme=http\n:authority=h\nx=y\n:path=/", MALFORMED, true},
        {GET "X=y", MALFORMED, true},
        {GET "=y", MALFORMED, true},
        {GET "a b=y", MALFORMED, true},
        {GET "x= y", MALFORMED, true},
        {GET "x=y\t", MALFORMED, true},
        {GET "x=y\rz", MALFORMED, true},
        {GET "x=y\x01z", MALFORMED, true},
        {GET "x=y\tz\x80", 0, true},
        {GET "connection=close", MALFORMED, true},
        {GET "keep-alive=1", MALFORMED, true},
        {GET "proxy-connection=x", MALFORMED, true},
        {GET "transfer-encoding=chunked", MALFORMED, true},
        {GET "upgrade=x", MALFORMED, true},
        {GET "te=gzip", MALFORMED, true},
    };
    struct codec *codec = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct decoded_request decoded;
        enum decoded result = request_decode(codec->inflater, encode(codec, cases[i].fields),
                                             cases[i].ends_stream, &usual, codec->space, &decoded);
        int status = result == DECODED_REQUEST ? decoded.status : MALFORMED;

        if (result == DECODED_FAILED || status != cases[i].status)
            fail_msg("case %zu: result %d, status %d:\n%s", i, result, decoded.status,
                     cases[i].fields);
    }
}

TEST(request_has_line_target_and_fields)
{
    struct codec *codec = *state;
    struct decoded_request decoded;
    const char *at = NULL;
    struct span value;

    assert_int_equal(request_decode(codec->inflater,
                                    encode(codec, ":method=POST\n:path=/a?b\n:scheme=http\n"
                                                  ":authority=h:80\naccept-encoding=gzip\n"
                                                  "referer=r\nuser-agent=u\nif-none-match=\"a\"\n"
                                                  "accept-encoding=br\nexpect=100-continue\n"
                                                  "priority=u=1\ncontent-length=7"),
                                    false, &usual, codec->space, &decoded),
                     DECODED_REQUEST);
    assert_true(span_is(decoded.request.line, SPAN("POST /a?b HTTP/2.0")));
    assert_true(span_is(decoded.request.target, SPAN("/a?b")));
    assert_true(span_is(decoded.request.host, SPAN("h:80")));
    assert_true(span_is(decoded.request.referer, SPAN("r")));
    assert_true(span_is(decoded.request.user_agent, SPAN("u")));
    assert_true(span_is(decoded.request.if_none_match, SPAN("\"a\"")));
    assert_true(span_is(decoded.priority, SPAN("u=1")));
    assert_int_equal(decoded.request.method, METHOD_POST);
    assert_int_equal(decoded.request.version, HTTP_2);
    assert_int_equal(decoded.request.content_length, 7);
    assert_true(decoded.has_content_length && decoded.request.has_body);
    assert_true(decoded.request.expect_continue && decoded.request.keep_alive);
    assert_true(request_next_value(&decoded.request, REQUEST_ACCEPT_ENCODING, &at, &value));
    assert_true(span_is(value, SPAN("gzip")));
    assert_true(request_next_value(&decoded.request, REQUEST_ACCEPT_ENCODING, &at, &value));
    assert_true(span_is(value, SPAN("br")));
    assert_false(request_next_value(&decoded.request, REQUEST_ACCEPT_ENCODING, &at, &value));
}

/* What exceeds a limit is decoded: the next block depends on it. */
TEST(limits_reject_and_keep_the_table)
{
    struct codec *codec = *state;
    static char fields[64 * 1024], path[16 * 1024], many[4096];
    struct decoded_request decoded;
    size_t length = 0;

    memset(path, 'p', sizeof(path) - 1);
    for (int i = 0; i < 101; i++)
        length += (size_t)snprintf(many + length, sizeof(many) - length, "n%d=v\n", i);
    snprintf(fields, sizeof(fields), ":method=GET\n:scheme=http\n:authority=h\n:path=/%s", path);
    request_decode(codec->inflater, encode(codec, fields), true, &usual, codec->space, &decoded);
    assert_int_equal(decoded.status, 414);
    snprintf(fields, sizeof(fields), GET "a=%s\nb=%s\nlast=kept", path, path);
    request_decode(codec->inflater, encode(codec, fields), true, &usual, codec->space, &decoded);
    assert_int_equal(decoded.status, 431);
    assert_true(span_is(decoded.request.line, SPAN("GET / HTTP/2.0")));
    snprintf(fields, sizeof(fields), GET "%s", many);
    request_decode(codec->inflater, encode(codec, fields), true, &usual, codec->space, &decoded);
    assert_int_equal(decoded.status, 431);
    assert_int_equal(request_decode(codec->inflater, encode(codec, GET "last=kept"), true, &usual,
                                    codec->space, &decoded),
                     DECODED_REQUEST);
    assert_int_equal(decoded.status, 0);
    assert_non_null(memmem(codec->space, SPACE, "last: kept\r\n", 12));
}

/* RFC 9113 section 8.2.3: pieces of one field. Their bytes count, each with the overhead of a line. */
TEST(pieces_of_cookie_count_as_one_field)
{
    static const struct {
        unsigned pieces, others;
        int status;
    } cases[] = {
        {1, 99, 0}, {150, 99, 0}, {1, 100, 431}, {150, 100, 431}, {0, 100, 0}, {0, 101, 431},
    };
    struct codec *codec = *state;
    static char fields[16 * 1024], large[12 * 1024];
    struct decoded_request decoded;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t length = (size_t)snprintf(fields, sizeof(fields), GET);

        for (unsigned n = 0; n < cases[i].pieces; n++)
            length +=
                (size_t)snprintf(fields + length, sizeof(fields) - length, "cookie=a%u=b\n", n);
        for (unsigned n = 0; n < cases[i].others; n++)
            length += (size_t)snprintf(fields + length, sizeof(fields) - length, "n%u=v\n", n);
        assert_int_equal(request_decode(codec->inflater, encode(codec, fields), true, &usual,
                                        codec->space, &decoded),
                         DECODED_REQUEST);
        if (decoded.status != cases[i].status)
            fail_msg("case %zu: status %d", i, decoded.status);
    }
    memset(large, 'c', sizeof(large) - 1);
    snprintf(fields, sizeof(fields), GET "cookie=%s\ncookie=%.2048s", large, large);
    for (unsigned n = 0; n < 2; n++) {
        const struct decoder_limits limits = {8192, (n == 0 ? 16 : 14) * 1024, 100};

        request_decode(codec->inflater, encode(codec, fields), true, &limits, codec->space,
                       &decoded);
        assert_int_equal(decoded.status, n == 0 ? 0 : 431);
    }
}

TEST(trailers_have_no_pseudo_fields)
{
    struct codec *codec = *state;

    assert_int_equal(request_decode_trailers(codec->inflater, encode(codec, "x=y")),
                     DECODED_REQUEST);
    assert_int_equal(request_decode_trailers(codec->inflater, encode(codec, "X=y")),
                     DECODED_MALFORMED);
    assert_int_equal(request_decode_trailers(codec->inflater, encode(codec, ":path=/")),
                     DECODED_MALFORMED);
}

TEST_WITH(invalid_hpack_fails, NULL, NULL)
{
    static const struct span blocks[] = {
        {"\x80", 1},             /* index 0 */
        {"\xff\xff\xff\x7f", 4}, /* an index beyond the tables */
        {"\x00\x05"
         "ab",
         4},                     /* cut */
        {"\x3f\xff\xff\x03", 4}, /* a table larger than permitted */
    };

    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        struct decoded_request decoded;
        struct codec *codec;

        set_up(state);
        codec = *state;
        assert_int_equal(
            request_decode(codec->inflater, blocks[i], true, &usual, codec->space, &decoded),
            DECODED_FAILED);
        tear_down(state);
    }
}

/* What daemon/http/response.c encodes is what nghttp2 decodes. */
TEST(encoder_and_nghttp2_agree)
{
    static const char lines[] = "Content-Length: 5\r\nX-Other: a b\r\nETag: \"x\"\r\nDate: now\r\n";
    static const struct {
        const char *name, *value;
    } expected[] = {{":status", "404"},
                    {"content-length", "5"},
                    {"x-other", "a b"},
                    {"etag", "\"x\""},
                    {"date", "now"}};
    struct codec *codec = *state;
    char block[HPACK_STATUS_MAX + HPACK_LINES_MAX(sizeof(lines))];
    char *end = hpack_put_lines(hpack_put_status(block, 404), SPAN(lines));
    const uint8_t *at = (const uint8_t *)block;
    size_t left = (size_t)(end - block);

    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(codec->inflater, &field, &flags, at, left, 1);

        assert_true(used > 0 && (flags & NGHTTP2_HD_INFLATE_EMIT) != 0);
        assert_string_equal((const char *)field.name, expected[i].name);
        assert_string_equal((const char *)field.value, expected[i].value);
        at += used;
        left -= (size_t)used;
    }
    assert_int_equal(left, 0);
}
