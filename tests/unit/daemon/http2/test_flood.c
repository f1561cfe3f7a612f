/* Frames are limited by kind and second. */
#include "daemon/http2/flood.h"

#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void each_kind_has_its_limit_per_second(void **state)
{
    static const uint32_t limits[] = {
#define FLOOD(name, limit) limit,
        HTTP2_FLOODS
#undef FLOOD
    };
    struct http2_floods floods = {0};
    uint64_t now_ns = 10 * NS_PER_S;

    (void)state;
    for (int second = 0; second < 2; second++, now_ns += NS_PER_S)
        for (enum http2_flood kind = 0; kind < FLOOD_COUNT; kind++) {
            for (uint32_t i = 0; i < limits[kind]; i++)
                assert_true(http2_flood_count(&floods, kind, now_ns));
            assert_false(http2_flood_count(&floods, kind, now_ns + NS_PER_S - 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_limit_per_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
