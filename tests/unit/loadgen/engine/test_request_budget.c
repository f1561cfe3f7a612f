/* The request budget: exactly as many requests begin as allowed. */
#include "common/macros.h"
#include "loadgen/engine/request_budget.h"
#include "tests/test.h"

#include <pthread.h>

static uint64_t take_all(struct budget_share *share)
{
    uint64_t taken = 0;

    while (budget_share_take(share, 0))
        taken++;
    while (budget_share_take_first(share, 0))
        taken++;
    return taken;
}

TEST(one_thread_takes_exactly_the_budget)
{
    static const uint64_t counts[] = {1, 2, 255, 256, 257, 100000};

    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        struct request_budget budget;
        struct budget_share share;

        request_budget_begin(&budget, counts[i], 1);
        budget_share_begin(&share, &budget, 1);
        assert_int_equal(take_all(&share), counts[i]);
        assert_false(budget_share_take(&share, 0));
    }
}

TEST(reserved_requests_are_kept_for_first_use)
{
    struct request_budget budget;
    struct budget_share fast, slow;

    request_budget_begin(&budget, 10, 2);
    budget_share_begin(&fast, &budget, 4);
    budget_share_begin(&slow, &budget, 5);
    assert_true(budget_share_take_first(&fast, 0));
    assert_true(budget_share_take(&fast, 0));
    assert_false(budget_share_take(&fast, 0));
    for (int i = 0; i < 3; i++)
        assert_true(budget_share_take_first(&fast, 0));
    assert_false(budget_share_take_first(&fast, 0));
    assert_int_equal(take_all(&slow), 5);
}

TEST(no_request_after_deadline_or_stop)
{
    struct request_budget budget;
    struct budget_share share;

    request_budget_begin(&budget, 0, 1);
    budget.deadline_ns = 1000;
    budget_share_begin(&share, &budget, 1);
    assert_true(budget_share_take(&share, 0));
    assert_true(budget_share_take(&share, 999));
    assert_false(budget_share_take(&share, 1000));
    assert_true(budget_share_take(&share, 999));
    assert_false(request_budget_is_stopped(&budget));
    budget_share_begin(&share, &budget, 2);
    assert_true(budget_share_take_first(&share, 999));
    assert_false(budget_share_take_first(&share, 1000));
    assert_int_equal(request_budget_end_ns(&budget), 1000);
    request_budget_stop(&budget, 900);
    request_budget_stop(&budget, 950);
    assert_true(request_budget_is_stopped(&budget));
    assert_int_equal(request_budget_end_ns(&budget), 900);
    assert_true(budget_share_is_exhausted(&share, 0));
    assert_false(budget_share_take(&share, 0));
    assert_false(budget_share_take_first(&share, 0));
}

TEST(unlimited_budget_never_ends)
{
    struct request_budget budget;
    struct budget_share share;

    request_budget_begin(&budget, 0, 3);
    budget_share_begin(&share, &budget, 7);
    for (int i = 0; i < 10000; i++)
        assert_true(budget_share_take(&share, 0));
}

/* The due time decides whether a request belongs to the warm-up, not the time when it begins. */
TEST(warmup_requests_do_not_count)
{
    struct request_budget budget;
    struct budget_share share;

    request_budget_begin(&budget, 3, 1);
    budget.counted_from_ns = 100;
    budget_share_begin(&share, &budget, 1);
    for (int i = 0; i < 50; i++)
        assert_true(budget_share_take(&share, 99));
    assert_true(budget_share_take_first(&share, 99));
    assert_false(budget_share_is_exhausted(&share, 99));
    assert_true(budget_share_take_due(&share, 99, 200));
    assert_true(budget_share_take_first(&share, 100));
    assert_true(budget_share_take(&share, 100));
    assert_true(budget_share_take(&share, 100));
    assert_false(budget_share_take(&share, 100));
    assert_true(budget_share_is_exhausted(&share, 100));
}

TEST(closed_share_takes_no_more_portions)
{
    struct request_budget budget;
    struct budget_share leaver, other;

    request_budget_begin(&budget, 100000, 2);
    budget_share_begin(&leaver, &budget, 2);
    budget_share_begin(&other, &budget, 2);
    assert_true(budget_share_take(&leaver, 0));
    leaver.closed = true;
    budget_share_release(&leaver);
    assert_int_equal(1 + take_all(&leaver) + take_all(&other), 100000);
    assert_true(budget_share_is_exhausted(&leaver, 0) && budget_share_is_exhausted(&other, 0));
    request_budget_begin(&budget, 0, 1);
    budget_share_begin(&leaver, &budget, 0);
    leaver.closed = true;
    assert_true(budget_share_is_exhausted(&leaver, 0));
}

struct taker {
    struct budget_share share;
    uint64_t taken;
};

static void *run_taker(void *context)
{
    struct taker *taker = context;

    taker->taken = take_all(&taker->share);
    return NULL;
}

TEST(threads_take_exactly_the_budget)
{
    enum { THREADS = 4, REQUESTS = 300001 };
    struct request_budget budget;
    struct taker takers[THREADS];
    pthread_t ids[THREADS];
    uint64_t sum = 0;

    request_budget_begin(&budget, REQUESTS, THREADS);
    for (int i = 0; i < THREADS; i++)
        budget_share_begin(&takers[i].share, &budget, 10);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, run_taker, &takers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        assert_true(takers[i].taken >= 10);
        sum += takers[i].taken;
    }
    assert_int_equal(sum, REQUESTS);
}
