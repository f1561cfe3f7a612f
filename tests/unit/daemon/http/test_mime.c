/* Media types: the built-in list, what the configuration adds, and which part of a name counts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/http/mime.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char unknown[] = "application/octet-stream";

static const struct {
    const char *ending, *type;
} built_in[] = {
#define MIME(ending, type) {ending, type},
#include "common/mime.def"
#undef MIME
};

static void built_in_types_are_known_in_any_letter_case(void **state)
{
    struct mime_table *table = mime_table_new(NULL, NULL, 0);
    char path[64];

    (void)state;
    assert_non_null(table);
    for (size_t i = 0; i < ARRAY_LENGTH(built_in); i++) {
        snprintf(path, sizeof(path), "/folder.d/name.%s", built_in[i].ending);
        assert_string_equal(mime_type(table, path), built_in[i].type);
        for (char *letter = strrchr(path, '.'); *letter != '\0'; letter++)
            *letter = (char)toupper((unsigned char)*letter);
        assert_string_equal(mime_type(table, path), built_in[i].type);
    }
    mime_table_free(table);
}

static void the_last_ending_of_the_last_segment_counts(void **state)
{
    static const struct {
        const char *path, *type;
    } cases[] = {
        {"/a.b.html", "text/html; charset=utf-8"},
        {"/a.tar.gz", "application/gzip"},
        {"/a.html.gz", "application/gzip"},
        {"a.css", "text/css; charset=utf-8"},
        {"/..html", "text/html; charset=utf-8"},
        {"/", unknown},
        {"", unknown},
        {"/html", unknown},
        {"/a.html/", unknown},
        {"/a.html/b", unknown},
        {"/a.", unknown},
        {"/a.html.", unknown},
        {"/.html", unknown}, /* a hidden name, not an ending */
        {"/a/.css", unknown},
        {"/a.htmlx", unknown},
        {"/a.htm l", unknown},
        {"/a.an-ending-that-is-longer-than-any-other-one", unknown},
        {"/a.\xff", unknown},
    };
    struct mime_table *table = mime_table_new(NULL, NULL, 0);

    (void)state;
    assert_non_null(table);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (strcmp(mime_type(table, cases[i].path), cases[i].type) != 0)
            fail_msg("%s: %s", cases[i].path, mime_type(table, cases[i].path));
    mime_table_free(table);
}

static void the_configuration_adds_and_overrides(void **state)
{
    static const char *const endings[] = {"GMI", "html", "x-y_z", "gmi2", "dup", "DUP"};
    static const char *const types[] = {"text/gemini", "text/plain", "a/b", "c/d", "e/1", "e/2"};
    struct mime_table *table = mime_table_new(endings, types, ARRAY_LENGTH(endings));

    (void)state;
    assert_non_null(table);
    assert_string_equal(mime_type(table, "/a.gmi"), "text/gemini");
    assert_string_equal(mime_type(table, "/a.GMI"), "text/gemini");
    assert_string_equal(mime_type(table, "/a.HTML"), "text/plain");
    assert_string_equal(mime_type(table, "/a.x-y_z"), "a/b");
    assert_string_equal(mime_type(table, "/a.gmi2"), "c/d");
    assert_string_equal(mime_type(table, "/a.dup"), "e/2"); /* the later one */
    assert_string_equal(mime_type(table, "/a.css"), "text/css; charset=utf-8");
    mime_table_free(table);
}

static void a_large_table_finds_all(void **state)
{
    enum { COUNT = 2000 };
    static char texts[COUNT][16];
    static const char *endings[COUNT];
    struct mime_table *table;
    char path[32];

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof(texts[i]), "e%zu", i);
        endings[i] = texts[i];
    }
    table = mime_table_new(endings, endings, COUNT); /* each ending its own type */
    assert_non_null(table);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(path, sizeof(path), "/x.E%zu", i);
        assert_ptr_equal(mime_type(table, path), endings[i]);
    }
    assert_string_equal(mime_type(table, "/x.e2000"), unknown);
    mime_table_free(table);
    mime_table_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_types_are_known_in_any_letter_case),
        cmocka_unit_test(the_last_ending_of_the_last_segment_counts),
        cmocka_unit_test(the_configuration_adds_and_overrides),
        cmocka_unit_test(a_large_table_finds_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
