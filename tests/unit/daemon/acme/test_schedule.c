/*
 * Times of renewals and retries, and windows of renewal information, as an authority may send them.
 */
#include "common/macros.h"
#include "daemon/acme/internal.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

TEST(renewal_is_at_two_thirds_or_a_bit_earlier)
{
    const int64_t day = 86400, from = 1000 * day, life = 90 * day;

    assert_int_equal(schedule_renewal(from, from + life, 0), from + 60 * day);
    assert_int_equal(schedule_renewal(from, from + life, UINT32_MAX), from + 60 * day - life / 20);
    assert_int_equal(schedule_renewal(from, from + 6, 0), from + 4);
    assert_int_equal(schedule_renewal(from, from, 0), from);
}

TEST(retry_doubles_up_to_a_limit)
{
    static const struct {
        uint32_t failures, retry_s, after_s, random;
        int64_t delay_s;
    } examples[] = {
        {1, 120, 0, 0, 120},
        {2, 120, 0, 0, 240},
        {3, 120, 0, UINT32_MAX, 528},
        {9, 120, 0, 0, 30720},
        {10, 120, 0, 0, SCHEDULE_RETRY_MAX_S},
        {UINT32_MAX, 1, 0, 0, SCHEDULE_RETRY_MAX_S},
        {1, 120, 7200, 0, 7200},
        {1, 120, 60, 0, 120},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        assert_int_equal(schedule_after_failure(examples[i].failures, examples[i].retry_s,
                                                examples[i].after_s, examples[i].random),
                         examples[i].delay_s);
}

TEST(window_is_selected_from_evenly)
{
    assert_int_equal(schedule_window(1000, 3000, 0), 1000);
    assert_int_equal(schedule_window(1000, 3000, UINT32_MAX), 3000);
    assert_int_equal(schedule_window(1000, 3000, UINT32_MAX / 2), 1999);
    assert_int_equal(schedule_window(-5, 5, 0), -5);
}

TEST(retry_far_ahead_is_due_now)
{
    assert_int_equal(schedule_planned(1000, 2000), 1000);
    assert_int_equal(schedule_planned(2000 + SCHEDULE_WAIT_MAX_S, 2000),
                     2000 + SCHEDULE_WAIT_MAX_S);
    assert_int_equal(schedule_planned(2001 + SCHEDULE_WAIT_MAX_S, 2000), 2000);
}

static int read_times(const char *start, const char *end, struct renewal_window *window)
{
    json_t *json = json_pack("{s:{s:s, s:s}}", "suggestedWindow", "start", start, "end", end);
    int failed = renewal_info_read(json, window);

    json_decref(json);
    return failed;
}

TEST(times_are_those_of_rfc_3339)
{
    static const struct {
        const char *end;
        int64_t end_s; /* 0: not valid */
    } examples[] = {
        {"2025-01-03T04:00:00Z", 1735876800},
        {"2025-01-03T04:00:00z", 1735876800},
        {"2025-01-03T04:00:00.123456789Z", 1735876800},
        {"2025-01-03T04:00:00+01:30", 1735871400},
        {"2025-01-03T04:00:00-01:30", 1735882200},
        {"2025-01-03T04:00:00+23:59", 1735790460},
        {"2025-01-03T04:00:00+24:00", 0},
        {"2025-01-03T04:00:00+01:60", 0},
        {"2025-01-03T04:00:00", 0},
        {"2025-01-03T04:00:00+1:30", 0},
        {"2025-01-03T04:00:00+01:3", 0},
        {"2025-01-03T04:00:00+01:300", 0},
        {"2025-01-03T04:00:00+99:00", 0},
        {"2025-01-03T04:00:00+-1:30", 0},
        {"2025-01-03 04:00:00Z", 0},
        {"2025-13-03T04:00:00Z", 0},
        {"2025-01-03T04:00:00ZZ", 0},
        {"soon", 0},
        {"", 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        struct renewal_window window = {0};
        int failed = read_times("2025-01-02T00:00:00Z", examples[i].end, &window);

        if (failed != (examples[i].end_s > 0 ? 0 : -1) || window.end_s != examples[i].end_s)
            fail_msg("'%s': %d, %ld", examples[i].end, failed, (long)window.end_s);
    }
}

TEST(start_must_be_before_end)
{
    struct renewal_window window = {.start_s = 7, .end_s = 8};

    assert_int_equal(read_times("2025-01-03T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(read_times("2025-01-02T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(read_times("1960-01-02T00:00:00Z", "2025-01-02T00:00:00Z", &window), -1);
    assert_int_equal(window.start_s, 7);
    assert_int_equal(window.end_s, 8);
    assert_int_equal(read_times("2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", &window), 0);
    assert_int_equal(window.start_s, 1735689600);
}

TEST(anything_else_is_refused)
{
    static const char *const texts[] = {"{}", "{\"suggestedWindow\": null}",
                                        "{\"suggestedWindow\": [1, 2]}",
                                        "{\"suggestedWindow\": {\"start\": 1, \"end\": 2}}",
                                        "{\"suggestedWindow\": {\"start\": {}, \"end\": []}}"};
    struct renewal_window window = {0};

    assert_int_equal(renewal_info_read(NULL, &window), -1);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        json_t *json = json_loads(texts[i], 0, NULL);

        assert_int_equal(renewal_info_read(json, &window), -1);
        json_decref(json);
    }
}
