/* Field lines of a request that are found by name. What the server makes of them: integration/rfc. */
#include "common/macros.h"
#include "daemon/http/request.h"
#include "tests/test.h"

#include <string.h>

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

/* --- Fields with a handler --- */

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

        if (request_field_find(span_of(name)) != cases[i].handler ||
            request_field_find(span_of(other)) != NULL)
            fail_msg("%s", name);
    }
    assert_null(request_field_find(SPAN("")));
    assert_null(request_field_find(SPAN("Hos")));
    assert_null(request_field_find(SPAN("A-Rather-Long-Name-Of-A-Field")));
}
