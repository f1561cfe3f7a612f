#include "loadgen/lab/findings.h"
#include "loadgen/report/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <stdlib.h>
#include <string.h>

static struct document *example(void)
{
    static const char *const heads[] = {"connections", "requests/s", "mean", NULL};
    struct document *findings = findings_create("A & B");

    assert_non_null(findings);
    findings_table(findings, "One <table>", heads);
    for (int i = 1; i <= 3; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%d", i);
        document_cell(findings, "%d,000%s", i, i == 2 ? " *" : "");
        document_cell(findings, "%d µs", i);
        document_cell(findings, "no room for it");
    }
    document_plot(findings, "A plot", (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_rate});
    document_line(findings, "one", false);
    for (int i = 1; i <= 3; i++)
        document_point(findings, i, i * 1000.0);
    findings_add(findings, FINDINGS_LESSON,
                 "A sentence that is so long that it has to go on in the next line of a terminal, "
                 "and because it is <still> longer, in one more line behind that one, too.");
    findings_add(findings, FINDINGS_MET, "this.");
    findings_add(findings, FINDINGS_NOT_MET, "that.");
    findings_add(findings, FINDINGS_UNDECIDED, "either.");
    findings_add(findings, FINDINGS_CAUTION, "mind the gap.");
    return findings;
}

/* The rate of the only point of baseline; its other measures are unknown. */
static const struct published_own own = {
    .of = {{"one connection", {{[MEASURE_RATE] = 10400, [MEASURE_MEAN] = NAN}}}}, .count = 1};

static const struct machine machine = {{{"Processor", "a <model>, 2 cores", false}}, 1};

static void check_has(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("there is no '%s' in: %s", words, text);
}

static void text_is_aligned_and_wrapped(void **state)
{
    struct document *findings = example(), *about = document_create("x", findings->layout);
    char *text, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    findings_add_machine(about, &machine);
    findings_add_published(findings, "baseline", &own);
    assert_int_equal(document_write_text(out, about, false), 0);
    fputc('\n', out);
    assert_int_equal(document_write_text(out, findings, false), 0);
    fclose(out);
    assert_non_null(strstr(text, "Processor   a <model>, 2 cores\n"));
    assert_non_null(strstr(text, "\nA & B\n-----\n"));
    assert_non_null(strstr(text, "\nOne <table>\nconnections  requests/s  mean\n"
                                 "1                 1,000  1 µs\n"
                                 "2               2,000 *  2 µs\n"));
    assert_null(strstr(text, "no room"));
    assert_non_null(strstr(text, "\n- Met: this.\n- Not met: that.\n- Not decided: either.\n"
                                 "- Note: mind the gap.\n"));
    check_has(text, "  Source: Marques and Sousa, technical report, University of Aveiro, 2025.\n"
                    "  Theirs: 4 vCPU, kernel 5.15,");
    check_has(text, "Ours: 1 worker, 1 thread, 1 connection per request, 1000 requests; 1 KiB.");
    check_has(text, "\nPublished and ours\n"
                    "point              measure  published    ours  ratio\n"
                    "one connection  requests/s      5,200  10,400      2\n"
                    "one connection        mean     190 us       -      -\n");
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("longer than 80 columns: %s", line);
    free(text);
    document_free(findings);
    document_free(about);
}

static void page_escapes_all_text(void **state)
{
    struct document *findings = example();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    findings_add_published(findings, "baseline", &own);
    document_section(findings, "The machine", NULL);
    findings_add_machine(findings, &machine);
    assert_int_equal(document_write_html(out, findings), 0);
    fclose(out);
    check_has(text, "<title>A &amp; B</title>");
    check_has(text, "<h2>One &lt;table&gt;</h2>");
    check_has(text, "<tr><td>2<td>2,000 *<td>2 µs\n");
    check_has(text, "<svg class=\"plot\"");
    check_has(text, "it is &lt;still&gt; longer");
    check_has(text, "<li><b>Met: </b>this.");
    check_has(text, "<li class=\"bad\"><b>Not met: </b>that.");
    check_has(text, "a &lt;model&gt;, 2 cores");
    check_has(text, "<td>one connection<td>requests/s<td>5,200<td>10,400<td>2");
    free(text);
    document_free(findings);
}

