/* Names in HTML, JSON and URLs have no special meaning there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/escape.h"
#include "common/macros.h"

#include <stdlib.h>
#include <string.h>

#define NO_TEXT "\xef\xbf\xbd"

static const struct {
    const char *name, *html, *json, *path;
} cases[] = {
    {"", "", "", ""},
    {"plain.txt", "plain.txt", "plain.txt", "plain.txt"},
    {"a b", "a b", "a b", "a%20b"},
    {"<i>&\"'", "&lt;i&gt;&amp;&quot;&#39;", "<i>&\\\"'", "%3Ci%3E&%22'"},
    {"100%?#", "100%?#", "100%?#", "100%25%3F%23"},
    {"a\\b", "a\\b", "a\\\\b", "a%5Cb"},
    {"\t\n\x7f", NO_TEXT NO_TEXT NO_TEXT, "\\u0009\\u000a\\u007f", "%09%0A%7F"},
    {"/a/b:c@d", "/a/b:c@d", "/a/b:c@d", "/a/b:c@d"},
    {"\xc3\xa4", "\xc3\xa4", "\xc3\xa4", "%C3%A4"},
    {"\xe6\x97\xa5", "\xe6\x97\xa5", "\xe6\x97\xa5", "%E6%97%A5"},
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "%F0%9F%98%80"},
    /* invalid UTF-8: stray byte, cut, overlong, surrogate, above U+10FFFF */
    {"\xff", NO_TEXT, NO_TEXT, "%FF"},
    {"a\x80z", "a" NO_TEXT "z", "a" NO_TEXT "z", "a%80z"},
    {"\xc3", NO_TEXT, NO_TEXT, "%C3"},
    {"\xe6\x97", NO_TEXT NO_TEXT, NO_TEXT NO_TEXT, "%E6%97"},
    {"\xc3<", NO_TEXT "&lt;", NO_TEXT "<", "%C3%3C"},
    {"\xc0\xaf", NO_TEXT NO_TEXT, NO_TEXT NO_TEXT, "%C0%AF"},
    {"\xe0\x80\xaf", NO_TEXT NO_TEXT NO_TEXT, NO_TEXT NO_TEXT NO_TEXT, "%E0%80%AF"},
    {"\xed\xa0\x80", NO_TEXT NO_TEXT NO_TEXT, NO_TEXT NO_TEXT NO_TEXT, "%ED%A0%80"},
    {"\xf4\x90\x80\x80", NO_TEXT NO_TEXT NO_TEXT NO_TEXT, NO_TEXT NO_TEXT NO_TEXT NO_TEXT,
     "%F4%90%80%80"},
    {"\xf0\x80\x80\x80", NO_TEXT NO_TEXT NO_TEXT NO_TEXT, NO_TEXT NO_TEXT NO_TEXT NO_TEXT,
     "%F0%80%80%80"},
};

static void check(void (*escape)(FILE *, const char *), const char *name, const char *expected)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    escape(out, name);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void names_are_escaped(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char path[256] = "";

        check(escape_html, cases[i].name, cases[i].html);
        check(escape_json, cases[i].name, cases[i].json);
        assert_int_equal(escape_path(path, sizeof(path), cases[i].name), strlen(cases[i].path));
        assert_string_equal(path, cases[i].path);
    }
}

static void long_path_is_cut(void **state)
{
    char path[8] = "-------";

    (void)state;
    assert_int_equal(escape_path(path, 4, "ab c"), 6);
    assert_string_equal(path, "ab%2---");
}

static void bytes_are_escaped_and_cut_between_characters(void **state)
{
    char text[8];

    (void)state;
    assert_string_equal(escape_bytes(text, sizeof(text), "a\x1b\\", 3), "a\\x1b");
    assert_string_equal(escape_bytes(text, sizeof(text), "abcdefghij", 10), "abcdefg");
    assert_string_equal(escape_bytes(text, sizeof(text), "", 0), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(long_path_is_cut),
        cmocka_unit_test(bytes_are_escaped_and_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
