#include "loadgen/lab/command_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 16 };

static char why[512];

/* Reads the words of LINE. */
static int read_line(struct lab_orders *orders, const char *line)
{
    static char text[256];
    char *words[WORDS] = {(char *)"lab"}, *rest = NULL;
    int count = 1;

    why[0] = '\0';
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return lab_orders_read(orders, count, words, why, sizeof(why));
}

static void words_become_orders(void **state)
{
    struct lab_orders orders;

    (void)state;
    assert_int_equal(read_line(&orders, ""), 0);
    assert_int_equal(orders.count, 0);
    assert_string_equal(orders.folder, "wsload-lab");
    assert_int_equal(read_line(&orders, "baseline --quick -o there concurrency"), 0);
    assert_int_equal(orders.count, 2);
    assert_string_equal(orders.chosen[0]->name, "baseline");
    assert_string_equal(orders.chosen[1]->name, "concurrency");
    assert_true(orders.quick);
    assert_string_equal(orders.folder, "there");
    assert_int_equal(read_line(&orders, "--duration=1500ms --rounds 7 -othere -h"), 0);
    assert_int_equal(orders.duration_ms, 1500);
    assert_int_equal(orders.rounds, 7);
    assert_string_equal(orders.folder, "there");
    assert_true(orders.help);
}

static void all_are_in_the_order_of_the_list(void **state)
{
    struct lab_orders orders;

    (void)state;
    assert_int_equal(read_line(&orders, "all"), 0);
    assert_int_equal(orders.count, lab_experiment_count);
    for (size_t i = 0; i < lab_experiment_count; i++) {
        assert_ptr_equal(orders.chosen[i], &lab_experiments[i]);
        assert_ptr_equal(lab_find(lab_experiments[i].name), &lab_experiments[i]);
    }
    assert_null(lab_find("all"));
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"basline", "did you mean baseline?"},
        {"qqqqqqqqqqqq", "wsload lab lists them"},
        {"--quik", "did you mean --quick?"},
        {"-x", "unknown option -x"},
        {"--quick=yes", "--quick takes no value"},
        {"--rounds", "--rounds needs a value behind it: --rounds N"},
        {"--rounds 0", "a number from 1 to"},
        {"--rounds 1000", "a number from 1 to"},
        {"--rounds two", "a number from 1 to"},
        {"-d 0", "needs a time"},
        {"-d 48h", "needs a time"},
        {"--output=", "its value is empty"},
    };
    struct lab_orders orders;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(read_line(&orders, cases[i].line), -1);
        if (strstr(why, cases[i].words) == NULL)
            fail_msg("'%s' was refused with: %s", cases[i].line, why);
    }
}

static void the_help_fits_a_terminal(void **state)
{
    char *text, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    lab_help(out);
    fclose(out);
    for (size_t i = 0; i < lab_experiment_count; i++)
        assert_non_null(strstr(text, lab_experiments[i].question));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("longer than 80 columns: %s", line);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_orders),
        cmocka_unit_test(all_are_in_the_order_of_the_list),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_help_fits_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
