#include "loadgen/lab/lab_report.h"
#include "loadgen/lab/published.h"
#include "loadgen/report/plot_axes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct findings *example(void)
{
    static const char *const heads[] = {"connections", "requests/s", "mean", NULL};
    struct findings *findings = findings_create("baseline", "A & B");

    assert_non_null(findings);
    findings_table(findings, "One <table>", heads);
    for (int i = 1; i <= 3; i++) {
        findings_row(findings);
        findings_cell(findings, "%d", i);
        findings_cell(findings, "%d,000%s", i, i == 2 ? " *" : "");
        findings_cell(findings, "%d µs", i);
        findings_cell(findings, "no room for it");
    }
    findings_plot(findings, "A plot", (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_rate});
    findings_line(findings, "one");
    for (int i = 1; i <= 3; i++)
        findings_dot(findings, i, i * 1000.0);
    findings_say(findings, FINDINGS_LESSON,
                 "A sentence that is so long that it has to go on in the next line of a terminal, "
                 "and because it is <still> longer, in one more line behind that one, too.");
    findings_say(findings, FINDINGS_MET, "this.");
    findings_say(findings, FINDINGS_NOT_MET, "that.");
    findings_say(findings, FINDINGS_UNDECIDED, "either.");
    findings_say(findings, FINDINGS_CAUTION, "mind the gap.");
    return findings;
}

static const struct machine machine = {{{"Processor", "a <model>, 2 cores"}}, 1};

static void text_is_aligned_and_wrapped(void **state)
{
    struct findings *findings = example();
    char *text, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    lab_text_machine(out, &machine);
    lab_text_findings(out, findings);
    fclose(out);
    assert_non_null(strstr(text, "Processor   a <model>, 2 cores\n"));
    assert_non_null(strstr(text, "\nA & B\n-----\n"));
    assert_non_null(strstr(text, "\nOne <table>\nconnections  requests/s  mean\n"
                                 "1                 1,000  1 µs\n"
                                 "2               2,000 *  2 µs\n"));
    assert_null(strstr(text, "no room"));
    assert_non_null(strstr(text, "\n- Met: this.\n- Not met: that.\n- Not decided: either.\n"
                                 "- Note: mind the gap.\n"));
    assert_non_null(strstr(text, "\n  1 worker, 1 thread, 1 connection: 5,200 requests/s"));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("longer than 80 columns: %s", line);
    free(text);
    free(findings);
}

static void check_has(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("there is no '%s' in: %s", words, text);
}

static void a_page_has_it_all_escaped(void **state)
{
    struct findings *findings = example();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    lab_page_findings(out, findings, &machine);
    fclose(out);
    check_has(text, "<title>A &amp; B</title>");
    check_has(text, "<h2>One &lt;table&gt;</h2>");
    check_has(text, "<tr><td>2<td>2,000 *<td>2 µs\n");
    check_has(text, "<svg class=\"plot\"");
    check_has(text, "it is &lt;still&gt; longer");
    check_has(text, "<li><b>Met: </b>this.");
    check_has(text, "<li class=\"bad\"><b>Not met: </b>that.");
    check_has(text, "a &lt;model&gt;, 2 cores");
    check_has(text, "5,200 requests/s, 0.19 ms");
    free(text);
    free(findings);
}

static void the_index_links_to_the_pages(void **state)
{
    struct findings *findings = example();
    const struct findings *const all[] = {findings, findings};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    lab_page_index(out, all, 2, &machine);
    fclose(out);
    check_has(text, "<h2><a href=\"baseline.html\">A &amp; B</a></h2>");
    check_has(text, "<li><b>Note: </b>mind the gap.");
    free(text);
    free(findings);
}

/* Whoever overlooks a limit loses the surplus, not the memory. */
static void what_does_not_fit_is_left_out(void **state)
{
    static const char *const heads[] = {"x", NULL};
    struct findings *findings = findings_create("baseline", "Much");

    (void)state;
    for (int i = 0; i < 2 * FINDINGS_TABLES; i++)
        findings_table(findings, "t", heads);
    for (int i = 0; i < 2 * FINDINGS_ROWS; i++)
        findings_row(findings);
    for (int i = 0; i < 2 * FINDINGS_SENTENCES; i++)
        findings_say(findings, FINDINGS_LESSON, "%0600d", i);
    for (int i = 0; i < 2 * FINDINGS_PLOTS; i++)
        findings_plot(findings, "p", (struct plot_axis){0}, (struct plot_axis){0});
    for (int i = 0; i < 2 * PLOT_LINES_MAX; i++)
        findings_line(findings, "l");
    for (int i = 0; i < 2 * FINDINGS_POINTS; i++)
        findings_dot(findings, i, i);
    assert_int_equal(findings->tables, FINDINGS_TABLES);
    assert_int_equal(findings->table[FINDINGS_TABLES - 1].rows, FINDINGS_ROWS);
    assert_int_equal(findings->sentences, FINDINGS_SENTENCES);
    assert_int_equal(findings->plots, FINDINGS_PLOTS);
    assert_int_equal(findings->plot[FINDINGS_PLOTS - 1].count[PLOT_LINES_MAX - 1], FINDINGS_POINTS);
    free(findings);
}

static void published_figures_are_found_by_experiment(void **state)
{
    const struct published *one = published_next("concurrency", NULL);
    size_t count = 0;

    (void)state;
    for (; one != NULL; one = published_next("concurrency", one), count++)
        assert_string_equal(one->experiment, "concurrency");
    assert_int_equal(count, 6);
    assert_null(published_next("nothing", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_aligned_and_wrapped),
        cmocka_unit_test(a_page_has_it_all_escaped),
        cmocka_unit_test(the_index_links_to_the_pages),
        cmocka_unit_test(what_does_not_fit_is_left_out),
        cmocka_unit_test(published_figures_are_found_by_experiment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
