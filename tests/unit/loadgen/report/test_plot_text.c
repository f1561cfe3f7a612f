#include "loadgen/report/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static char *draw(const struct plot *plot)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    plot_write_text(out, plot);
    fclose(out);
    return text;
}

/* Line NUMBER of TEXT, from 0. */
static char *line_of(const char *text, int number)
{
    for (; number > 0; number--)
        text = strchr(text, '\n') + 1;
    return strndup(text, strcspn(text, "\n"));
}

static void check_line(const char *text, int number, const char *expected)
{
    char *line = line_of(text, number);

    assert_string_equal(line, expected);
    free(line);
}

static void points_lie_at_their_values(void **state)
{
    static const struct plot_point rising[] = {{0, 0}, {63, 900}}, flat[] = {{0, 500}, {63, 500}};
    const struct plot plot = {.title = "Two lines",
                              .x = {false, axis_count},
                              .y = {false, axis_rate},
                              .line = {{.name = "rising", .points = rising, .count = 2},
                                       {.name = "flat", .points = flat, .count = 2}},
                              .line_count = 2};
    char *text = draw(&plot), *line;

    (void)state;
    check_line(text, 0, "Two lines");
    line = line_of(text, 1);
    assert_non_null(strstr(line, "1.00k/s |"));
    free(line);
    line = line_of(text, 2); /* 900 of 1000: the ninth of ten rows */
    assert_int_equal(line[strlen(line) - 1], 'o');
    assert_int_equal(strlen(line), 12 + 2 + 64);
    free(line);
    line = line_of(text, 5); /* 500 of 1000 */
    assert_int_equal(line[12 + 2], 'x');
    assert_int_equal(line[strlen(line) - 1], 'x');
    free(line);
    line = line_of(text, 10);
    assert_memory_equal(line, "         0/s |o", 15);
    free(line);
    assert_non_null(strstr(text, "o rising\n"));
    assert_non_null(strstr(text, "x flat\n"));
    free(text);
}

static void logarithmic_axis_omits_values_that_are_not_positive(void **state)
{
    static const struct plot_point points[] = {{0, 5}, {1, 0}, {10, 1000}, {1000, 100000}};
    const struct plot plot = {.title = "Powers",
                              .x = {true, axis_count},
                              .y = {true, axis_time},
                              .line = {{.name = "only", .points = points, .count = 4}},
                              .line_count = 1};
    char *text = draw(&plot), *rest = NULL;
    size_t marks = 0;

    (void)state;
    for (size_t i = 0; text[i] != '\0'; i++)
        marks += text[i] == 'o';
    assert_int_equal(marks, 2 + 3); /* two points; "Powers", and the legend's "o only" */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        assert_true(strlen(line) <= 81); /* the µ takes two bytes */
    free(text);
}

static void plot_without_points_is_empty(void **state)
{
    const struct plot plot = {.title = "None", .x = {true, axis_count}, .y = {true, axis_time}};
    char *text = draw(&plot);

    (void)state;
    assert_string_equal(text, "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_lie_at_their_values),
        cmocka_unit_test(logarithmic_axis_omits_values_that_are_not_positive),
        cmocka_unit_test(plot_without_points_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
