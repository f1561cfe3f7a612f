/*
 * Field lines of a request, found by name, and the methods; and what the server makes of each
 * header field, one field line at a time.
 */
#include "common/macros.h"
#include "daemon/http/request.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

#define ALL_METHODS(APPLY)                                                                         \
    APPLY(GET)                                                                                     \
    APPLY(HEAD)                                                                                    \
    APPLY(OPTIONS)                                                                                 \
    APPLY(POST)                                                                                    \
    APPLY(PUT)                                                                                     \
    APPLY(DELETE)                                                                                  \
    APPLY(CONNECT)                                                                                 \
    APPLY(TRACE)                                                                                   \
    APPLY(PATCH)

static struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

static void expect_span(struct span span, const char *expected)
{
    if (!span_is(span, span_of(expected)))
        fail_msg("'%.*s', not '%s'", (int)span.length, span.start, expected);
}

static struct request request_of(const char *lines)
{
    struct request request;

    request_clear(&request);
    request.fields = span_of(lines);
    return request;
}

/* --- Fields that are found by name --- */

TEST(lines_of_a_name_come_in_order)
{
    const struct request request = request_of("Forwarded: for=a\r\n"
                                              "X-Forwarded: no\r\n"
                                              "FORWARDED:\t for=b \t\r\n"
                                              "Forwarded-For: no\r\n"
                                              "X: forwarded: no\r\n"
                                              "forwarded:\r\n"
                                              "forwarded:c\r\n"
                                              "Y: z\r\n");
    static const char *const expected[] = {"for=a", "for=b", "", "c"};
    const char *at = NULL;
    struct span value;

    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_true(request_next_line(&request, SPAN("forwarded"), &at, &value));
        expect_span(value, expected[i]);
    }
    assert_false(request_next_line(&request, SPAN("forwarded"), &at, &value));
}

TEST(shorter_line_has_no_longer_name)
{
    const struct request request = request_of("A:\r\nAbc: 1\r\nA:\r\n");
    const char *at = NULL;
    struct span value;

    assert_true(request_next_line(&request, SPAN("abc"), &at, &value));
    expect_span(value, "1");
    assert_false(request_next_line(&request, SPAN("abc"), &at, &value));
    at = NULL;
    assert_false(request_next_line(&request, SPAN("abcdefghijkl"), &at, &value));
}

TEST(request_without_fields_has_no_line)
{
    const struct request none = request_of(""), unset = {.fields = {NULL, 0}};
    const char *at = NULL;
    struct span value;

    assert_false(request_next_line(&none, SPAN("a"), &at, &value));
    at = NULL;
    assert_false(request_next_line(&unset, SPAN("a"), &at, &value));
    assert_int_equal(request_find_field(&unset, SPAN("a"), &value), 0);
}

TEST(field_is_found_with_its_number_of_lines)
{
    const struct request request = request_of("A: 1\r\nB: 2\r\nb: 3\r\nB: 4\r\n");
    struct span value = SPAN("unchanged");

    assert_int_equal(request_find_field(&request, SPAN("c"), &value), 0);
    expect_span(value, "unchanged");
    assert_int_equal(request_find_field(&request, SPAN("a"), &value), 1);
    expect_span(value, "1");
    assert_int_equal(request_find_field(&request, SPAN("b"), &value), 3);
    expect_span(value, "2");
}

/* --- Fields with a bit --- */

static const struct {
    enum request_field field;
    size_t span; /* in struct request */
} fields[] = {
    {REQUEST_ACCEPT, offsetof(struct request, accept)},
    {REQUEST_ACCEPT_ENCODING, offsetof(struct request, accept_encoding)},
    {REQUEST_IF_MATCH, offsetof(struct request, if_match)},
    {REQUEST_IF_NONE_MATCH, offsetof(struct request, if_none_match)},
    {REQUEST_IF_MODIFIED_SINCE, offsetof(struct request, if_modified_since)},
    {REQUEST_IF_UNMODIFIED_SINCE, offsetof(struct request, if_unmodified_since)},
    {REQUEST_IF_RANGE, offsetof(struct request, if_range)},
    {REQUEST_RANGE, offsetof(struct request, range)},
};

