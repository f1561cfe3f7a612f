/* Tables, scrolling, numbers as text, keys. */
#include "common/clock.h"
#include "common/macros.h"
#include "console/ui/keys.h"
#include "console/ui/table.h"
#include "console/ui/text.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static const struct column columns[] = {
    {.title = "NAME", .width = 6, .importance = 9},
    {.title = "COUNT", .width = 5, .importance = 5, .right = true},
    {.title = "AGE", .width = 4, .importance = 1, .right = true},
    {.title = "TEXT", .width = 8, .importance = 7, .stretch = 1},
};

TEST(least_important_columns_are_left_out_first)
{
    static const struct {
        int width, widths[4];
    } cases[] = {
        {40, {6, 5, 4, 19}}, {29, {6, 5, 4, 8}}, {28, {6, 5, 0, 13}}, {23, {6, 5, 0, 8}},
        {22, {6, 0, 0, 14}}, {16, {6, 0, 0, 8}}, {15, {6, 0, 0, 0}},  {3, {6, 0, 0, 0}},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int widths[4];

        table_fit(columns, 4, cases[i].width, widths);
        assert_memory_equal(widths, cases[i].widths, sizeof(widths));
    }
}

TEST(stretching_columns_share_spare_width)
{
    static const struct column two[] = {
        {.width = 6, .importance = 9},
        {.width = 8, .importance = 8, .stretch = 1},
        {.width = 10, .importance = 7, .stretch = 1},
    };
    static const struct {
        int width, widths[3];
    } cases[] = {{28, {6, 8, 10}}, {29, {6, 9, 10}}, {38, {6, 13, 15}}, {27, {6, 19, 0}}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int widths[3];

        table_fit(two, 3, cases[i].width, widths);
        assert_memory_equal(widths, cases[i].widths, sizeof(widths));
    }
}

/* A column that does not get its wish is narrow before it is left out; weights divide the rest. */
TEST(columns_have_minimum_wish_and_weight)
{
    static const struct column three[] = {
        {.width = 20, .importance = 9, .stretch = 3},
        {.width = 12, .min_width = 6, .importance = 5, .stretch = 1},
        {.width = 5, .importance = 1},
    };
    static const struct {
        int width, widths[3];
    } cases[] = {{50, {27, 14, 5}}, {41, {20, 12, 5}}, {40, {25, 13, 0}}, {34, {20, 12, 0}},
                 {33, {20, 11, 0}}, {28, {20, 6, 0}},  {27, {27, 0, 0}}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int widths[3];

        table_fit(three, 3, cases[i].width, widths);
        assert_memory_equal(widths, cases[i].widths, sizeof(widths));
    }
}

TEST(last_two_columns_shrink)
{
    static const struct column three[] = {
        {.width = 20, .min_width = 10, .importance = 9},
        {.width = 8, .importance = 8, .stretch = 1},
        {.width = 5, .importance = 1},
    };
    static const struct {
        int width, widths[3];
    } cases[] = {{37, {20, 8, 5}}, {36, {20, 14, 0}}, {30, {20, 8, 0}}, {29, {19, 8, 0}},
                 {20, {10, 8, 0}}, {19, {20, 0, 0}},  {9, {20, 0, 0}}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int widths[3];

        table_fit(three, 3, cases[i].width, widths);
        assert_memory_equal(widths, cases[i].widths, sizeof(widths));
    }
}

TEST(printed_table_is_aligned)
{
    struct cell cells[4] = {
        {.text = "one"}, {.text = "12"}, {.text = "3s"}, {.text = "words here"}};
    struct cell sparse[4] = {{.text = "two"}, {.text = ""}, {.text = "4s"}, {.text = ""}};
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    table_print(out, columns, 4, NULL);
    table_print(out, columns, 4, cells);
    table_print(out, columns, 4, sparse);
    fclose(out);
    assert_string_equal(text, "NAME    COUNT   AGE  TEXT\n"
                              "one        12    3s  words here\n"
                              "two              4s\n");
}

TEST(scroll_position_stays_in_range)
{
    struct scroll scroll = {0};

    scroll_fit(&scroll, 100, 10);
    assert_true(scroll_key(&scroll, ACTION_UP));
    scroll_fit(&scroll, 100, 10);
    assert_int_equal(scroll.top, 0);
    scroll_key(&scroll, ACTION_PAGE_DOWN);
    assert_int_equal(scroll.top, 9); /* one line stays visible */
    scroll_key(&scroll, ACTION_LAST);
    scroll_fit(&scroll, 100, 10);
    assert_int_equal(scroll.top, 90);
    scroll_fit(&scroll, 5, 10); /* fewer rows */
    assert_int_equal(scroll.top, 0);
    assert_false(scroll_key(&scroll, ACTION_QUIT));
}

TEST(numbers_are_formatted_with_units)
{
    char text[TEXT_SHORT];

    assert_string_equal(text_count(text, NAN), "-");
    assert_string_equal(text_count(text, 12345), "12.3k");
    assert_string_equal(text_percent(text, 0.9666), "96.7%");
    assert_string_equal(text_percent(text, 1), "100%");
    assert_string_equal(text_latency(text, 850000), "850 us");
    assert_string_equal(text_cut(), "..");
    text_set_ascii(false);
    assert_string_equal(text_latency(text, 850000), "850 µs");
    assert_string_equal(text_latency(text, 850), "850 ns");
    assert_string_equal(text_cut(), "…");
    text_set_ascii(true);
    assert_string_equal(text_since(text, 120 * NS_PER_MS), "120 ms");
    assert_string_equal(text_since(text, 75 * NS_PER_S), "1m 15s");
}

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
