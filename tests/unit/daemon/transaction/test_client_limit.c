/* The client limit: each worker counts its connections; all workers enforce the sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/client_address.h"
#include "common/macros.h"
#include "daemon/master/internal.h"
#include "daemon/transaction/client_limit.h"
#include "daemon/transaction/rate_limit.h"
#include "tests/unit/own_segment.h"

#include <pthread.h>
#include <sched.h>

enum { WORKERS = 3 };

static struct segment segment;
static struct client_limit *limit[WORKERS];

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = WORKERS + 1}) != 0)
        return -1;
    rate_limit_prepare(&segment);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(segment_reserve_worker(&segment, i), 0);
        limit[i] = client_limit_new(&segment, i);
        assert_non_null(limit[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        client_limit_free(limit[i]);
    segment_destroy(&segment);
    return 0;
}

static void address_above_max_is_rejected(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_limit_enter(limit[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limit[0], 7, 3), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_enter(limit[0], 8, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_count(&segment, 7), 3);
    client_limit_leave(limit[0], 7);
    assert_int_equal(client_limit_enter(limit[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limit[0], 7, UINT32_MAX),
                     CLIENT_LIMIT_COUNTED); /* already admitted */
    assert_int_equal(client_limit_count(&segment, 7), 4);
}

static void max_holds_for_the_sum_of_all_workers(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(limit[i], 7, WORKERS), CLIENT_LIMIT_COUNTED);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(limit[i], 7, WORKERS), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_count(&segment, 7), WORKERS);
    client_limit_leave(limit[1], 7);
    assert_int_equal(client_limit_enter(limit[2], 7, WORKERS), CLIENT_LIMIT_COUNTED);
}

static void cleared_worker_slot_counts_nothing(void **state)
{
    (void)state;
    assert_int_equal(client_limit_enter(limit[0], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limit[1], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limit[1], 9, 9), CLIENT_LIMIT_COUNTED);
    capacity_clear_slot(&segment, 1);
    assert_int_equal(client_limit_count(&segment, 7), 1);
    assert_int_equal(client_limit_count(&segment, 9), 0);
}

/* Many more addresses than entries enter and leave: entries are reused and end at 0. */
static void entries_are_reused(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= UINT64_C(50) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        assert_int_equal(client_limit_enter(limit[0], key, 1), CLIENT_LIMIT_COUNTED);
        client_limit_leave(limit[0], key);
    }
    for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
        assert_int_equal(segment_clients(&segment, 0)[i].count, 0);
}

static void full_table_admits_uncounted(void **state)
{
    uint64_t counted = 0, key = 1;

    (void)state;
    for (; key <= UINT64_C(2) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        enum client_limit_verdict verdict = client_limit_enter(limit[0], key, 1);

        assert_int_not_equal(verdict, CLIENT_LIMIT_EXCEEDED);
        counted += verdict == CLIENT_LIMIT_COUNTED;
    }
    assert_in_range(counted, SEGMENT_CLIENTS_PER_WORKER / 2, SEGMENT_CLIENTS_PER_WORKER);
}

/* IPv6: connections of the networks (/64) of one site (/48). */
static void site_has_a_multiple_of_max(void **state)
{
    enum { MAX_OF_NETWORK = 2, NETWORKS = 100 };
    static const struct {
        uint64_t first, step, counted;
    } cases[] = {
        {UINT64_C(0x20010db800070000), 1, (uint64_t)CLIENT_SITE_FACTOR * MAX_OF_NETWORK},
        {UINT64_C(0x20010db800080000), 0, MAX_OF_NETWORK},
        {UINT64_C(0x20010db900000000), 0x10000, NETWORKS}, /* other sites */
        {UINT64_C(0x0000ffffc0000200), 1, NETWORKS},       /* IPv4 */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        bool entered[NETWORKS];
        uint64_t counted = 0;

        for (uint64_t n = 0; n < NETWORKS; n++) {
            entered[n] = client_limit_enter(limit[n % WORKERS], cases[i].first + n * cases[i].step,
                                            MAX_OF_NETWORK) == CLIENT_LIMIT_COUNTED;
            counted += entered[n];
        }
        assert_int_equal(counted, cases[i].counted);
        assert_true(client_limit_exceeds(&segment, cases[i].first, 0));
        for (uint64_t n = 0; n < NETWORKS; n++)
            if (entered[n])
                client_limit_leave(limit[n % WORKERS], cases[i].first + n * cases[i].step);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
            assert_int_equal(segment_clients(&segment, worker)[i].count, 0);
}

/* Threads of all workers enter and leave concurrently. */

enum { THREADS = 4, ROUNDS = 4000, MAX = 5 };

static _Atomic int inside, max_exceeded;

static void *enter_and_leave(void *argument)
{
    struct client_limit *own = argument;

    for (int i = 0; i < ROUNDS; i++) {
        if (client_limit_enter(own, 7, MAX) != CLIENT_LIMIT_COUNTED)
            continue;
        if (atomic_fetch_add(&inside, 1) + 1 > MAX)
            atomic_store(&max_exceeded, 1);
        if (i % 16 == 0)
            sched_yield();
        atomic_fetch_sub(&inside, 1);
        client_limit_leave(own, 7);
    }
    return NULL;
}

static void concurrent_workers_never_exceed_max(void **state)
{
    pthread_t id[WORKERS * THREADS];

    (void)state;
    for (int i = 0; i < WORKERS * THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, enter_and_leave, limit[i % WORKERS]), 0);
    for (int i = 0; i < WORKERS * THREADS; i++)
        pthread_join(id[i], NULL);
    assert_int_equal(max_exceeded, 0);
    assert_int_equal(client_limit_count(&segment, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(address_above_max_is_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(max_holds_for_the_sum_of_all_workers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cleared_worker_slot_counts_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(entries_are_reused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_table_admits_uncounted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(site_has_a_multiple_of_max, set_up, tear_down),
        cmocka_unit_test_setup_teardown(concurrent_workers_never_exceed_max, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
