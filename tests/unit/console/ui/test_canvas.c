/* Layout of the parts of a view at all sizes; text as cells. */
#include "console/ui/canvas.h"
#include "console/ui/text.h"
#include "tests/test.h"

#include <locale.h>

static const struct layout_part parts[] = {
    {.min = 2, .importance = 9},
    {.min = 4, .weight = 1, .importance = 5, .gap = 1},
    {.min = 6, .weight = 2, .importance = 3, .gap = 1},
};

static void check(int height, int first, int second, int third)
{
    struct canvas canvas = {.height = height, .width = 80}, places[3];
    int shown = layout_stack(&canvas, parts, 3, places);

    assert_int_equal(places[0].height, first);
    assert_int_equal(places[1].height, second);
    assert_int_equal(places[2].height, third);
    assert_int_equal(shown, (first > 0) + (second > 0) + (third > 0));
}

TEST(least_important_part_is_left_out_first)
{
    check(14, 2, 4, 6);
    check(13, 2, 10, 0);
    check(7, 2, 4, 0);
    check(6, 2, 0, 0);
    check(1, 1, 0, 0); /* the last one is cut, not left out */
}

TEST(spare_lines_are_shared_by_weight)
{
    check(34, 2, 10, 20);
}

TEST(parts_never_overlap_or_leave_the_canvas)
{
    for (int height = 1; height < 60; height++) {
        struct canvas canvas = {.y = 3, .x = 5, .height = height, .width = 20}, places[3];
        int end = 3;

        layout_stack(&canvas, parts, 3, places);
        for (int i = 0; i < 3; i++) {
            if (places[i].height == 0)
                continue;
            assert_true(places[i].y >= end);
            end = places[i].y + places[i].height;
        }
        assert_true(end <= 3 + height);
    }
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
