/*
 * The body parser, by tables: where each body ends, or with which status it is rejected. Each is
 * fed whole, byte by byte, and in two pieces, cut at every position.
 */
#include "common/macros.h"
#include "daemon/http1/body_parser.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENT_MAX = 1000, TRAILER_MAX = 100 };

static const struct body_limits usual = {CONTENT_MAX, TRAILER_MAX};

static const struct request chunked = {.chunked = true, .has_body = true};

/*
 * Feeds BYTES, first FIRST of them and then STEP at a time, each piece in an allocation of its
 * exact size. Returns the result and stores the number of bytes used.
 */
static int pass(const struct request *request, struct span bytes, size_t first, size_t step,
                size_t *all_used)
{
    struct body_parser body;
    int result = body_parser_begin(&body, request, &usual);
    size_t length = first;

    *all_used = 0;
    while (result == BODY_MORE && *all_used < bytes.length) {
        size_t left = bytes.length - *all_used, used;
        char *piece;

        length = length < left ? length : left;
        piece = malloc(length > 0 ? length : 1);
        assert_non_null(piece);
        memcpy(piece, bytes.start + *all_used, length);
        result = body_parser_feed(&body, piece, length, &used);
        free(piece);
        assert_true(used <= length);
        assert_true(result != BODY_MORE || used == length);
        *all_used += used;
        length = step;
    }
    return result;
}

static void check(const char *rule, const struct request *request, struct span bytes, int expected,
                  size_t expected_used)
{
    for (size_t cut = 0; cut <= bytes.length; cut++) {
        size_t step = cut == 0 ? 1 : bytes.length, used;
        int result = pass(request, bytes, cut == 0 ? 1 : cut, step, &used);

        if (result != expected || used != expected_used)
            fail_msg("%s: %d after %zu bytes instead of %d after %zu, cut at %zu: %s", rule, result,
                     used, expected, expected_used, cut, bytes.start);
    }
}

/* --- Chunked --- */

static const struct {
    const char *rule;
    struct span bytes;
} accepted[] = {
    {"7.1 nothing", SPAN("0\r\n\r\n")},
    {"7.1 one chunk", SPAN("5\r\nhello\r\n0\r\n\r\n")},
    {"7.1 two chunks", SPAN("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")},
    {"7.1 data like lines", SPAN("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n")},
    {"7.1 hexadecimal", SPAN("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n")},
    {"7.1 leading zeros", SPAN("0000000000000005\r\nhello\r\n00\r\n\r\n")},
    {"7.1.1 name", SPAN("5;a\r\nhello\r\n0;b\r\n\r\n")},
    {"7.1.1 token", SPAN("5;a=b\r\nhello\r\n0\r\n\r\n")},
    {"7.1.1 quoted", SPAN("5;a=\"b;\\\"\\\\\t \x80\"\r\nhello\r\n0\r\n\r\n")},
    {"7.1.1 quoted, empty", SPAN("5;a=\"\"\r\nhello\r\n0\r\n\r\n")},
    {"7.1.1 several", SPAN("5;a;b=c;d=\"e\";f\r\nhello\r\n0\r\n\r\n")},
    {"7.1.1 BWS", SPAN("5 ;\ta \t= b ; c = \"d\" ;e\r\nhello\r\n0\r\n\r\n")},
    {"7.1 leading zeros beyond 16 digits",
     SPAN("00005\r\nhello\r\n0000000000000000000000\r\n\r\n")},
    {"7.1 many leading zeros", SPAN("00000000000000000005\r\nhello\r\n0\r\n\r\n")},
    {"7.1.2 a field", SPAN("0\r\nX: y\r\n\r\n")},
    {"7.1.2 fields",
     SPAN("0\r\nA:\r\nB: \t b\x80\tc \r\nHostess: x\r\nContent-Lengths: 1\r\n\r\n")},
    {"7.1.2 a long name", SPAN("0\r\nTransfer-Encoding-and-more: y\r\n\r\n")},
};

TEST(chunked_body_ends_after_last_chunk)
{
    static const char *const next[] = {"", "\r\n", "GET / HTTP/1.1\r\n", "0\r\n\r\n"};
    char bytes[256];

    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++)
        for (size_t j = 0; j < ARRAY_LENGTH(next); j++) {
            size_t length = accepted[i].bytes.length, more = strlen(next[j]);

            memcpy(bytes, accepted[i].bytes.start, length);
            memcpy(bytes + length, next[j], more + 1);
            check(accepted[i].rule, &chunked, (struct span){bytes, length + more}, BODY_DONE,
                  length);
        }
}

TEST(incomplete_chunked_body_needs_more)
{
    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++)
        for (size_t length = 0; length < accepted[i].bytes.length; length++)
            check(accepted[i].rule, &chunked, (struct span){accepted[i].bytes.start, length},
                  BODY_MORE, length);
}

