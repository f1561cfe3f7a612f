/* Graphs: styles, gaps, scales. */
#include "common/macros.h"
#include "console/ui/graph.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>
#include <wchar.h>

enum { CELLS_MAX = 64 };

TEST(each_style_fills_from_below)
{
    static const struct {
        enum graph_style style;
        double values[4];
        size_t count;
        int rows, columns;
        const wchar_t *cells; /* row by row */
    } cases[] = {
        {GRAPH_BRAILLE, {1, 2, 3, 4}, 4, 1, 2, L"⣠⣾"},
        {GRAPH_BRAILLE, {4, 0, 0, 4}, 4, 2, 2, L"⡇⢸⡇⢸"},
        {GRAPH_BRAILLE, {2, 2, 2, 2}, 4, 2, 2, L"  ⣿⣿"},
        {GRAPH_BLOCKS, {1, 2, 3, 4}, 4, 1, 4, L"▂▄▆█"},
        {GRAPH_BLOCKS, {0, 2, 4, 4}, 4, 2, 4, L"  ██ ███"},
        {GRAPH_ASCII, {0, 1, 2, 4}, 4, 1, 4, L" .:|"},
        /* A small value shows at least one step; one above the top is full. */
        {GRAPH_BLOCKS, {0.0001, 0, 99, 4}, 4, 1, 4, L"▁ ██"},
        /* Fewer values than columns are widened; of more, the largest is shown. */
        {GRAPH_BLOCKS, {2, 4}, 2, 1, 4, L"▄▄██"},
        {GRAPH_BLOCKS, {1, 4, 0, 1}, 4, 1, 2, L"█▂"},
        {GRAPH_BLOCKS, {NAN, 4, -INFINITY, 1}, 4, 1, 4, L" █x▂"},
        {GRAPH_BRAILLE, {-INFINITY, -INFINITY, 4, 4}, 4, 1, 2, L"x⣿"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        wchar_t cells[CELLS_MAX] = {0};

        graph_draw(cases[i].style, cases[i].values, cases[i].count, 4, cases[i].rows,
                   cases[i].columns, cells);
        if (wcscmp(cells, cases[i].cells) != 0)
            fail_msg("case %zu: '%ls' instead of '%ls'", i, cells, cases[i].cells);
    }
}

TEST(upper_edge_is_round_and_at_or_above_the_peak)
{
    static const struct {
        enum graph_unit unit;
        double peak, top;
    } cases[] = {
        {GRAPH_COUNT, 0, 1},        {GRAPH_COUNT, 1, 1},
        {GRAPH_COUNT, 7, 8},        {GRAPH_COUNT, 10, 10},
        {GRAPH_COUNT, 11, 15},      {GRAPH_COUNT, 2500, 3000},
        {GRAPH_COUNT, 9999, 10000}, {GRAPH_BYTES, 1000, 1024},
        {GRAPH_BYTES, 1025, 2048},  {GRAPH_TIME, 0, 1000},
        {GRAPH_TIME, 450000, 5e5},  {GRAPH_RATIO, 0.3, 1},
        {GRAPH_COUNT, NAN, 1},      {GRAPH_BYTES, 5242880, 8388608},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_float_equal(graph_top(cases[i].unit, cases[i].peak), cases[i].top, 1e-6);
}

TEST(logarithmic_scale_has_whole_decades)
{
    double values[] = {NAN, 0, 100, 5000, -INFINITY}, floor_value, top;

    assert_true(graph_decades(values, 5, &floor_value, &top));
    assert_float_equal(floor_value, 100, 1e-9);
    assert_float_equal(top, 10000, 1e-6);
    assert_float_equal(graph_logarithm(1000, floor_value, top), 0.5, 1e-9);
    assert_float_equal(graph_logarithm(10000, floor_value, top), 1, 1e-9);
    assert_true(graph_logarithm(100, floor_value, top) > 0); /* visible */
    assert_float_equal(graph_logarithm(0, floor_value, top), 0, 0);
    assert_true(isnan(graph_logarithm(NAN, floor_value, top)));
    assert_true(isinf(graph_logarithm(-INFINITY, floor_value, top)));
    values[3] = 1e12; /* not more than six decades */
    assert_true(graph_decades(values, 5, &floor_value, &top));
    assert_float_equal(floor_value, 1e6, 1);
    values[2] = values[3] = 1000; /* one value: a decade below it */
    assert_true(graph_decades(values, 5, &floor_value, &top));
    assert_float_equal(floor_value, 100, 1e-9);
    assert_false(graph_decades(values, 2, &floor_value, &top));
}
