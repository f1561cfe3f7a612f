/* Arrivals: constant and Poisson rates, for one thread and shared by several. */
#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/plan/arrivals.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

#define SECOND ((double)NS_PER_S)

TEST(constant_rate_is_evenly_spaced)
{
    static const double rates[] = {0.5, 1, 3, 2000, 1e6};
    struct arrivals arrivals;

    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        const struct profile rate = profile_constant(rates[i]);

        arrivals_begin(&arrivals, &rate, 0, 1, 0);
        assert_true(arrivals.next_ns == 0);
        for (int k = 1; k < 1000; k++) {
            arrivals_step(&arrivals);
            assert_true(fabs(arrivals.next_ns - k / rates[i] * SECOND) < 1);
        }
    }
}

TEST(threads_interleave_constant_rate)
{
    const struct profile rate = profile_constant(300);
    struct arrivals arrivals[3];

    for (uint32_t i = 0; i < 3; i++)
        arrivals_begin(&arrivals[i], &rate, i, 3, 0);
    for (int k = 0; k < 900; k++) {
        assert_true(fabs(arrivals[k % 3].next_ns - k / 300.0 * SECOND) < 1);
        arrivals_step(&arrivals[k % 3]);
    }
}

/* The gaps of a Poisson process are exponential: mean and deviation are 1 / rate. */
TEST(poisson_gaps_are_exponential)
{
    enum { COUNT = 200000 };
    const struct profile rate = profile_constant(1000);
    struct arrivals arrivals;
    double before = 0, sum = 0, squares = 0;

    arrivals_begin(&arrivals, &rate, 0, 1, random_begin(1, 0));
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

/*
 * Machines and threads with different seeds are independent: their sum is a Poisson process, too.
 * With the same seed their requests come in pairs, and the gaps have twice the variance.
 */
TEST(sum_of_poisson_arrivals_is_poisson)
{
    enum { COUNT = 100000, OF = 4 };
    static const struct {
        uint64_t seed, number;
    } from[OF] = {{1, 0}, {1, 1}, {2, 0}, {UINT64_MAX, 0}};
    const struct profile rate = profile_constant(1000);
    struct arrivals arrivals[OF];
    double before = 0, squares = 0;

    for (size_t i = 0; i < OF; i++)
        arrivals_begin(&arrivals[i], &rate, 0, 1, random_begin(from[i].seed, from[i].number));
    for (int n = 0; n < COUNT; n++) {
        struct arrivals *next = &arrivals[0];

        for (size_t i = 1; i < OF; i++)
            next = arrivals[i].next_ns < next->next_ns ? &arrivals[i] : next;
        squares += pow((next->next_ns - before) * OF / 1e6, 2);
        before = next->next_ns;
        arrivals_step(next);
    }
    assert_true(fabs(before * OF / 1e6 / COUNT - 1) < 0.02);
    assert_true(fabs(squares / COUNT - 2) < 0.1);
    assert_true(random_begin(3, 5) == random_begin(3, 5));
}

TEST(rate_change_applies_from_now_on)
{
    const struct profile slow = profile_constant(0.1), fast = profile_constant(100);
    struct arrivals arrivals;

    arrivals_begin(&arrivals, &slow, 0, 1, 0);
    arrivals_step(&arrivals);
    assert_true(arrivals.next_ns == 10 * SECOND);
    arrivals_change(&arrivals, &fast, 1, 2 * SECOND);
    assert_true(fabs(arrivals.next_ns - 2.01 * SECOND) < 1);
    arrivals_change(&arrivals, &slow, 1, 3 * SECOND); /* overdue requests stay overdue */
    assert_true(fabs(arrivals.next_ns - 2.01 * SECOND) < 1);
    arrivals_skip(&arrivals, 20 * SECOND);
    assert_true(fabs(arrivals.next_ns - 30 * SECOND) < 1);
}

TEST(random_numbers_are_uniform)
{
    uint64_t random = 1;
    double sum = 0;

    for (int i = 0; i < 100000; i++) {
        double number = random_unit(&random);

        assert_true(number >= 0 && number < 1);
        sum += number;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.01);
}