/* The last byte of each causes the rejection. */
static const struct {
    const char *rule;
    struct span bytes;
    int status;
} rejected[] = {
    {"7.1 no size", SPAN("\r"), 400},
    {"7.1 no size", SPAN(";"), 400},
    {"7.1 leading space", SPAN(" "), 400},
    {"7.1 0x", SPAN("0x"), 400},
    {"7.1 sign", SPAN("-"), 400},
    {"7.1 sign", SPAN("+"), 400},
    {"7.1 no digit", SPAN("g"), 400},
    {"7.1 no digit", SPAN("5g"), 400},
    {"7.1 underscore", SPAN("1_"), 400},
    {"7.1 fraction", SPAN("5."), 400},
    {"7.1 NUL", SPAN("5\0"), 400},
    {"7.1 trailing space", SPAN("5 \r"), 400},
    {"7.1 trailing HTAB", SPAN("5\t\r"), 400},
    {"7.1 vertical tab", SPAN("5\x0b"), 400},
    {"7.1 two words", SPAN("5 5"), 400},
    {"7.1 17 digits", SPAN("10000000000000000"), 400},
    {"7.1 2^64 + 5", SPAN("10000000000000005"), 400},
    {"7.1 2^64 - 1", SPAN("ffffffffffffffff\r\n"), 413},
    {"7.1 above the limit", SPAN("3e9\r\n"), 413},
    {"2.2 bare LF", SPAN("5\n"), 400},
    {"2.2 bare CR", SPAN("5\rh"), 400},
    {"2.2 bare CR", SPAN("5\r\r"), 400},
    {"2.2 bare LF after an extension", SPAN("5;a\n"), 400},
    {"2.2 bare LF in an extension", SPAN("5;a=\"\n"), 400},
    {"2.2 bare CR in an extension", SPAN("5;a=\"\r"), 400},
    {"2.2 bare CR in a quoted pair", SPAN("5;a=\"\\\r"), 400},
    {"7.1.1 no name", SPAN("5;\r"), 400},
    {"7.1.1 no name", SPAN("5;="), 400},
    {"7.1.1 no name", SPAN("5;;"), 400},
    {"7.1.1 not a token", SPAN("5;\""), 400},
    {"7.1.1 no value", SPAN("5;a=\r"), 400},
    {"7.1.1 no value", SPAN("5;a=;"), 400},
    {"7.1.1 two values", SPAN("5;a=b="), 400},
    {"7.1.1 after the quotes", SPAN("5;a=\"b\"c"), 400},
    {"7.1.1 trailing space", SPAN("5;a \r"), 400},
    {"7.1.1 trailing space", SPAN("5;a=b \r"), 400},
    {"7.1.1 trailing space", SPAN("5;a=\"b\" \r"), 400},
    {"7.1.1 a comma", SPAN("5;a,"), 400},
    {"7.1 data too long", SPAN("5\r\nhello!"), 400},
    {"7.1 data too long", SPAN("5\r\nhello0"), 400},
    {"7.1 data and LF", SPAN("5\r\nhello\n"), 400},
    {"7.1 data and CR", SPAN("5\r\nhello\r0"), 400},
    {"7.1.2 bare LF ends it", SPAN("0\r\n\n"), 400},
    {"7.1.2 bare CR ends it", SPAN("0\r\n\rG"), 400},
    {"7.1.2 no colon", SPAN("0\r\nGET "), 400},
    {"7.1.2 no name", SPAN("0\r\n:"), 400},
    {"7.1.2 folded", SPAN("0\r\nX: y\r\n "), 400},
    {"7.1.2 space before the colon", SPAN("0\r\nX "), 400},
    {"7.1.2 leading white space", SPAN("0\r\n\t"), 400},
    {"7.1.2 bare LF", SPAN("0\r\nX: y\n"), 400},
    {"7.1.2 bare CR", SPAN("0\r\nX: y\rZ"), 400},
    {"7.1.2 NUL", SPAN("0\r\nX: y\0"), 400},
    {"7.1.2 DEL", SPAN("0\r\nX: \x7f"), 400},
    {"9110 6.5.1", SPAN("0\r\nContent-Length:"), 400},
    {"9110 6.5.1", SPAN("0\r\nX: y\r\nTRANSFER-encoding:"), 400},
    {"9110 6.5.1", SPAN("0\r\nhost:"), 400},
};

TEST(malformed_chunked_body_is_rejected)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rejected); i++) {
        struct span bytes = rejected[i].bytes;

        check(rejected[i].rule, &chunked, bytes, -rejected[i].status, bytes.length);
        bytes.length--;
        check(rejected[i].rule, &chunked, bytes, BODY_MORE, bytes.length);
    }
}

/* --- Limits --- */

