/* "Did you mean": the nearest word. */
#include "common/clock.h"
#include "common/macros.h"
#include "common/tables.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"listen",  "root",      "index",         "processes",
                                    "threads", "keepalive", "max_entries",   "max_object",
                                    "level",   "on",        "header_timeout"};

TEST(nearest_word_by_edit_distance)
{
    static const struct {
        const char *typed;
        const char *expected;
    } cases[] = {
        {"listen", "listen"},
        {"LISTEN", "listen"},
        {"lisen", "listen"},   /* deletion */
        {"lissten", "listen"}, /* insertion */
        {"lixten", "listen"},  /* substitution */
        {"lsiten", "listen"},  /* transposition */
        {"thread", "threads"},
        {"process", "processes"},
        {"max_objects", "max_object"},
        {"max_entry", "max_entries"},
        {"keep_alive", "keepalive"},
        {"keep-alive-", "keepalive"},
        {"header-timeout", "header_timeout"},
        {"headertimout", "header_timeout"},
        {"o", "on"},
        {"onn", "on"},
        {"levle", "level"},
        {"rot", "root"},
        {"", NULL},
        {"xyzzy", NULL},
        {"rxxt", NULL},  /* 2 of 4 letters differ */
        {"elvex", NULL}, /* a transposition and a substitution, of 5 letters */
        {"off", NULL},
        {"listen_on_all_addresses", NULL},
        {"a-word-that-is-longer-than-any-word-that-the-module-cares-to-compare-at-all", NULL},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *found = nearest_word(cases[i].typed, words, ARRAY_LENGTH(words));

        if (found != cases[i].expected &&
            (found == NULL || cases[i].expected == NULL || strcmp(found, cases[i].expected) != 0))
            fail_msg("'%s' found '%s'", cases[i].typed, found != NULL ? found : "nothing");
    }
}

TEST(nearest_word_prefers_first)
{
    static const char *const equals[] = {"cat", "bat", "hat"};

    assert_string_equal(nearest_word("rat", equals, ARRAY_LENGTH(equals)), "cat");
    assert_string_equal(nearest_word("hat", equals, ARRAY_LENGTH(equals)), "hat");
}

TEST(nearest_word_of_no_words_is_null)
{
    assert_null(nearest_word("listen", words, 0));
}

TEST(unknown_word_gets_advice)
{
    static const struct {
        const char *typed;
        const char *expected;
    } cases[] = {
        {"lisen", "; did you mean 'listen'?"},
        {"--lisen", "; did you mean --listen?"},
        {"xyzzy", "; see -h"},
    };
    static const struct {
        int number;
        const char *name;
    } table[] = {{1, "root"}, {2, NULL}, {3, "listen"}};
    char text[DID_YOU_MEAN_SIZE];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_string_equal(
            did_you_mean(text, cases[i].typed, WORD_LIST(words, ARRAY_LENGTH(words)), "; see -h"),
            cases[i].expected);
        assert_string_equal(
            did_you_mean(text, cases[i].typed, WORD_LIST_OF(table, name), "; see -h"),
            cases[i].expected);
    }
}

/* Figures derived from metrics. */

static double value_in(const void *values, enum metric metric)
{
    return ((const double *)values)[metric];
}

static double figure_of(enum figure figure, const double *values)
{
    return figure_value(figure, value_in, values);
}

TEST(each_status_counts_in_its_class)
{
    for (int i = 0; i < STATUS_METRICS; i++) {
        double values[METRIC_COUNT] = {0};
        int class = status_metrics[i].status / 100;

        values[status_metrics[i].metric] = 3;
        assert_true(figure_of(FIGURE_responses_2xx, values) == (class == 2 ? 3 : 0));
        assert_true(figure_of(FIGURE_responses_3xx, values) == (class == 3 ? 3 : 0));
        assert_true(figure_of(FIGURE_responses_4xx, values) == (class == 4 ? 3 : 0));
        assert_true(figure_of(FIGURE_responses_5xx, values) == (class == 5 ? 3 : 0));
        assert_true(figure_of(FIGURE_errors, values) == (class >= 4 ? 3 : 0));
    }
}

TEST(each_status_has_a_metric_of_its_name)
{
    for (int i = 0; i < STATUS_METRICS; i++) {
        const struct metric_info *info = &metric_table[status_metrics[i].metric];

        assert_int_equal(atoi(info->label), status_metrics[i].status);
        assert_string_equal(info->name + strlen("responses_"), info->label);
    }
}

TEST(ratios_without_a_denominator_are_nan)
{
    static const enum figure ratios[] = {FIGURE_response_time_mean, FIGURE_keepalive_ratio,
                                         FIGURE_cache_hit_ratio, FIGURE_offload_wait_mean};
    const double zero[METRIC_COUNT] = {0};

    for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++)
        assert_true(isnan(figure_of(ratios[i], zero)));
}

TEST(ratios_are_quotients)
{
    const double values[METRIC_COUNT] = {[METRIC_requests] = 8,
                                         [METRIC_response_time] = 4000,
                                         [METRIC_requests_keepalive] = 6,
                                         [METRIC_cache_hits] = 9,
                                         [METRIC_cache_misses] = 1};

    assert_true(figure_of(FIGURE_response_time_mean, values) == 500);
    assert_true(figure_of(FIGURE_keepalive_ratio, values) == 0.75);
    assert_true(figure_of(FIGURE_cache_hit_ratio, values) == 0.9);
}

TEST(rates_are_per_second)
{
    assert_true(figure_rate(100, 150, NS_PER_S / 2) == 100);
    assert_true(figure_rate(150, 100, NS_PER_S) == 0); /* reset */
    assert_true(isnan(figure_rate(100, 150, 0)));
}
