/* Escaped names and texts have no special meaning in HTML, JSON, URLs, logs and on terminals. */
#include "common/escape.h"
#include "common/macros.h"
#include "tests/test.h"

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

TEST(names_are_escaped)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char path[256] = "";

        check(escape_html, cases[i].name, cases[i].html);
        check(escape_json, cases[i].name, cases[i].json);
        assert_int_equal(escape_path(path, sizeof(path), cases[i].name), strlen(cases[i].path));
        assert_string_equal(path, cases[i].path);
    }
}

TEST(long_path_is_cut)
{
    char path[8] = "-------";

    assert_int_equal(escape_path(path, 4, "ab c"), 6);
    assert_string_equal(path, "ab%2---");
}

TEST(query_keeps_triplets_only)
{
    static const char *const queries[][2] = {
        {"", ""},          {"a=b&c?/", "a=b&c?/"}, {"%41%fF", "%41%fF"},     {"%", "%25"},
        {"%4", "%254"},    {"%zz", "%25zz"},       {"%4g%g4", "%254g%25g4"}, {"%%41%", "%25%41%25"},
        {"\"<", "%22%3C"}, {"\xc3", "%C3"},
    };
    char query[32];

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct span text = span_of(queries[i][0]);

        query[escape_query(query, sizeof(query) - 1, text)] = '\0';
        assert_string_equal(query, queries[i][1]);
    }
}

TEST(bytes_are_escaped_and_cut_between_characters)
{
    char text[8];

    assert_string_equal(escape_bytes(text, sizeof(text), "a\x1b\\", 3), "a\\x1b");
    assert_string_equal(escape_bytes(text, sizeof(text), "abcdefghij", 10), "abcdefg");
    assert_string_equal(escape_bytes(text, sizeof(text), "", 0), "");
}

/* Texts for a terminal or a log: readable UTF-8 stays, everything else is \xHH. */
static const struct {
    const char *bytes, *text;
} texts[] = {
    {"", ""},
    {"plain \\ text", "plain \\ text"},
    {"a\nb\rc\td", "a\\x0ab\\x0dc\\x09d"},
    {"\x1b[2J\x07\x08", "\\x1b[2J\\x07\\x08"},
    {"\x7f", "\\x7f"},
    {"\xc2\x80\xc2\x9b\xc2\x9f", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f"}, /* C1 */
    {"\x9b", "\\x9b"},                                              /* C1 in Latin-1 */
    {"\xc2\xa0\xc3\xa4", "\xc2\xa0\xc3\xa4"},
    {"\xd8\x9c", "\\xd8\\x9c"},               /* U+061C */
    {"\xe2\x80\x8d", "\xe2\x80\x8d"},         /* U+200D */
    {"\xe2\x80\x8e", "\\xe2\\x80\\x8e"},      /* U+200E */
    {"\xe2\x80\x8f", "\\xe2\\x80\\x8f"},      /* U+200F */
    {"\xe2\x80\xa7", "\xe2\x80\xa7"},         /* U+2027 */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},      /* U+2028 */
    {"\xe2\x80\xa9", "\\xe2\\x80\\xa9"},      /* U+2029 */
    {"\xe2\x80\xaa", "\\xe2\\x80\\xaa"},      /* U+202A */
    {"\xe2\x80\xae", "\\xe2\\x80\\xae"},      /* U+202E */
    {"\xe2\x80\xaf", "\xe2\x80\xaf"},         /* U+202F */
    {"\xe2\x81\xa5", "\xe2\x81\xa5"},         /* U+2065 */
    {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},      /* U+2066 */
    {"\xe2\x81\xa9", "\\xe2\\x81\\xa9"},      /* U+2069 */
    {"\xe2\x81\xaa", "\xe2\x81\xaa"},         /* U+206A */
    {"\xe6\x97\xa5", "\xe6\x97\xa5"},         /* a letter */
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}, /* beyond U+FFFF */
    {"\xff\xc3", "\\xff\\xc3"},
    {"\xc0\x8a", "\\xc0\\x8a"}, /* overlong newline */
    {"\xe0\x80\x8a", "\\xe0\\x80\\x8a"},
    {"\xf0\x80\x80\x8a", "\\xf0\\x80\\x80\\x8a"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
    {"\xf8\x90\x80\x80", "\\xf8\\x90\\x80\\x80"},
    {"\xe6\x97", "\\xe6\\x97"},
};

TEST(texts_keep_readable_characters_only)
{
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        char text[64], again[64];

        escape_text(text, sizeof(text), texts[i].bytes, strlen(texts[i].bytes));
        assert_string_equal(text, texts[i].text);
        assert_string_equal(escape_text(again, sizeof(again), text, strlen(text)), text);
        check(escape_print, texts[i].bytes, texts[i].text);
    }
}

TEST(lines_keep_newlines_and_tabs)
{
    static const char lines[] = "a\n\tb\r\x1b\n";
    char text[64];

    assert_string_equal(escape_lines(text, sizeof(text), lines, strlen(lines)),
                        "a\n\tb\\x0d\\x1b\n");
    check(escape_print_lines, lines, "a\n\tb\\x0d\\x1b\n");
    assert_string_equal(escape_lines(text, sizeof(text), "a\0b", 3), "a\\x00b");
}

TEST(text_is_cut_between_characters)
{
    char text[6];

    assert_string_equal(escape_text(text, sizeof(text), "abcde\xc3\xa4", 7), "abcde");
    assert_string_equal(escape_text(text, sizeof(text), "abcd\xc3\xa4", 6), "abcd");
    assert_string_equal(escape_text(text, sizeof(text), "a\x1b", 2), "a\\x1b");
    assert_string_equal(escape_text(text, sizeof(text), "ab\x1b", 3), "ab");
    assert_string_equal(escape_text(text, sizeof(text), "\xc3\xa4", 1), "\\xc3");
    assert_string_equal(escape_text(text, 1, "a", 1), "");
}

TEST(json_text_keeps_its_meaning)
{
    static const struct {
        const char *json, *safe;
    } rows[] = {
        {"{\"a\": \"\xc3\xa4\"}\n", "{\"a\": \"\xc3\xa4\"}\n"},
        {"[\"\x7f\xc2\x9b\xe2\x80\xae\"]", "[\"\\u007f\\u009b\\u202e\"]"},
        {"\"\x1b\xff\"", "\"\\u001b\\ufffd\""},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char *safe = escape_json_text(rows[i].json);

        assert_non_null(safe);
        assert_string_equal(safe, rows[i].safe);
        free(safe);
    }
}

TEST(utf8_is_recognized)
{
    assert_true(escape_utf8_valid(""));
    assert_true(escape_utf8_valid("\x1b \xc3\xa4 \xf0\x9f\x98\x80"));
    assert_false(escape_utf8_valid("a\xff"));
    assert_false(escape_utf8_valid("\xe6\x97"));
}