/* A line of each field, with its index in FIELDS as the value, twice. */
static const char lines_of_all[] = "Accept: 0\r\nAccept-Encoding: 1\r\nIf-Match: 2\r\n"
                                   "If-None-Match: 3\r\nIf-Modified-Since: 4\r\n"
                                   "If-Unmodified-Since: 5\r\nIf-Range: 6\r\nRange: 7\r\n"
                                   "accept: 10\r\naccept-encoding: 11\r\nif-match: 12\r\n"
                                   "if-none-match: 13\r\nif-modified-since: 14\r\n"
                                   "if-unmodified-since: 15\r\nif-range: 16\r\nrange: 17\r\n";

static struct request request_of_all(unsigned repeated)
{
    struct request request = request_of(lines_of_all);
    const char *at = lines_of_all;

    request.present = 0xff;
    request.repeated = (uint8_t)repeated;
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        at = strstr(at, ": ") + 2;
        memcpy((char *)&request + fields[i].span, &(struct span){at, 1}, sizeof(struct span));
    }
    return request;
}

TEST(values_are_those_of_the_field)
{
    const struct request request = request_of_all(0xff);

    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        const char *at = NULL;
        struct span value;

        assert_true(request_next_value(&request, fields[i].field, &at, &value));
        expect_span(value, (const char[]){(char)('0' + i), '\0'});
        assert_true(request_next_value(&request, fields[i].field, &at, &value));
        expect_span(value, (const char[]){'1', (char)('0' + i), '\0'});
        assert_false(request_next_value(&request, fields[i].field, &at, &value));
    }
}

/* Only the fields with a bit in REPEATED have another line to search for. */
TEST(field_that_is_not_repeated_has_one_value)
{
    const struct request request = request_of_all(REQUEST_RANGE);
    const char *at = NULL;
    struct span value;

    assert_true(request_next_value(&request, REQUEST_IF_MATCH, &at, &value));
    expect_span(value, "2");
    assert_false(request_next_value(&request, REQUEST_IF_MATCH, &at, &value));
}

TEST(field_that_is_absent_has_no_value)
{
    struct request request = request_of_all(0xff);
    const char *at = NULL;
    struct span value;

    request.present = 0xff & ~REQUEST_IF_RANGE;
    assert_false(request_next_value(&request, REQUEST_IF_RANGE, &at, &value));
    assert_true(request_next_value(&request, REQUEST_RANGE, &at, &value));
}

