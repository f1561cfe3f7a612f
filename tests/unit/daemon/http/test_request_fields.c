/* What the server makes of each header field of a request, one field line at a time. */
#include "daemon/http/request_fields.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

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

static void expect_span(struct span span, const char *expected)
{
    if (!span_is(span, (struct span){expected, strlen(expected)}))
        fail_msg("'%.*s', not '%s'", (int)span.length, span.start, expected);
}

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

static void host_is_a_host_with_or_without_a_port(void **state)
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

    (void)state;
    expect_statuses(request_field_host, cases, ARRAY_LENGTH(cases));
}

static void second_host_is_400(void **state)
{
    (void)state;
    assert_int_equal(take(request_field_host, "a"), GOOD);
    assert_int_equal(head.seen, SEEN_HOST);
    expect_span(request.host, "a");
    assert_int_equal(take(request_field_host, "a"), 400);
}

/* --- The length of the body --- */

static void content_length_is_a_number_up_to_2_63(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_content_length, good[i].value), GOOD);
        assert_true(request.content_length == good[i].number);
        assert_int_equal(head.seen, SEEN_CONTENT_LENGTH);
    }
    expect_statuses(request_field_content_length, wrong, ARRAY_LENGTH(wrong));
}

static void second_content_length_is_400(void **state)
{
    (void)state;
    assert_int_equal(take(request_field_content_length, "5"), GOOD);
    assert_int_equal(take(request_field_content_length, "5"), 400);
}

static void transfer_codings_end_with_chunked(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_transfer_encoding, good[i].value), GOOD);
        assert_int_equal(request.chunked, good[i].chunked);
        assert_int_equal(head.unknown_coding, good[i].unknown);
        assert_int_equal(head.seen, SEEN_TRANSFER_ENCODING);
    }
    expect_statuses(request_field_transfer_encoding, wrong, ARRAY_LENGTH(wrong));
}

static void codings_of_all_lines_count(void **state)
{
    (void)state;
    assert_int_equal(take(request_field_transfer_encoding, "gzip"), GOOD);
    assert_int_equal(take(request_field_transfer_encoding, "chunked"), GOOD);
    assert_true(head.unknown_coding && request.chunked);
    assert_int_equal(take(request_field_transfer_encoding, "gzip"), 400);
}

static void http_1_0_has_no_transfer_codings(void **state)
{
    (void)state;
    request.minor_version = 0;
    assert_int_equal(take(request_field_transfer_encoding, "chunked"), 400);
    assert_int_equal(head.seen, SEEN_TRANSFER_ENCODING);
}

/* --- Connection and Expect --- */

static void connection_options_are_close_and_keep_alive(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        begin(NULL);
        assert_int_equal(take(request_field_connection, cases[i].value), GOOD);
        if (head.close != cases[i].close || head.keep_alive != cases[i].keep_alive)
            fail_msg("%s", cases[i].value);
    }
}

static void options_of_all_lines_count(void **state)
{
    (void)state;
    take(request_field_connection, "keep-alive");
    take(request_field_connection, "close");
    take(request_field_connection, "TE");
    assert_true(head.keep_alive && head.close);
}

static void expectation_other_than_100_continue_is_417(void **state)
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

    (void)state;
    expect_statuses(request_field_expect, cases, ARRAY_LENGTH(cases));
    begin(NULL);
    take(request_field_expect, ",");
    assert_false(request.expect_continue);
    take(request_field_expect, "100-continue");
    take(request_field_expect, "");
    assert_true(request.expect_continue);
}

/* --- Stored fields --- */

static void first_value_of_a_logged_field_is_kept(void **state)
{
    (void)state;
    assert_int_equal(take(request_field_referer, ""), GOOD);
    assert_int_equal(take(request_field_user_agent, "1"), GOOD);
    assert_int_equal(take(request_field_referer, "2"), GOOD);
    assert_int_equal(take(request_field_user_agent, "2"), GOOD);
    assert_non_null(request.referer.start);
    expect_span(request.referer, "");
    expect_span(request.user_agent, "1");
}

static void selecting_fields_have_bits(void **state)
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

    (void)state;
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

static void handlers_are_found_by_name(void **state)
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

    (void)state;
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        TEST(host_is_a_host_with_or_without_a_port),
        TEST(second_host_is_400),
        TEST(content_length_is_a_number_up_to_2_63),
        TEST(second_content_length_is_400),
        TEST(transfer_codings_end_with_chunked),
        TEST(codings_of_all_lines_count),
        TEST(http_1_0_has_no_transfer_codings),
        TEST(connection_options_are_close_and_keep_alive),
        TEST(options_of_all_lines_count),
        TEST(expectation_other_than_100_continue_is_417),
        TEST(first_value_of_a_logged_field_is_kept),
        TEST(selecting_fields_have_bits),
        TEST(handlers_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
