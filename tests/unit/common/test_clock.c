#include "common/clock.h"

#include "tests/test.h"

TEST(duration_is_rounded_up)
{
    assert_int_equal(clock_ceil_s(0), 0);
    assert_int_equal(clock_ceil_s(1), 1);
    assert_int_equal(clock_ceil_s(NS_PER_S), 1);
    assert_int_equal(clock_ceil_s(NS_PER_S + 1), 2);
    assert_int_equal(clock_ceil_s(UINT64_MAX), UINT64_MAX / NS_PER_S + 1);
    assert_int_equal(clock_ceil_ms(0), 0);
    assert_int_equal(clock_ceil_ms(1), 1);
    assert_int_equal(clock_ceil_ms(NS_PER_MS), 1);
    assert_int_equal(clock_ceil_ms(NS_PER_MS + 1), 2);
}