TEST(rejected_request_has_the_first_value)
{
    for (unsigned repeated = 0; repeated <= REQUEST_ACCEPT; repeated += REQUEST_ACCEPT) {
        struct request request = {.present = REQUEST_ACCEPT,
                                  .repeated = (uint8_t)repeated,
                                  .accept = span_of("text/css")};
        const char *at = NULL;
        struct span value;

        assert_true(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
        expect_span(value, "text/css");
        assert_false(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    }
}

TEST(value_may_contain_a_field_line)
{
    struct request request = request_of("Accept: accept: 1\r\nX: accept: 2\r\nAccepts: 3\r\n"
                                        "Accept:\r\nAccept: \t4 5 \r\n");
    const char *at = NULL;
    struct span value;

    request.present = request.repeated = REQUEST_ACCEPT;
    request.accept = (struct span){request.fields.start + 8, 9};
    assert_true(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    expect_span(value, "accept: 1");
    assert_true(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    expect_span(value, "");
    assert_true(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
    expect_span(value, "4 5");
    assert_false(request_next_value(&request, REQUEST_ACCEPT, &at, &value));
}

/* --- Methods --- */

TEST(methods_have_their_names)
{
#define CHECK(name) assert_int_equal(http_method_find(SPAN(#name)), METHOD_##name);
    ALL_METHODS(CHECK)
#undef CHECK
}

TEST(other_methods_are_registered_or_unknown)
{
    static const char *const registered[] = {"ACL", "PROPFIND", "QUERY", "VERSION-CONTROL"},
                             *const unknown[] = {"PRI", "get",  "GETS", "GE",   "",
                                                 "acl", "ACLS", "Head", "NONE", "VERSION"};

    for (size_t i = 0; i < ARRAY_LENGTH(registered); i++)
        assert_int_equal(http_method_find(span_of(registered[i])), METHOD_REGISTERED);
    for (size_t i = 0; i < ARRAY_LENGTH(unknown); i++)
        assert_int_equal(http_method_find(span_of(unknown[i])), METHOD_UNKNOWN);
}

enum { LINE_BYTES = 128 };

static struct request request;
static struct head head;

static int begin(void **state)
{
    (void)state;
    request_clear(&request);
    request.minor_version = 1;
    head = (struct head){.request = &request};
    return 0;
}

const struct test_fixture test_fixture = {begin, NULL};

/* Returns the status of a field line with VALUE. Its memory lasts for the next three lines. */
static int take(field_handler *handler, const char *value)
{
    static char lines[4][LINE_BYTES];
    static size_t number;
    char *line = lines[number++ % ARRAY_LENGTH(lines)];
    int length = snprintf(line, LINE_BYTES, "Any-Name: %s", value),
        start = (int)strlen("Any-Name: ");

    assert_true(length < LINE_BYTES);
    head.start = line;
    head.end = line + length;
    return handler(&head, (struct span){line + start, (size_t)(length - start)});
}

struct status_case {
    const char *value;
    int status;
};

/* Each in a head of its own. */
static void expect_statuses(field_handler *handler, const struct status_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status;

        begin(NULL);
        status = take(handler, cases[i].value);
        if (status != cases[i].status)
            fail_msg("'%s': %d, not %d", cases[i].value, status, cases[i].status);
    }
}

/* --- Host --- */

TEST(host_is_a_host_with_or_without_a_port)
{
    static const struct status_case cases[] = {
        {"example.org", GOOD},
        {"", GOOD},
        {"example.org:8080", GOOD},
        {"a:", GOOD},
        {"a:65535", GOOD},
        {"a:65536", 400},
        {"a:x", 400},
        {"a:80:80", 400},
        {":80", 400},
        {"[::1]", GOOD},
        {"[::1]:80", GOOD},
        {"[::1", 400},
        {"a_b~c", GOOD},
        {"a_b:80", GOOD},
        {"a_b:x", 400},
        {"a b", 400},
        {"user@a", 400},
        {"a/b", 400},
        {"a.rather-long.name", GOOD},
        {"a.rather-long.name/b", 400},
    };

    expect_statuses(request_field_host, cases, ARRAY_LENGTH(cases));
}

TEST(second_host_is_400)
{
    assert_int_equal(take(request_field_host, "a"), GOOD);
    assert_int_equal(head.seen, SEEN_HOST);
    expect_span(request.host, "a");
    assert_int_equal(take(request_field_host, "a"), 400);
}

/* --- The length of the body --- */

TEST(content_length_is_a_number_up_to_2_63)
{
    static const struct {
        const char *value;
        uint64_t number;
    } good[] = {{"0", 0},
                {"1", 1},
                {"007", 7},
                {"1234567890", 1234567890},
                {"00000000000000000000000000000000000005", 5},
                {"9223372036854775800", INT64_MAX - 7},
                {"9223372036854775807", INT64_MAX}};
    static const struct status_case wrong[] = {
        {"", 400},
        {"-1", 400},
        {"+1", 400},
        {"1 2", 400},
        {"1, 1", 400},
        {"x", 400},
        {"0x1", 400},
        {"9223372036854775808", 400},
        {"9223372036854775810", 400},
        {"18446744073709551616", 400},
        {"92233720368547758070", 400},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_content_length, good[i].value), GOOD);
        assert_true(request.content_length == good[i].number);
        assert_int_equal(head.seen, SEEN_CONTENT_LENGTH);
    }
    expect_statuses(request_field_content_length, wrong, ARRAY_LENGTH(wrong));
}

TEST(second_content_length_is_400)
{
    assert_int_equal(take(request_field_content_length, "5"), GOOD);
    assert_int_equal(take(request_field_content_length, "5"), 400);
}

TEST(transfer_codings_end_with_chunked)
{
    static const struct {
        const char *value;
        bool chunked, unknown;
    } good[] = {{"chunked", true, false},
                {"CHUNKED", true, false},
                {"gzip", false, true},
                {"gzip, chunked", true, true},
                {"gzip;q=1 ,chunked", true, true},
                {"gzip ; a=b", false, true},
                {"chunke", false, true},
                {"!x_y", false, true}};
    static const struct status_case wrong[] = {
        {"", 400},         {", chunked", 400}, {"chunked, chunked", 400}, {"chunked, gzip", 400},
        {"chunked,", 400}, {"chunked;a", 400}, {"chunked x", 400},        {"gzip x", 400},
        {"\"gzip\"", 400}, {";a", 400},        {"gzip, gzip x", 400},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_transfer_encoding, good[i].value), GOOD);
        assert_int_equal(request.chunked, good[i].chunked);
        assert_int_equal(head.unknown_coding, good[i].unknown);
        assert_int_equal(head.seen, SEEN_TRANSFER_ENCODING);
    }
    expect_statuses(request_field_transfer_encoding, wrong, ARRAY_LENGTH(wrong));
}

