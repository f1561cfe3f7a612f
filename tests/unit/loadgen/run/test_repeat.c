/* The sum of rounds, and the reports on them. */
#include "tests/unit/loadgen/load_results.h"

#include "loadgen/stats/result.h"
#include "tests/test.h"

/* A second of warm-up and two counted seconds with 100 and 10 responses. */
static struct series_entry entries[] = {
    {.begin_ns = 0, .end_ns = NS_PER_S, .answered = 7, .warmup = true},
    {.begin_ns = NS_PER_S, .end_ns = 2 * NS_PER_S, .answered = 100},
    {.begin_ns = 2 * NS_PER_S, .end_ns = 2 * NS_PER_S + 5, .answered = 10},
};
static struct series seconds = {.entry = entries, .count = 3, .before_ns = 2 * NS_PER_S + 5};

static struct result *add_three(void)
{
    struct result *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    for (int i = 0; i < 3; i++) {
        fill_good();
        result.series = &seconds;
        result.server = (struct server_check_result){
            i == 1 ? SERVER_CHECK_DIFFERS : SERVER_CHECK_SAME, "one", 20000, 20000, 1};
        if (i == 1) { /* a round in which not all connections came up */
            tally_count(&result.tally, TALLY_clients_up, (uint64_t)-30);
            result.error_texts.first[ERROR_KIND_OTHER][0] = 'x';
        }
        assert_true(result_add_round(sum, &result));
    }
    return sum;
}

TEST(rounds_are_summed_except_connections)
{
    struct result *sum = add_three();

    assert_string_equal(sum->url, "http://127.0.0.1:8080/");
    assert_int_equal(tally_get(&sum->tally, TALLY_answered), 60000);
    assert_int_equal(tally_get(&sum->tally, TALLY_connections_opened), 3 * 234);
    assert_int_equal(tally_get(&sum->tally, TALLY_clients_used), 100);
    assert_int_equal(tally_get(&sum->tally, TALLY_clients_up), 70);
    assert_int_equal(histogram_count(&sum->tally.latency), 60000);
    assert_int_equal(sum->elapsed_ns, 6 * NS_PER_S);
    assert_true(result_rate(sum) == 10000);
    assert_true(result_cpu_share(sum) == 0.25);
    assert_int_equal(sum->server.outcome, SERVER_CHECK_DIFFERS);
    assert_int_equal(sum->server.counted, 60000);
    assert_string_equal(sum->error_texts.first[ERROR_KIND_OTHER], "x");
    assert_false(sum->interrupted);
    result_free(sum);
    free(sum);
}

TEST(seconds_of_rounds_are_contiguous_without_warmup)
{
    struct result *sum = add_three();

    assert_int_equal(sum->series->count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct series_entry *entry = &sum->series->entry[i];

        assert_int_equal(entry->round, i / 2 + 1);
        assert_int_equal(entry->answered, i % 2 == 0 ? 100 : 10);
        assert_int_equal(entry->begin_ns, i == 0 ? 0 : sum->series->entry[i - 1].end_ns);
        assert_int_equal(entry->end_ns - entry->begin_ns, i % 2 == 0 ? NS_PER_S : 5);
    }
    result_free(sum);
    free(sum);
}

/* 1000 to 1005 in any order: the median is 1002.5; of six values the interval is the range. */
static void fill_rounds(void)
{
    static const double rates[] = {1003, 1000, 1005, 1002, 1001, 1004};

    fill_good();
    plan.rounds = 6;
    begin_repeat(6);
    for (size_t i = 0; i < 6; i++)
        add_round(rates[i]);
}

TEST(reports_show_medians_of_rounds)
{
    char *text;

    fill_rounds();
    text = make_report(PLAN_FORMAT_TEXT, false);
    assert_non_null(strstr(text, " engine curl, 2.00 s in 6 rounds\n"));
    assert_non_null(
        strstr(text, "  Rate         1,003 requests/s, median of 6 (95 %: 1,000 to 1,005)\n"));
    assert_non_null(
        strstr(text, "\n  Rounds              median          low         high           +-\n"
                     "  requests/s           1,003        1,000        1,005         0.2%\n"
                     "  mean               1.00 ms      1.00 ms      1.00 ms         0.2%\n"));
    assert_null(strstr(text, "  p99.9              "));
    assert_null(strstr(text, "rounds:"));
    free(text);
    text = make_report(PLAN_FORMAT_HTML, false);
    assert_non_null(strstr(text, "<tr><td>requests/s<td>1,003<td>1,000<td>1,005<td>0.2%\n"));
    free(text);
    end_repeat();
}

TEST(csv_has_a_line_per_round)
{
    char *text, *rest = NULL;
    size_t commas = 0, lines = 0;

    fill_rounds();
    text = make_report(PLAN_FORMAT_CSV, false);
    assert_non_null(strstr(text, "\nround,0.000000,1.000000,0,1003,0,0,1003.000,"));
    assert_non_null(strstr(text, "\nmedian,,,,,,,1002.500,1002.500,"));
    assert_non_null(strstr(text, "\nlow,,,,,,,1000.000,"));
    assert_non_null(strstr(text, "\nhigh,,,,,,,1005.000,"));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t its_commas = 0;

        for (const char *at = line; *at != '\0'; at++)
            its_commas += *at == ',';
        if (lines++ == 0)
            commas = its_commas;
        assert_int_equal(its_commas, commas);
    }
    assert_int_equal(lines, 1 + 6 + 3 + 1);
    free(text);
    end_repeat();
}

static bool has_note(const char *name)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(&result, notes);

    for (size_t i = 0; i < count; i++)
        if (strcmp(notes[i].name, name) == 0)
            return true;
    return false;
}

TEST(notes_warn_of_few_and_noisy_rounds)
{
    fill_rounds();
    assert_false(has_note("rounds_missing") || has_note("few_rounds") || has_note("noisy_rounds"));
    result.rounds->requested = 7;
    assert_true(has_note("rounds_missing"));
    end_repeat();
    begin_repeat(3);
    add_round(1000);
    add_round(1001);
    assert_true(has_note("few_rounds"));
    add_round(2000);
    assert_true(has_note("noisy_rounds"));
    end_repeat();
}
