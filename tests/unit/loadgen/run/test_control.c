/* Changes of the load by lines and keys, and conditions. */
#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/plan/plan.h"
#include "loadgen/run/internal.h"
#include "loadgen/stats/tally.h"
#include "tests/test.h"

static const struct {
    const char *line;
    enum change_kind kind;
    double before, after;
} changes[] = {
    {"rate 2000", CHANGE_RATE, 5, 2000},
    {"rate 2.5k", CHANGE_RATE, 5, 2500},
    {" rate  2k ", CHANGE_RATE, 5, 2000},
    {"rate +10%", CHANGE_RATE, 5, 5.5},
    {"rate 0", CHANGE_RATE, 5, 5},
    {"rate -100%", CHANGE_RATE, 5, 5},
    {"connections 50", CHANGE_CONNECTIONS, 5, 50},
    {"connections +1", CHANGE_CONNECTIONS, 5, 6},
    {"connections -10", CHANGE_CONNECTIONS, 5, 1},
    {"connections +10%", CHANGE_CONNECTIONS, 5, 6},
    {"connections -10%", CHANGE_CONNECTIONS, 5, 4},
    {"connections +10%", CHANGE_CONNECTIONS, 100, 110},
    {"connections -10%", CHANGE_CONNECTIONS, 1, 1},
    {"threads 4", CHANGE_THREADS, 1, 4},
    {"stop", CHANGE_STOP, 1, 1},
};

TEST(line_changes_the_load)
{
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        struct change change;
        char why[256] = "";
        int result = change_parse_line(changes[i].line, &change, why, sizeof(why));

        if (changes[i].after == changes[i].before && result != 0)
            continue; /* rejected, or has no effect */
        if (result != 0)
            fail_msg("'%s': %s", changes[i].line, why);
        assert_int_equal(change.kind, changes[i].kind);
        if (change.kind != CHANGE_STOP &&
            change_apply(&change, changes[i].before) != changes[i].after)
            fail_msg("'%s' made %g", changes[i].line, change_apply(&change, changes[i].before));
    }
}

TEST(invalid_line_is_rejected_with_reason)
{
    static const struct {
        const char *line, *why;
    } lines[] = {
        {"faster", "unknown change 'faster' (rate N, connections N, threads N, stop)"},
        {"rate", "invalid change 'rate': needs one number (examples: 50, +10, -10%)"},
        {"rate x", "invalid change 'rate x': needs one number (examples: 50, +10, -10%)"},
        {"rate 5%", "invalid change 'rate 5%': needs one number (examples: 50, +10, -10%)"},
        {"threads 1 2", "invalid change 'threads 1 2': needs one number (examples: 50, +10, -10%)"},
        {"stop now", "invalid change 'stop now': stop takes no value"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct change change;
        char why[256];

        assert_int_equal(change_parse_line(lines[i].line, &change, why, sizeof(why)), -1);
        assert_string_equal(why, lines[i].why);
    }
}

/* 100 responses from 1 ms to 100 ms, one of them a 404. */
static void fill(struct tally *tally)
{
    tally_reset(tally);
    tally_count(tally, TALLY_begun, 100);
    for (uint64_t i = 1; i <= 100; i++) {
        const struct transaction transaction = {
            .error = ERROR_KIND_NONE,
            .status = i == 1 ? 404 : 200,
            .bad_status = i == 1,
            .service_ns = NS_PER_MS,
            .latency_ns = i * NS_PER_MS,
        };

        tally_record(tally, &transaction);
    }
}

TEST(condition_compares_results)
{
    static const struct {
        const char *text;
        bool holds;
    } cases[] = {
        {"p99>98ms", true},
        {"p99>0.2s", false},
        {"p50<60000us", true},
        {" p50 < 60000us", true},
        {"latency.p50>60ms", false},
        {"service.p99>=1ms", true},
        {"service.p99>2ms", false},
        {"max>=100ms", true},
        {"max>100ms", false},
        {"mean<51ms", true},
        {"connect.p50>1ns", false},
        {"connect.p50<1s", false},
        {"rate<51", true},
        {"rate<=50", true},
        {"rate>50", false},
        {"errors>0", true},
        {"errors>=1", true},
        {"errors>1%", false},
        {"errors>0.5%", true},
        {"404>0", true},
        {"503>0", false},
        {"rate>0.04k", true},
    };
    static struct tally tally;

    fill(&tally);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct condition condition;
        char why[256];

        if (condition_parse(&condition, cases[i].text, why, sizeof(why)) != 0) {
            assert_false(cases[i].holds);
            continue;
        }
        if (tally_meets_condition(&tally, &condition, 2 * NS_PER_S) != cases[i].holds)
            fail_msg("%s", cases[i].text);
    }
}

TEST(invalid_condition_is_rejected)
{
    static const char *const texts[] = {"",        "p99",    "p0>1ms",   "p100>1ms",
                                        "p99>",    "p99>20", "q>1",      "rate>x",
                                        "rate>5%", "99>1",   "p99=>1ms", "errors>%"};

    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct condition condition;
        char why[256];

        if (condition_parse(&condition, texts[i], why, sizeof(why)) == 0)
            fail_msg("'%s' was accepted", texts[i]);
    }
}
