/* Room for an allocation that failed: without a cache, nothing can be freed. */
#include "daemon/transaction/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Its callers try again as long as there was something to free. */
static void without_a_cache_there_is_no_room_to_make(void **state)
{
    struct worker_shortages shortages = {0};
    const struct worker_context worker = {.cache = NULL, .shortages = &shortages};
    struct transaction_context context = {
        .worker = &worker, .shortages = {.worker = &shortages}, .loop_now_ns = 1};

    (void)state;
    assert_false(memory_make_room(&context));
    assert_false(memory_is_awaited(&worker));
    assert_int_equal(shortages.of[SHORTAGE_MEMORY].threads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_cache_there_is_no_room_to_make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
