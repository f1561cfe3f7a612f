/* Connections by client address: counted by each worker, added up by all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/master/slots.h"
#include "daemon/transaction/client_limit.h"
#include "daemon/transaction/rate_limit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { WORKERS = 3 };

static struct segment segment;
static struct client_limit *peers[WORKERS];

static int set_up(void **state)
{
    char name[64], why[256];
    struct segment_plan plan = {.name = name,
                                .socket_path = "",
                                .listening = "",
                                .max_workers = WORKERS + 1,
                                .max_threads = 1,
                                .cache_entries = 1,
                                .ring_bytes = 4096};

    (void)state;
    snprintf(name, sizeof(name), "test-peers-%d", (int)getpid());
    if (segment_create(&segment, &plan, why, sizeof(why)) != 0) {
        print_error("%s\n", why);
        return -1;
    }
    rate_limit_prepare(&segment);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(segment_reserve_worker(&segment, i), 0);
        peers[i] = client_limit_new(&segment, i);
        assert_non_null(peers[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        client_limit_free(peers[i]);
    segment_destroy(&segment);
    return 0;
}

static void an_address_has_so_many_and_no_more(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_limit_enter(peers[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(peers[0], 7, 3), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_enter(peers[0], 8, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_count(&segment, 7), 3);
    client_limit_leave(peers[0], 7);
    assert_int_equal(client_limit_enter(peers[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(peers[0], 7, UINT32_MAX),
                     CLIENT_LIMIT_COUNTED); /* it was in before */
    assert_int_equal(client_limit_count(&segment, 7), 4);
}

static void all_workers_count(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(peers[i], 7, WORKERS), CLIENT_LIMIT_COUNTED);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(peers[i], 7, WORKERS), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_count(&segment, 7), WORKERS);
    client_limit_leave(peers[1], 7);
    assert_int_equal(client_limit_enter(peers[2], 7, WORKERS), CLIENT_LIMIT_COUNTED);
}

static void a_dead_worker_counts_no_more(void **state)
{
    (void)state;
    assert_int_equal(client_limit_enter(peers[0], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(peers[1], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(peers[1], 9, 9), CLIENT_LIMIT_COUNTED);
    slots_clear(&segment, 1);
    assert_int_equal(client_limit_count(&segment, 7), 1);
    assert_int_equal(client_limit_count(&segment, 9), 0);
}

/* Many more addresses than entries, in and out again: entries are used anew, nothing is left. */
static void entries_are_used_again(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= UINT64_C(50) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        assert_int_equal(client_limit_enter(peers[0], key, 1), CLIENT_LIMIT_COUNTED);
        client_limit_leave(peers[0], key);
    }
    for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
        assert_int_equal(segment_clients(&segment, 0)[i].count, 0);
}

static void a_full_table_lets_everybody_in(void **state)
{
    uint64_t counted = 0, key = 1;

    (void)state;
    for (; key <= UINT64_C(2) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        enum client_limit_verdict verdict = client_limit_enter(peers[0], key, 1);

        assert_int_not_equal(verdict, CLIENT_LIMIT_EXCEEDED);
        counted += verdict == CLIENT_LIMIT_COUNTED;
    }
    assert_in_range(counted, SEGMENT_CLIENTS_PER_WORKER / 2, SEGMENT_CLIENTS_PER_WORKER);
}

/* Threads of all workers at once, which never are more than may be. */

enum { THREADS = 4, TURNS = 4000, MOST = 5 };

static _Atomic int inside, too_many_inside;

static void *come_and_go(void *argument)
{
    struct client_limit *own = argument;

    for (int i = 0; i < TURNS; i++) {
        if (client_limit_enter(own, 7, MOST) != CLIENT_LIMIT_COUNTED)
            continue;
        if (atomic_fetch_add(&inside, 1) + 1 > MOST)
            atomic_store(&too_many_inside, 1);
        if (i % 16 == 0)
            sched_yield();
        atomic_fetch_sub(&inside, 1);
        client_limit_leave(own, 7);
    }
    return NULL;
}

static void never_more_than_may_be_come_in_at_once(void **state)
{
    pthread_t id[WORKERS * THREADS];

    (void)state;
    for (int i = 0; i < WORKERS * THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, come_and_go, peers[i % WORKERS]), 0);
    for (int i = 0; i < WORKERS * THREADS; i++)
        pthread_join(id[i], NULL);
    assert_int_equal(too_many_inside, 0);
    assert_int_equal(client_limit_count(&segment, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_has_so_many_and_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_workers_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dead_worker_counts_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(entries_are_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_lets_everybody_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(never_more_than_may_be_come_in_at_once, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
