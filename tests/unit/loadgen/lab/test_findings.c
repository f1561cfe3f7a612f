/* Findings as text and pages, published figures, verdicts. */
#include "loadgen/lab/findings.h"
#include "loadgen/lab/machine.h"
#include "loadgen/report/document.h"
#include "tests/test.h"

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

TEST(text_is_aligned_and_wrapped)
{
    struct document *findings = example(), *about = document_create("x", findings->layout);
    char *text, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

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
    check_has(text, "  Source: Marques and Sousa: technical report, University of Aveiro (title");
    check_has(text, "  Theirs: 4 vCPU, kernel 5.15,");
    check_has(text, "Ours: 1 worker, 1 thread, 1 connection per request, 1000 requests; 1 KiB.");
    check_has(text, "\nMarques and Sousa, 2025\n"
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

TEST(page_escapes_all_text)
{
    struct document *findings = example();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

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

TEST(summary_counts_verdicts)
{
    struct document *findings = findings_create("x");
    char summary[64];

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

static size_t count_rows(const struct document *findings)
{
    size_t rows = 0;

    for (size_t i = 0; i < findings->section_count; i++)
        for (size_t k = 0; k < findings->sections[i].table_count; k++)
            rows += findings->sections[i].tables[k].row_count;
    return rows;
}

/* Each figure has a source, its settings and ours. */
TEST(published_figures_have_sources)
{
    static const struct {
        const char *experiment;
        size_t figures;
        const char *source;
    } cases[] = {
        {"baseline", 2, "Source: Marques and Sousa: "},
        {"concurrency", 35, "Source: M. Gil and N. Faria: Concurrent HTTP Web Server,"},
        {"concurrency", 35, "Source: Marques and Sousa: "},
        {"concurrency", 35, "Source: Author unknown: README of multithreaded-webserver-cpp,"},
        {"cache", 2, "Source: Marques and Sousa: "},
        {"endurance", 10, "Source: Author unknown: README of multithreaded-webserver-cpp,"},
        {"percentiles", 0, "Not compared: 6 cores; 23 requests/s with one connection,"},
        {"threads", 36, "report on CivetWeb"},
        {"logging", 6, "Source: Author unknown: README of multithreaded-webserver-cpp,"},
        {"models", 26, "Source: M. Gil and N. Faria: "},
        {"models", 26, "report on CivetWeb"},
        {"noise", 0, NULL},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct document *findings = findings_create("x");
        size_t size;
        char *text;
        FILE *out = open_memstream(&text, &size);

        findings_add_published(findings, cases[i].experiment, &own);
        assert_int_equal(count_rows(findings), cases[i].figures);
        assert_int_equal(document_write_text(out, findings, false), 0);
        fclose(out);
        if (cases[i].source != NULL)
            check_has(text, cases[i].source);
        assert_int_equal(strstr(text, "Theirs: ") != NULL, cases[i].figures > 0);
        assert_int_equal(strstr(text, "Ours: ") != NULL, cases[i].figures > 0);
        free(text);
        document_free(findings);
    }
}

/* What is not a measure has its own label and unit; without a published value there is no ratio. */
TEST(published_values_have_their_unit)
{
    static const struct published_own values = {
        {{"Square, 1 thread, 20 connections", {{[MEASURE_RATE] = 5000}}}},
        1,
        {{"log off", "RSS", 3.2e6}},
        1,
        ""};
    struct document *findings = example();
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

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

TEST(verdict_needs_the_whole_interval_above_the_limit)
{
    static const struct {
        struct interval value;
        enum findings_kind verdict;
    } cases[] = {
        {{1.5, 1.2, 1.8, 9}, FINDINGS_MET},     {{1.5, 0.9, 2.0, 9}, FINDINGS_UNDECIDED},
        {{0.8, 0.7, 0.9, 9}, FINDINGS_NOT_MET}, {{1.5, NAN, NAN, 1}, FINDINGS_UNDECIDED},
        {{1.0, 1.0, 1.0, 9}, FINDINGS_NOT_MET},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(verdict_above(&cases[i].value, 1), cases[i].verdict);
}

/* Half the distance to the limit takes four times the values. */
TEST(length_grows_with_the_square_of_the_precision)
{
    const struct interval far = {1.20, 1.00, 1.40, 10}, near = {1.15, 0.95, 1.35, 10};
    const struct interval below = {0.90, 0.70, 1.30, 10}, at = {1.10, 1.00, 1.20, 10};
    const struct interval few = {1.10, NAN, NAN, 2};

    assert_int_equal((int)verdict_values_needed(&far, 1.10), 40);
    assert_int_equal((int)verdict_values_needed(&near, 1.10), 160);
    assert_int_equal((int)verdict_values_needed(&below, 1.10), 40);
    assert_true(isinf(verdict_values_needed(&at, 1.10)));
    assert_true(isnan(verdict_values_needed(&few, 1.05)));
}

static void check_advice(const struct interval *value, uint32_t values_a_round, const char *words)
{
    char advice[VERDICT_ADVICE];

    verdict_advice(advice, value, 1.10, values_a_round, 400);
    if (strstr(advice, words) == NULL)
        fail_msg("no '%s' in '%s'", words, advice);
}

TEST(advice_names_the_length)
{
    const struct interval far = {1.20, 1.00, 1.40, 10}, near = {1.11, 0.95, 1.35, 10};
    const struct interval at = {1.10, 1.00, 1.20, 10}, few = {1.10, NAN, NAN, 2};

    check_advice(&far, 1, "About 40 rounds (--rounds 40, or --until-decided) would decide.");
    check_advice(&far, 3, "About 14 rounds (--rounds 14,");
    check_advice(&near, 1, "about 101 rounds with trials of ");
    check_advice(&at, 1, "The median is at the limit");
    check_advice(&few, 1, "At least 3 rounds");
    check_advice(&few, 3, "At least 1 rounds");
}

TEST(contention_of_others_and_of_the_hypervisor_counts)
{
    static const struct {
        struct contention sum;
        bool high;
    } cases[] = {
        {{0}, false},
        {{10, 0.9, 0.4, 3, 10}, false},
        {{10, 1.1, 0.0, 0, 10}, true},
        {{10, 0.0, 0.6, 0, 10}, true},
        {{10, -0.5, 0.0, 0, 10}, false},
        {{10, 0.0, 0.0, 12, 10}, true},
    };
    char text[CONTENTION_TEXT];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(contention_is_high(&cases[i].sum), cases[i].high);
    assert_non_null(strstr(contention_describe(text, &cases[2].sum), "other programs used 11% of"));
}

/* The CPU time of this process is its own, not that of others. */
TEST(own_work_is_no_contention)
{
    struct contention sum = {0}, joined = {0};
    struct contention_begin begin = contention_begin(0);

    contention_add(&sum, &begin, 0);
    contention_join(&joined, &sum);
    contention_join(&joined, &sum);
    assert_int_equal(joined.trials, 2 * sum.trials);
    begin.all = 0; /* unknown */
    contention_add(&joined, &begin, 0);
    assert_int_equal(joined.trials, 2 * sum.trials);
}
