/* Requests are handed out exactly, whoever asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "loadgen/engine/supply.h"

#include <pthread.h>

static uint64_t take_all(struct supply_share *share)
{
    uint64_t taken = 0;

    while (supply_take(share, 0))
        taken++;
    while (supply_take_first(share, 0))
        taken++;
    return taken;
}

static void test_one_thread(void **state)
{
    static const uint64_t counts[] = {1, 2, 255, 256, 257, 100000};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        struct supply supply;
        struct supply_share share;

        supply_begin(&supply, counts[i], 1);
        supply_share_begin(&share, &supply, 1);
        assert_int_equal(take_all(&share), counts[i]);
        assert_false(supply_take(&share, 0));
    }
}

/* A fast thread leaves the others what their connections begin with, and so do fast connections. */
static void test_reserved(void **state)
{
    struct supply supply;
    struct supply_share fast, slow;

    (void)state;
    supply_begin(&supply, 10, 2);
    supply_share_begin(&fast, &supply, 4);
    supply_share_begin(&slow, &supply, 5);
    assert_true(supply_take_first(&fast, 0));
    assert_true(supply_take(&fast, 0));
    assert_false(supply_take(&fast, 0));
    for (int i = 0; i < 3; i++)
        assert_true(supply_take_first(&fast, 0));
    assert_false(supply_take_first(&fast, 0));
    assert_int_equal(take_all(&slow), 5);
}

static void test_deadline_and_stop(void **state)
{
    struct supply supply;
    struct supply_share share;

    (void)state;
    supply_begin(&supply, 0, 1);
    supply.deadline_ns = 1000;
    supply_share_begin(&share, &supply, 1);
    assert_true(supply_take(&share, 0));
    assert_true(supply_take(&share, 999));
    assert_false(supply_take(&share, 1000));
    assert_true(supply_take(&share, 999));
    assert_false(supply_stopped(&supply));
    supply_share_begin(&share, &supply, 2);
    assert_true(supply_take_first(&share, 999));
    assert_false(supply_take_first(&share, 1000));
    assert_int_equal(supply_end_ns(&supply), 1000);
    supply_stop(&supply, 900);
    supply_stop(&supply, 950);
    assert_true(supply_stopped(&supply));
    assert_int_equal(supply_end_ns(&supply), 900);
    assert_true(supply_is_over(&share, 0));
    assert_false(supply_take(&share, 0));
    assert_false(supply_take_first(&share, 0));
}

static void test_unlimited(void **state)
{
    struct supply supply;
    struct supply_share share;

    (void)state;
    supply_begin(&supply, 0, 3);
    supply_share_begin(&share, &supply, 7);
    for (int i = 0; i < 10000; i++)
        assert_true(supply_take(&share, 0));
}

/* What begins before counting does is free; its due time says which it is. */
static void test_warmup(void **state)
{
    struct supply supply;
    struct supply_share share;

    (void)state;
    supply_begin(&supply, 3, 1);
    supply.counted_from_ns = 100;
    supply_share_begin(&share, &supply, 1);
    for (int i = 0; i < 50; i++)
        assert_true(supply_take(&share, 99));
    assert_true(supply_take_first(&share, 99));
    assert_false(supply_is_over(&share, 99));
    assert_true(supply_take_due(&share, 99, 200));
    assert_true(supply_take_first(&share, 100));
    assert_true(supply_take(&share, 100));
    assert_true(supply_take(&share, 100));
    assert_false(supply_take(&share, 100));
    assert_true(supply_is_over(&share, 100));
}

/* A thread that is to end begins what it took, and no more. */
static void test_closed(void **state)
{
    struct supply supply;
    struct supply_share leaver, other;

    (void)state;
    supply_begin(&supply, 100000, 2);
    supply_share_begin(&leaver, &supply, 2);
    supply_share_begin(&other, &supply, 2);
    assert_true(supply_take(&leaver, 0));
    leaver.closed = true;
    supply_release(&leaver);
    assert_int_equal(1 + take_all(&leaver) + take_all(&other), 100000);
    assert_true(supply_is_over(&leaver, 0) && supply_is_over(&other, 0));
    supply_begin(&supply, 0, 1);
    supply_share_begin(&leaver, &supply, 0);
    leaver.closed = true;
    assert_true(supply_is_over(&leaver, 0));
}

struct taker {
    struct supply_share share;
    uint64_t taken;
};

static void *run_taker(void *context)
{
    struct taker *taker = context;

    taker->taken = take_all(&taker->share);
    return NULL;
}

static void test_many_threads(void **state)
{
    enum { THREADS = 4, REQUESTS = 300001 };
    struct supply supply;
    struct taker takers[THREADS];
    pthread_t ids[THREADS];
    uint64_t sum = 0;

    (void)state;
    supply_begin(&supply, REQUESTS, THREADS);
    for (int i = 0; i < THREADS; i++)
        supply_share_begin(&takers[i].share, &supply, 10);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, run_taker, &takers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        assert_true(takers[i].taken >= 10);
        sum += takers[i].taken;
    }
    assert_int_equal(sum, REQUESTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_deadline_and_stop),
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