TEST(codings_of_all_lines_count)
{
    assert_int_equal(take(request_field_transfer_encoding, "gzip"), GOOD);
    assert_int_equal(take(request_field_transfer_encoding, "chunked"), GOOD);
    assert_true(head.unknown_coding && request.chunked);
    assert_int_equal(take(request_field_transfer_encoding, "gzip"), 400);
}

TEST(http_1_0_has_no_transfer_codings)
{
    request.minor_version = 0;
    assert_int_equal(take(request_field_transfer_encoding, "chunked"), 400);
    assert_int_equal(head.seen, SEEN_TRANSFER_ENCODING);
}

/* --- Connection and Expect --- */

TEST(connection_options_are_close_and_keep_alive)
{
    static const struct {
        const char *value;
        bool close, keep_alive;
    } cases[] = {{"keep-alive", false, true},
                 {"Keep-Alive", false, true},
                 {"close", true, false},
                 {"CLOSE", true, false},
                 {"foo, close", true, false},
                 {"keep-alivf", false, false},
                 {"close ,\tkeep-alive", true, true},
                 {"keep-alive,", false, true},
                 {",, close", true, false},
                 {"TE, keep-alive, x", false, true},
                 {"", false, false},
                 {"closed, enclose", false, false}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_connection, cases[i].value), GOOD);
        if (head.close != cases[i].close || head.keep_alive != cases[i].keep_alive)
            fail_msg("%s", cases[i].value);
    }
}

TEST(options_of_all_lines_count)
{
    take(request_field_connection, "keep-alive");
    take(request_field_connection, "close");
    take(request_field_connection, "TE");
    assert_true(head.keep_alive && head.close);
}

TEST(expectation_other_than_100_continue_is_417)
{
    static const struct status_case cases[] = {
        {"100-continue", GOOD},
        {"100-Continue", GOOD},
        {"", GOOD},
        {",", GOOD},
        {"100-continue,", GOOD},
        {"100-continue=1", 417},
        {"200-ok", 417},
        {"100-continue, other", 417},
        {"other, 100-continue", 417},
    };

    expect_statuses(request_field_expect, cases, ARRAY_LENGTH(cases));
    begin(NULL);
    take(request_field_expect, ",");
    assert_false(request.expect_continue);
    take(request_field_expect, "100-continue");
    take(request_field_expect, "");
    assert_true(request.expect_continue);
}