static void report_has_chapters_and_contents(void **state)
{
    struct document *one = example(), *other = example(), *front = findings_create("All");
    const struct html_chapter chapters[] = {{"one", "Why <one>?", "1 met", "Took 1 s.", one, 1},
                                            {"other", "?", "no criteria", "", other, 1}};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    document_section(one, "The machine", NULL);
    assert_int_equal(document_write_html_chapters(out, front, chapters, 2), 0);
    fclose(out);
    check_has(text, "<title>All</title>");
    check_has(text, "<li><a href=\"#one\">A &amp; B</a> <span class=\"soft\">(1 met)</span>");
    check_has(text,
              "<section id=\"one\">\n<h2>A &amp; B</h2>\n<p class=\"soft\">Why &lt;one&gt;?</p>");
    check_has(text, "<section id=\"other\">");
    check_has(text, "<h3>One &lt;table&gt;</h3>");
    check_has(text, "<p class=\"soft\">Took 1 s.</p>\n</section>");
    check_has(text, "<li><b>Note: </b>mind the gap.");
    assert_null(strstr(text, "The machine"));
    free(text);
    document_free(one);
    document_free(other);
    document_free(front);
}

static void summary_counts_verdicts(void **state)
{
    struct document *findings = findings_create("x");
    char summary[64];

    (void)state;
    findings_summarise(findings, summary, sizeof(summary));
    assert_string_equal(summary, "no criteria");
    findings_add(findings, FINDINGS_UNDECIDED, "a");
    findings_add(findings, FINDINGS_MET, "b");
    findings_add(findings, FINDINGS_LESSON, "c");
    findings_add(findings, FINDINGS_MET, "d");
    findings_summarise(findings, summary, sizeof(summary));
    assert_string_equal(summary, "2 met, 1 not decided");
    document_free(findings);
}

/* Times are in microseconds, rates positive. Each figure has a source, its settings and ours. */
static void published_figures_have_values_and_sources(void **state)
{
    static const struct {
        const char *experiment;
        size_t figures;
        const char *source;
    } cases[] = {
        {"baseline", 2, "Source: Marques and Sousa,"},
        {"concurrency", 20, "Source: M. Gil and N. Faria,"},
        {"scaling", 10, "Source: Marques and Sousa,"},
        {"cache", 2, "Source: Marques and Sousa,"},
        {"endurance", 10, "Source: Marques and Sousa,"},
        {"endurance", 10, "Source: README of multithreaded-webserver-cpp,"},
        {"percentiles", 37, "Source: a benchmark report of a thread-pool server"},
        {"connections", 5, "Source: README of multithreaded-webserver-cpp,"},
        {"threads", 36, "Source: a report on CivetWeb"},
        {"logging", 6, "Source: README of multithreaded-webserver-cpp,"},
        {"noise", 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct published *one = published_next(cases[i].experiment, NULL);
        struct document *findings = findings_create("x");
        size_t count = 0, size;
        char *text;
        FILE *out = open_memstream(&text, &size);

        for (; one != NULL; one = published_next(cases[i].experiment, one), count++)
            assert_true(one->value > 0 || isnan(one->value) || one->label != NULL);
        assert_int_equal(count, cases[i].figures);
        findings_add_published(findings, cases[i].experiment, &own);
        assert_int_equal(document_write_text(out, findings, false), 0);
        fclose(out);
        if (cases[i].source != NULL)
            check_has(text, cases[i].source);
        assert_int_equal(strstr(text, "Theirs: ") != NULL, cases[i].source != NULL);
        assert_int_equal(strstr(text, "Ours: ") != NULL, cases[i].source != NULL);
        free(text);
        document_free(findings);
    }
}

/* What is not a measure has its own label and unit; without a published value there is no ratio. */
static void published_values_have_their_unit(void **state)
{
    static const struct published_own values = {
        {{"Square, 1 thread, 20 connections", {{[MEASURE_RATE] = 5000}}}},
        1,
        {{"log off", "RSS", 3.2e6}},
        1};
    struct document *findings = example();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    findings_add_published(findings, "logging", &values);
    findings_add_published(findings, "threads", &values);
    assert_int_equal(document_write_html(out, findings), 0);
    fclose(out);
    check_has(text, "<td>log off<td>RSS<td>1.6 MB<td>3.2 MB<td>2\n");
    check_has(text, "<td>log full<td>RSS<td>18.0 MB<td>-<td>-\n");
    check_has(text, "<td>Square, 1 thread, 20 connections<td>requests/s<td>-<td>5,000<td>-\n");
    free(text);
    document_free(findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_aligned_and_wrapped),
        cmocka_unit_test(page_escapes_all_text),
        cmocka_unit_test(report_has_chapters_and_contents),
        cmocka_unit_test(summary_counts_verdicts),
        cmocka_unit_test(published_figures_have_values_and_sources),
        cmocka_unit_test(published_values_have_their_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
