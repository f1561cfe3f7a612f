/* Times of renewals and retries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/http_client.h"
#include "daemon/acme/schedule.h"

#include <string.h>

static void renewal_is_at_two_thirds_or_a_bit_earlier(void **state)
{
    const int64_t day = 86400, from = 1000 * day, life = 90 * day;

    (void)state;
    assert_int_equal(schedule_renewal(from, from + life, 0), from + 60 * day);
    assert_int_equal(schedule_renewal(from, from + life, UINT32_MAX), from + 60 * day - life / 20);
    assert_int_equal(schedule_renewal(from, from + 6, 0), from + 4);
    assert_int_equal(schedule_renewal(from, from, 0), from);
}

static void retry_doubles_up_to_a_limit(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        assert_int_equal(schedule_retry(examples[i].failures, examples[i].retry_s,
                                        examples[i].after_s, examples[i].random),
                         examples[i].delay_s);
}

static void window_is_selected_from_evenly(void **state)
{
    (void)state;
    assert_int_equal(schedule_window(1000, 3000, 0), 1000);
    assert_int_equal(schedule_window(1000, 3000, UINT32_MAX), 3000);
    assert_int_equal(schedule_window(1000, 3000, UINT32_MAX / 2), 1999);
    assert_int_equal(schedule_window(-5, 5, 0), -5);
}

static void retry_far_ahead_is_due_now(void **state)
{
    (void)state;
    assert_int_equal(schedule_planned(1000, 2000), 1000);
    assert_int_equal(schedule_planned(2000 + SCHEDULE_WAIT_MAX_S, 2000),
                     2000 + SCHEDULE_WAIT_MAX_S);
    assert_int_equal(schedule_planned(2001 + SCHEDULE_WAIT_MAX_S, 2000), 2000);
}

static void retry_after_is_seconds_or_a_date(void **state)
{
    static const struct {
        const char *text;
        uint32_t seconds;
    } examples[] = {
        {"120", 120},
        {"0", 0},
        {"-5", 0},
        {"1.5", 0},
        {"", 0},
        {"soon", 0},
        {"999999999999999999", 7 * 86400},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 37},
        {"Sun, 06 Nov 1994 08:48:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT+1", 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT                                             ", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        assert_int_equal(http_retry_after(examples[i].text, strlen(examples[i].text), 784111740),
                         examples[i].seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewal_is_at_two_thirds_or_a_bit_earlier),
        cmocka_unit_test(retry_doubles_up_to_a_limit),
        cmocka_unit_test(window_is_selected_from_evenly),
        cmocka_unit_test(retry_far_ahead_is_due_now),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
