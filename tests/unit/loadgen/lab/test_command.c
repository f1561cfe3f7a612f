#include "loadgen/lab/command.h"

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
static int read_line(struct lab_options *options, const char *line)
{
    static char text[256];
    char *words[WORDS] = {(char *)"lab"}, *rest = NULL;
    int count = 1;

    why[0] = '\0';
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return lab_options_parse(options, count, words, why, sizeof(why));
}

static void options_are_parsed(void **state)
{
    struct lab_options options;

    (void)state;
    assert_int_equal(read_line(&options, ""), 0);
    assert_int_equal(options.count, 0);
    assert_string_equal(options.directory, "wsload-lab");
    assert_int_equal(read_line(&options, "baseline --quick -o there concurrency"), 0);
    assert_int_equal(options.count, 2);
    assert_string_equal(options.chosen[0]->name, "baseline");
    assert_string_equal(options.chosen[1]->name, "concurrency");
    assert_true(options.quick);
    assert_string_equal(options.directory, "there");
    assert_int_equal(read_line(&options, "--duration=1500ms --rounds 7 -othere -h"), 0);
    assert_int_equal(options.duration_ms, 1500);
    assert_int_equal(options.rounds, 7);
    assert_int_equal(options.rate, 0);
    assert_int_equal(read_line(&options, "--rate 2k"), 0);
    assert_int_equal(options.rate, 2000);
    assert_int_equal(read_line(&options, "--duration=1500ms --rounds 7 -othere -h"), 0);
    assert_string_equal(options.directory, "there");
    assert_true(options.help);
    assert_false(options.resume);
    assert_int_equal(options.until_ms, 0);
    assert_int_equal(read_line(&options, "--until-decided baseline"), 0);
    assert_int_equal(options.until_ms, 5 * 60 * 1000);
    assert_int_equal(options.count, 1);
    assert_int_equal(read_line(&options, "--until-decided=30s baseline"), 0);
    assert_int_equal(options.until_ms, 30 * 1000);
    assert_int_equal(read_line(&options, "baseline --resume scaling baseline"), 0);
    assert_true(options.resume);
    assert_int_equal(options.count, 2);
}

static void all_chooses_every_experiment_in_order(void **state)
{
    struct lab_options options;

    (void)state;
    assert_int_equal(read_line(&options, "all"), 0);
    assert_int_equal(options.count, lab_experiment_count);
    for (size_t i = 0; i < lab_experiment_count; i++) {
        assert_ptr_equal(options.chosen[i], &lab_experiments[i]);
        assert_ptr_equal(lab_find(lab_experiments[i].name), &lab_experiments[i]);
    }
    assert_null(lab_find("all"));
}

static void invalid_arguments_are_rejected(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"basline", "did you mean baseline?"},
        {"qqqqqqqqqqqq", "wsload lab lists them"},
        {"--quik", "did you mean --quick?"},
        {"-x", "unknown option -x"},
        {"--quick=yes", "--quick takes no value"},
        {"--rounds", "--rounds needs a value: --rounds N"},
        {"--rate 0", "--rate: '0' is out of range (1-10000000)"},
        {"--rate fast", "is out of range"},
        {"--rounds 0", "is out of range (1-101)"},
        {"--rounds 1000", "is out of range (1-101)"},
        {"--rounds two", "is out of range (1-101)"},
        {"-d 0", "invalid time '"},
        {"-d 48h", "invalid time '"},
        {"--until-decided=soon", "--until-decided: invalid time 'soon'"},
        {"--output=", "the value is empty"},
        {"--resume", "--resume needs the names of the experiments, or all"},
    };
    struct lab_options options;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(read_line(&options, cases[i].line), -1);
        if (strstr(why, cases[i].words) == NULL)
            fail_msg("'%s' was rejected with: %s", cases[i].line, why);
    }
}

static void help_fits_80_columns(void **state)
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
        cmocka_unit_test(options_are_parsed),
        cmocka_unit_test(all_chooses_every_experiment_in_order),
        cmocka_unit_test(invalid_arguments_are_rejected),
        cmocka_unit_test(help_fits_80_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
