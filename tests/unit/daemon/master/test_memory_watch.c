/* When memory is short, exhausted, and enough again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/master/internal.h"

static void level_follows_use_with_hysteresis(void **state)
{
    static const struct {
        uint32_t used;
        enum memory_level level;
    } steps[] = {
        {0, MEMORY_ENOUGH},      {849, MEMORY_ENOUGH},     {850, MEMORY_SHORT},
        {800, MEMORY_SHORT},     {949, MEMORY_SHORT},      {799, MEMORY_ENOUGH},
        {849, MEMORY_ENOUGH},    {950, MEMORY_EXHAUSTED},  {900, MEMORY_EXHAUSTED},
        {899, MEMORY_SHORT},     {1000, MEMORY_EXHAUSTED}, {850, MEMORY_SHORT},
        {960, MEMORY_EXHAUSTED}, {100, MEMORY_ENOUGH},
    };
    enum memory_level level = MEMORY_ENOUGH;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        level = memory_level_next(level, steps[i].used);
        assert_int_equal(level, steps[i].level);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level_follows_use_with_hysteresis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
