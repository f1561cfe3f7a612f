/* When requests are due: rates that stand still, rise and jump, alone and shared by threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/plan/arrivals.h"

#include <math.h>
#include <stdlib.h>

#define SECOND ((double)NS_PER_S)

/* How many are due before END_NS. */
static uint64_t count_until(struct arrivals *arrivals, double end_ns)
{
    uint64_t count = 0;

    for (; arrivals->next_ns < end_ns; arrivals_step(arrivals))
        count++;
    return count;
}

static void test_constant(void **state)
{
    static const double rates[] = {0.5, 1, 3, 2000, 1e6};
    struct arrivals arrivals;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        const struct profile rate = profile_constant(rates[i]);

        arrivals_begin(&arrivals, &rate, 0, 1, false);
        assert_true(arrivals.next_ns == 0);
        for (int k = 1; k < 1000; k++) {
            arrivals_step(&arrivals);
            assert_true(fabs(arrivals.next_ns - k / rates[i] * SECOND) < 1);
        }
    }
}

/* The arrivals of three threads are those of one, dealt out in turn. */
static void test_threads(void **state)
{
    const struct profile rate = profile_constant(300);
    struct arrivals arrivals[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        arrivals_begin(&arrivals[i], &rate, i, 3, false);
    for (int k = 0; k < 900; k++) {
        assert_true(fabs(arrivals[k % 3].next_ns - k / 300.0 * SECOND) < 1);
        arrivals_step(&arrivals[k % 3]);
    }
}

/* 0 to 100 a second in 10 s are 500 requests; then 100 in each second. */
static void test_ramp(void **state)
{
    struct profile rate = {.count = 0};
    struct arrivals arrivals;

    (void)state;
    profile_add(&rate, 0, 0, 100);
    profile_add(&rate, 10 * SECOND, 100, 100);
    assert_true(fabs(profile_at(&rate, 5 * SECOND) - 50) < 1e-9);
    assert_true(fabs(profile_at(&rate, 50 * SECOND) - 100) < 1e-9);
    arrivals_begin(&arrivals, &rate, 0, 1, false);
    assert_int_equal(count_until(&arrivals, 5 * SECOND - 1), 125);
    assert_int_equal(count_until(&arrivals, 10 * SECOND - 1), 375);
    assert_int_equal(count_until(&arrivals, 11 * SECOND - 1), 100);
}

static void test_stages(void **state)
{
    struct profile rate = {.count = 0};
    struct arrivals arrivals;

    (void)state;
    profile_add(&rate, 0, 10, 10);
    profile_add(&rate, 1.05 * SECOND, 0, 0);
    profile_add(&rate, 2 * SECOND, 1000, 1000);
    profile_add(&rate, 3 * SECOND, 0, 0);
    arrivals_begin(&arrivals, &rate, 0, 1, false);
    assert_int_equal(count_until(&arrivals, 1.05 * SECOND), 11);
    assert_true(fabs(arrivals.next_ns - 2.0005 * SECOND) < 1e3);
    assert_int_equal(count_until(&arrivals, 3 * SECOND), 1000);
    assert_true(isinf(arrivals.next_ns));
    arrivals_step(&arrivals);
    assert_true(isinf(arrivals.next_ns));
}

/* Gaps of a Poisson process are exponential: mean and deviation are both 1 / rate. */
static void test_poisson(void **state)
{
    enum { COUNT = 200000 };
    const struct profile rate = profile_constant(1000);
    struct arrivals arrivals;
    double before = 0, sum = 0, squares = 0;

    (void)state;
    arrivals_begin(&arrivals, &rate, 0, 1, true);
    for (int i = 0; i < COUNT; i++) {
        double gap_ms = (arrivals.next_ns - before) / 1e6;

        before = arrivals.next_ns;
        sum += gap_ms;
        squares += gap_ms * gap_ms;
        arrivals_step(&arrivals);
    }
    assert_true(fabs(sum / COUNT - 1) < 0.02);
    assert_true(fabs(squares / COUNT - 2) < 0.1);
}

/* A new rate holds from now on; a thread that comes late leaves the past to others. */
static void test_change(void **state)
{
    const struct profile slow = profile_constant(0.1), fast = profile_constant(100);
    struct arrivals arrivals;

    (void)state;
    arrivals_begin(&arrivals, &slow, 0, 1, false);
    arrivals_step(&arrivals);
    assert_true(arrivals.next_ns == 10 * SECOND);
    arrivals_change(&arrivals, &fast, 1, 2 * SECOND);
    assert_true(fabs(arrivals.next_ns - 2.01 * SECOND) < 1);
    arrivals_change(&arrivals, &slow, 1, 3 * SECOND); /* it is overdue, and stays so */
    assert_true(fabs(arrivals.next_ns - 2.01 * SECOND) < 1);
    arrivals_skip(&arrivals, 20 * SECOND);
    assert_true(fabs(arrivals.next_ns - 30 * SECOND) < 1);
}

static void test_random(void **state)
{
    uint64_t random = 1;
    double sum = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        double number = random_unit(&random);

        assert_true(number >= 0 && number < 1);
        sum += number;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_ramp),     cmocka_unit_test(test_stages),
        cmocka_unit_test(test_poisson),  cmocka_unit_test(test_change),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