/* --- Stored fields --- */

TEST(first_value_of_a_logged_field_is_kept)
{
    assert_int_equal(take(request_field_referer, ""), GOOD);
    assert_int_equal(take(request_field_user_agent, "1"), GOOD);
    assert_int_equal(take(request_field_referer, "2"), GOOD);
    assert_int_equal(take(request_field_user_agent, "2"), GOOD);
    assert_non_null(request.referer.start);
    expect_span(request.referer, "");
    expect_span(request.user_agent, "1");
}

TEST(selecting_fields_have_bits)
{
    static const struct {
        field_handler *handler;
        const struct span *span;
        enum request_field bit;
    } cases[] = {
        {request_field_accept, &request.accept, REQUEST_ACCEPT},
        {request_field_accept_encoding, &request.accept_encoding, REQUEST_ACCEPT_ENCODING},
        {request_field_if_match, &request.if_match, REQUEST_IF_MATCH},
        {request_field_if_none_match, &request.if_none_match, REQUEST_IF_NONE_MATCH},
        {request_field_if_modified_since, &request.if_modified_since, REQUEST_IF_MODIFIED_SINCE},
        {request_field_if_unmodified_since, &request.if_unmodified_since,
         REQUEST_IF_UNMODIFIED_SINCE},
        {request_field_if_range, &request.if_range, REQUEST_IF_RANGE},
        {request_field_range, &request.range, REQUEST_RANGE},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        begin(NULL);
        assert_int_equal(take(cases[i].handler, "first"), GOOD);
        assert_int_equal(request.present, cases[i].bit);
        assert_int_equal(request.repeated, 0);
        expect_span(*cases[i].span, "first");
        assert_int_equal(take(cases[i].handler, "second"), GOOD);
        assert_int_equal(request.present, cases[i].bit);
        assert_int_equal(request.repeated, cases[i].bit);
        expect_span(*cases[i].span, "first");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        take(cases[i].handler, "");
    assert_int_equal(request.present, 0xff);
}

/* --- Names --- */

TEST(handlers_are_found_by_name)
{
    static const struct {
        const char *name, *other; /* OTHER has the same length and is ignored */
        field_handler *handler;
    } cases[] = {
        {"Host", "Hast", request_field_host},
        {"range", "rangf", request_field_range},
        {"ACCEPT", "accepu", request_field_accept},
        {"Expect", "Except", request_field_expect},
        {"Referer", "Refeser", request_field_referer},
        {"If-Match", "If-Catch", request_field_if_match},
        {"If-Range", "If-Rande", request_field_if_range},
        {"User-Agent", "User-Agend", request_field_user_agent},
        {"Connection", "Convection", request_field_connection},
        {"If-None-Match", "If-Some-Match", request_field_if_none_match},
        {"Content-Length", "Content-Lenght", request_field_content_length},
        {"Accept-Encoding", "Accept-Encodinh", request_field_accept_encoding},
        {"If-Modified-Since", "If-Modified-Sinde", request_field_if_modified_since},
        {"Transfer-Encoding", "Transfer_Encodin", request_field_transfer_encoding},
        {"If-Unmodified-Since", "If-Unmodifief-Since", request_field_if_unmodified_since},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *name = cases[i].name, *other = cases[i].other;

        if (request_field_find((struct span){name, strlen(name)}) != cases[i].handler ||
            request_field_find((struct span){other, strlen(other)}) != NULL)
            fail_msg("%s", name);
    }
    assert_null(request_field_find(SPAN("")));
    assert_null(request_field_find(SPAN("Hos")));
    assert_null(request_field_find(SPAN("A-Rather-Long-Name-Of-A-Field")));
}