TEST(sum_of_chunks_above_limit_is_413)
{
    char bytes[4 * CONTENT_MAX] = "";
    size_t length = 0, used;

    for (int i = 0; i < CONTENT_MAX / 10; i++)
        length += (size_t)sprintf(bytes + length, "a\r\n0123456789\r\n");
    sprintf(bytes + length, "0\r\n\r\n");
    assert_int_equal(pass(&chunked, (struct span){bytes, length + 5}, length + 5, 1, &used),
                     BODY_DONE);
    assert_int_equal(used, length + 5);
    sprintf(bytes + length, "1\r\nx\r\n0\r\n\r\n");
    assert_int_equal(pass(&chunked, (struct span){bytes, length + 11}, length + 11, 1, &used),
                     -413);
    assert_int_equal(used, length + 3); /* at the chunk size, before its data */
}

TEST(extensions_and_trailers_above_limit_are_rejected)
{
    static const struct {
        const char *start, *repeated, *end;
        int status;
    } cases[] = {
        {"0;a=\"", "x", "\"\r\n\r\n", -413}, {"0", ";a", "\r\n\r\n", -413},
        {"0 ", " ", ";a\r\n\r\n", -413},     {"", "1;a\r\nx\r\n", "0\r\n\r\n", -413},
        {"0\r\nX: ", "x", "\r\n\r\n", -431}, {"0\r\n", "X:\r\n", "\r\n", -431},
        {"0\r\n", "x", ":\r\n\r\n", -431},
    };
    char bytes[20 * TRAILER_MAX];
    size_t used;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        for (int count = 1; count <= 2 * TRAILER_MAX; count += 2 * TRAILER_MAX - 1) {
            char *at = bytes + sprintf(bytes, "%s", cases[i].start);

            for (int j = 0; j < count; j++)
                at += sprintf(at, "%s", cases[i].repeated);
            at += sprintf(at, "%s", cases[i].end);
            assert_int_equal(
                pass(&chunked, (struct span){bytes, (size_t)(at - bytes)}, 1, 1, &used),
                count == 1 ? BODY_DONE : cases[i].status);
        }
}

/* Repeats REPEATED between START and END; the body is then complete, or rejected with STATUS. */
static void check_repeated(const char *start, const char *repeated, int count, const char *end,
                           int status)
{
    char bytes[20 * TRAILER_MAX], *at = bytes + sprintf(bytes, "%s", start);
    size_t used;

    for (int i = 0; i < count; i++)
        at += sprintf(at, "%s", repeated);
    at += sprintf(at, "%s", end);
    assert_int_equal(pass(&chunked, (struct span){bytes, (size_t)(at - bytes)}, 1, 1, &used),
                     status == 0 ? BODY_DONE : -status);
}

/* The first 16 digits of each size are free. The LF at the very end does not count. */
TEST(limits_of_extensions_and_trailers_are_exact)
{
    enum { DIGITS_FREE = 16 };

    check_repeated("", "0", DIGITS_FREE + TRAILER_MAX, "\r\n\r\n", 0);
    check_repeated("", "0", DIGITS_FREE + TRAILER_MAX + 1, "\r\n\r\n", 413);
    check_repeated("", "01\r\nx\r\n", TRAILER_MAX, "0\r\n\r\n", 0);
    check_repeated("0;", "a", TRAILER_MAX - 1, "\r\n\r\n", 0);
    check_repeated("0;", "a", TRAILER_MAX, "\r\n\r\n", 413);
    check_repeated("0\r\nX:", "y", TRAILER_MAX - 5, "\r\n\r\n", 0);
    check_repeated("0\r\nX:", "y", TRAILER_MAX - 4, "\r\n\r\n", 431);
}

/* --- Known length --- */

TEST(body_of_known_length_ends_there)
{
    static const char bytes[2 * CONTENT_MAX] = "0\r\n\r\n";
    static const size_t lengths[] = {1, 2, 10, CONTENT_MAX};
    struct request request = {.has_body = true};

    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        request.content_length = lengths[i];
        check("exactly", &request, (struct span){bytes, lengths[i]}, BODY_DONE, lengths[i]);
        check("more", &request, (struct span){bytes, lengths[i] + 5}, BODY_DONE, lengths[i]);
        check("less", &request, (struct span){bytes, lengths[i] - 1}, BODY_MORE, lengths[i] - 1);
    }
}

TEST(content_length_above_limit_is_413_at_once)
{
    struct request request = {.content_length = CONTENT_MAX + 1, .has_body = true};
    struct body_parser body;

    assert_int_equal(body_parser_begin(&body, &request, &usual), -413);
    request.content_length = INT64_MAX;
    assert_int_equal(body_parser_begin(&body, &request, &usual), -413);
    request.content_length = 0;
    assert_int_equal(body_parser_begin(&body, &request, &usual), BODY_DONE);
}
