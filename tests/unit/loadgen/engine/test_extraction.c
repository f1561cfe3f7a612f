/* Values taken from responses. */
#include "common/macros.h"
#include "loadgen/engine/extraction.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a take are not written to. */
static struct scenario_take take_of(enum scenario_source source, const char *key,
                                    const char *before, const char *after)
{
    return (struct scenario_take){.source = source,
                                  .key = (char *)(uintptr_t)key,
                                  .before = (char *)(uintptr_t)before,
                                  .after = (char *)(uintptr_t)after};
}

TEST(value_is_taken_from_a_body)
{
    static const struct {
        enum scenario_source source;
        const char *key, *before, *after, *body, *value; /* value: or the reason in brackets */
    } cases[] = {
        {SCENARIO_BODY, NULL, NULL, NULL, "all", "all"},
        {SCENARIO_BODY, NULL, NULL, NULL, "", ""},
        {SCENARIO_BODY, NULL, "<", ">", "a<b>c>", "b"},
        {SCENARIO_BODY, NULL, "<", "", "a<b>c", "b>c"},
        {SCENARIO_BODY, NULL, "", ">", "a<b>c", "a<b"},
        {SCENARIO_BODY, NULL, "", "", "", ""},
        {SCENARIO_BODY, NULL, "<", ">", "a>b<c", "[no text between \"<\" and \">\"]"},
        {SCENARIO_BODY, NULL, "<", ">", "", "[no text between \"<\" and \">\"]"},
        {SCENARIO_JSON, "a", NULL, NULL, "{\"a\": \"b \\u00e9\"}", "b \xc3\xa9"},
        {SCENARIO_JSON, "a.1.b", NULL, NULL, "{\"a\": [0, {\"b\": 12}]}", "12"},
        {SCENARIO_JSON, "0", NULL, NULL, "[true]", "true"},
        {SCENARIO_JSON, "a", "/", "", "{\"a\": \"x/y\"}", "y"},
        {SCENARIO_JSON, "a.b", NULL, NULL, "{\"a\": 1}", "[no JSON member 'a.b' in the body]"},
        {SCENARIO_JSON, "a", NULL, NULL, "[1]", "[no JSON member 'a' in the body]"},
        {SCENARIO_JSON, "9", NULL, NULL, "[1]", "[no JSON member '9' in the body]"},
        {SCENARIO_JSON, "a", NULL, NULL, "{\"a\": null}",
         "[the JSON member 'a' is not a string, number, true or false]"},
        {SCENARIO_JSON, "a", NULL, NULL, "{\"a\": {}}",
         "[the JSON member 'a' is not a string, number, true or false]"},
        {SCENARIO_JSON, "a", NULL, NULL, "<html>", "[the body is not JSON]"},
        {SCENARIO_JSON, "a", NULL, NULL, "", "[the body is not JSON]"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct scenario_take take =
            take_of(cases[i].source, cases[i].key, cases[i].before, cases[i].after);
        char why[200] = "", reason[220];
        char *value = extraction_from_body(&take, span_of(cases[i].body), why, sizeof(why));

        snprintf(reason, sizeof(reason), "[%s]", why);
        assert_string_equal(value != NULL ? value : reason, cases[i].value);
        free(value);
    }
}

TEST(value_is_taken_from_a_field)
{
    struct scenario_take field = take_of(SCENARIO_FIELD, "Location", NULL, NULL);
    struct scenario_take cookie = take_of(SCENARIO_COOKIE, "id", NULL, NULL);
    struct span found;

    assert_true(extraction_from_field(&field, SPAN("location"), SPAN("/a"), &found));
    assert_true(span_is(found, SPAN("/a")));
    assert_true(extraction_from_field(&field, SPAN("Location"), (struct span){NULL, 0}, &found));
    assert_true(span_is(found, SPAN("")));
    assert_false(extraction_from_field(&field, SPAN("Locations"), SPAN("/a"), &found));
    assert_true(
        extraction_from_field(&cookie, SPAN("set-cookie"), SPAN(" id = 7=8 ; Path=/"), &found));
    assert_true(span_is(found, SPAN("7=8")));
    assert_true(extraction_from_field(&cookie, SPAN("Set-Cookie"), SPAN("id="), &found));
    assert_true(span_is(found, SPAN("")));
    assert_false(extraction_from_field(&cookie, SPAN("Set-Cookie"), SPAN("ID=1"), &found));
    assert_false(extraction_from_field(&cookie, SPAN("Set-Cookie"), SPAN("a; id=1"), &found));
    assert_false(extraction_from_field(&cookie, SPAN("Cookie"), SPAN("id=1"), &found));
}

TEST(value_is_limited)
{
    static char text[SCENARIO_VALUE_MAX + 1];
    struct scenario_take take = take_of(SCENARIO_BODY, NULL, NULL, NULL);
    char why[200], *value;

    memset(text, 'x', sizeof(text));
    value = extraction_value(&take, (struct span){text, SCENARIO_VALUE_MAX}, why, sizeof(why));
    assert_non_null(value);
    assert_int_equal(strlen(value), SCENARIO_VALUE_MAX);
    free(value);
    assert_null(extraction_value(&take, (struct span){text, sizeof(text)}, why, sizeof(why)));
    assert_string_equal(why, "value of 4097 bytes, more than 4096");
    assert_null(extraction_value(&take, (struct span){"a\0b", 3}, why, sizeof(why)));
    assert_string_equal(why, "NUL byte in the value");
}

TEST(value_is_what_the_group_of_an_expression_matches)
{
    static const struct {
        const char *before, *expression, *text, *value; /* value: or the reason in brackets */
    } cases[] = {
        {NULL, "id=([0-9]+)", "a\nid=x id=12;id=3\nid=4", "12"},
        {NULL, "^id=(.*)$", "xid=1\nid=2 3\r\nid=4", "2 3"},
        {NULL, "a([^b]*)c", "a1\n2c a3c", "3"},
        {NULL, "x(y)?z", "xz\nxyz", "y"},
        {NULL, "x(y*)z", "xz", ""},
        {"<b>", "([0-9]+)", "1<b>2</b>3", "2"},
        {NULL, "id=([0-9]+)", "", "[no line matches \"id=([0-9]+)\"]"},
        {NULL, "id=([0-9]+)", "id=\n5", "[no line matches \"id=([0-9]+)\"]"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct scenario_take take = take_of(SCENARIO_BODY, NULL, cases[i].before, "<");
        char why[200] = "", reason[220], *value;

        take.expression = (char *)(uintptr_t)cases[i].expression;
        assert_int_equal(regcomp(&take.matcher, take.expression, REG_EXTENDED | REG_NEWLINE), 0);
        value = extraction_from_body(&take, span_of(cases[i].text), why, sizeof(why));
        snprintf(reason, sizeof(reason), "[%s]", why);
        assert_string_equal(value != NULL ? value : reason, cases[i].value);
        free(value);
        regfree(&take.matcher);
    }
}

/* A match at the end of what is searched, and one byte behind it. */
TEST(expression_searches_the_begin_of_lines_and_of_the_text)
{
    static char text[SCENARIO_MATCH_TEXT_BYTES + 8];
    static const struct {
        size_t at;      /* of the match */
        size_t newline; /* after every so many bytes; 0: none */
        bool found;
    } cases[] = {{SCENARIO_MATCH_LINE_BYTES - 2, 0, true},
                 {SCENARIO_MATCH_LINE_BYTES - 1, 0, false},
                 {SCENARIO_MATCH_TEXT_BYTES - 2, 100, true},
                 {SCENARIO_MATCH_TEXT_BYTES - 1, 100, false}};
    struct scenario_take take = take_of(SCENARIO_BODY, NULL, NULL, NULL);
    char why[200];

    take.expression = (char *)(uintptr_t) "a(b)";
    assert_int_equal(regcomp(&take.matcher, take.expression, REG_EXTENDED | REG_NEWLINE), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *value;

        for (size_t k = 0; k < sizeof(text); k++)
            text[k] = cases[i].newline > 0 && k % cases[i].newline == 0 ? '\n' : 'x';
        memcpy(text + cases[i].at, "ab", 2);
        value = extraction_from_body(&take, (struct span){text, sizeof(text)}, why, sizeof(why));
        assert_int_equal(value != NULL, cases[i].found);
        free(value);
    }
    regfree(&take.matcher);
    assert_int_equal(regcomp(&take.matcher, "(x)$", REG_EXTENDED | REG_NEWLINE), 0);
    memset(text, 'x', sizeof(text));
    assert_null(extraction_from_body(&take, (struct span){text, sizeof(text)}, why, sizeof(why)));
    regfree(&take.matcher);
}
