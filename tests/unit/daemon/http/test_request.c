/* Field lines of a request, found by name, and the methods. Each request is a list of field lines. */
#include "daemon/http/request.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void lines_of_a_name_come_in_order(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_true(request_next_line(&request, SPAN("forwarded"), &at, &value));
        expect_span(value, expected[i]);
    }
    assert_false(request_next_line(&request, SPAN("forwarded"), &at, &value));
}

static void shorter_line_has_no_longer_name(void **state)
{
    const struct request request = request_of("A:\r\nAbc: 1\r\nA:\r\n");
    const char *at = NULL;
    struct span value;

    (void)state;
    assert_true(request_next_line(&request, SPAN("abc"), &at, &value));
    expect_span(value, "1");
    assert_false(request_next_line(&request, SPAN("abc"), &at, &value));
    at = NULL;
    assert_false(request_next_line(&request, SPAN("abcdefghijkl"), &at, &value));
}

static void request_without_fields_has_no_line(void **state)
{
    const struct request none = request_of(""), unset = {.fields = {NULL, 0}};
    const char *at = NULL;
    struct span value;

    (void)state;
    assert_false(request_next_line(&none, SPAN("a"), &at, &value));
    at = NULL;
    assert_false(request_next_line(&unset, SPAN("a"), &at, &value));
    assert_int_equal(request_find_field(&unset, SPAN("a"), &value), 0);
}

static void field_is_found_with_its_number_of_lines(void **state)
{
    const struct request request = request_of("A: 1\r\nB: 2\r\nb: 3\r\nB: 4\r\n");
    struct span value = SPAN("unchanged");

    (void)state;
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

static void values_are_those_of_the_field(void **state)
{
    const struct request request = request_of_all(0xff);

    (void)state;
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
static void field_that_is_not_repeated_has_one_value(void **state)
{
    const struct request request = request_of_all(REQUEST_RANGE);
    const char *at = NULL;
    struct span value;

    (void)state;
    assert_true(request_next_value(&request, REQUEST_IF_MATCH, &at, &value));
    expect_span(value, "2");
    assert_false(request_next_value(&request, REQUEST_IF_MATCH, &at, &value));
}

static void field_that_is_absent_has_no_value(void **state)
{
    struct request request = request_of_all(0xff);
    const char *at = NULL;
    struct span value;

    (void)state;
    request.present = 0xff & ~REQUEST_IF_RANGE;
    assert_false(request_next_value(&request, REQUEST_IF_RANGE, &at, &value));
    assert_true(request_next_value(&request, REQUEST_RANGE, &at, &value));
}

static void value_may_contain_a_field_line(void **state)
{
    struct request request = request_of("Accept: accept: 1\r\nX: accept: 2\r\nAccepts: 3\r\n"
                                        "Accept:\r\nAccept: \t4 5 \r\n");
    const char *at = NULL;
    struct span value;

    (void)state;
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

static void methods_have_their_names(void **state)
{
    (void)state;
#define CHECK(name) assert_int_equal(http_method_find(SPAN(#name)), METHOD_##name);
    ALL_METHODS(CHECK)
#undef CHECK
}

static void other_methods_are_registered_or_unknown(void **state)
{
    static const char *const registered[] = {"ACL", "PROPFIND", "QUERY", "VERSION-CONTROL"},
                             *const unknown[] = {"PRI", "get",  "GETS", "GE",   "",
                                                 "acl", "ACLS", "Head", "NONE", "VERSION"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(registered); i++)
        assert_int_equal(http_method_find(span_of(registered[i])), METHOD_REGISTERED);
    for (size_t i = 0; i < ARRAY_LENGTH(unknown); i++)
        assert_int_equal(http_method_find(span_of(unknown[i])), METHOD_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_name_come_in_order),
        cmocka_unit_test(shorter_line_has_no_longer_name),
        cmocka_unit_test(request_without_fields_has_no_line),
        cmocka_unit_test(field_is_found_with_its_number_of_lines),
        cmocka_unit_test(values_are_those_of_the_field),
        cmocka_unit_test(field_that_is_not_repeated_has_one_value),
        cmocka_unit_test(field_that_is_absent_has_no_value),
        cmocka_unit_test(value_may_contain_a_field_line),
        cmocka_unit_test(methods_have_their_names),
        cmocka_unit_test(other_methods_are_registered_or_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
