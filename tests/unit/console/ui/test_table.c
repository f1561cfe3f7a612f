/* Keys, names of columns, text as cells. */
#include "console/ui/keys.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "tests/test.h"

#include <locale.h>
#include <string.h>

/* Every key has one action, and every action a help text. */
TEST(keys_are_unambiguous)
{
    for (int i = 0; i < ACTION_COUNT; i++) {
        assert_true(key_table[i].first != 0 && strlen(key_table[i].help) > 0);
        assert_int_equal(key_action(key_table[i].first), i);
        if (key_table[i].second != 0)
            assert_int_equal(key_action(key_table[i].second), i);
    }
    assert_int_equal(key_action(0), ACTION_NONE);
    assert_int_equal(key_action('~'), ACTION_NONE);
}

TEST(column_has_three_names)
{
    static const struct column rate = {
        .title = "REQ/S", .name = "requests_per_s", .output = OUTPUT_PLAIN};
    static const struct column took = {.title = "TOOK", .output = OUTPUT_NS};
    static const struct {
        const struct column *column;
        const char *word;
        bool named;
    } cases[] = {
        {&rate, "req/s", true},     {&rate, "REQ/S", true},   {&rate, "req_s", true},
        {&rate, "req.s", true},     {&rate, "reqs", false},   {&rate, "requests_per_s", true},
        {&rate, "requests", false}, {&rate, "", false},       {&took, "took", true},
        {&took, "took_ns", true},   {&took, "tookns", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (column_is_named(cases[i].column, cases[i].word) != cases[i].named)
            fail_msg("%s: %s", cases[i].column->title, cases[i].word);
}

TEST(text_has_no_control_characters_on_the_screen)
{
    static const char text[] = "a\x1b[2J\nb\xc2\x9b\xe2\x80\xae\xc3\xa4";
    static const char invisible[] = "e\xcc\x81\xe2\x80\x8bz"; /* combining, zero width */
    wchar_t cells[48];

    assert_non_null(setlocale(LC_ALL, "C.UTF-8"));
    assert_int_equal(text_cells(text, cells, 48), 34);
    assert_memory_equal(cells, L"a\\x1b[2J\\x0ab\\xc2\\x9b\\xe2\\x80\\xae\u00e4",
                        34 * sizeof(*cells));
    assert_int_equal(text_columns(text), 34);
    assert_int_equal(text_cells(invisible, cells, 48), 22);
    assert_memory_equal(cells, L"e\\xcc\\x81\\xe2\\x80\\x8bz", 22 * sizeof(*cells));
    assert_int_equal(text_fitting(invisible, 8), 1);
    assert_int_equal(text_cells("\xff", cells, 32), 0);
}
