/* How a worker frees memory while it is short, and how its main thread passes a request to close idle connections. */
#include "daemon/worker/relief.h"

#include "common/macros.h"
#include "daemon/connection/shedding.h"
#include "daemon/transaction/shortage.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serving_threads.h"
#include "tests/unit/own_cache.h"

enum { FEW_CONNECTIONS = 8 };

struct scene {
    struct worker_shortages shortages;
    struct worker_context worker;
    struct worker_shedding shedding;
    struct own_cache own;
};

static struct scene scene; /* the threads refer to it */

static void open_scene(void)
{
    scene = (struct scene){.worker = {.shortages = &scene.shortages}};
    open_threads(&scene.worker);
}

static void close_scene(void)
{
    close_threads();
}

static void open_cache(void)
{
    own_cache_open(&scene.own, own_cache_forget);
    scene.worker.cache = scene.own.cache;
}

static void close_cache(void)
{
    own_cache_close(&scene.own);
}

static bool put(const char *path, size_t bytes)
{
    return own_cache_put(&scene.own, path, bytes);
}

static void set_level(enum memory_level level, uint64_t cache_bytes)
{
    const struct message_memory message = {.cache_bytes = cache_bytes, .level = level};

    relief_set(&scene.worker, &message);
}

static struct shed_request *request_in(uint32_t number)
{
    struct mailbox_item *item = next_item(number, shed_visit);

    return item == NULL ? NULL : CONTAINER_OF(item, struct shed_request, item);
}

static void pass(struct shed_request *request)
{
    worker_shedding_pass(&scene.shedding, request, threads, THREADS);
}

static void level_is_known_to_all_threads(void **state)
{
    (void)state;
    open_scene();
    assert_false(relief_needed(&scene.worker));
    set_level(MEMORY_SHORT, 0);
    assert_true(relief_needed(&scene.worker));
    assert_true(relief_admits(&scene.worker, threads, THREADS));
    set_level(MEMORY_EXHAUSTED, 0);
    assert_true(relief_needed(&scene.worker));
    set_level(MEMORY_ENOUGH, 0);
    assert_false(relief_needed(&scene.worker));
    close_scene();
}

static void connections_wait_while_no_thread_admits_one(void **state)
{
    (void)state;
    open_scene();
    set_level(MEMORY_EXHAUSTED, 0);
    for (uint32_t i = 0; i < THREADS; i++)
        set_connections(i, FEW_CONNECTIONS, 0);
    assert_false(relief_admits(&scene.worker, threads, THREADS));
    set_connections(THREADS - 1, FEW_CONNECTIONS - 1, 0);
    assert_true(relief_admits(&scene.worker, threads, THREADS));
    assert_false(relief_admits(&scene.worker, threads, THREADS - 1));
    set_level(MEMORY_SHORT, 0);
    assert_true(relief_admits(&scene.worker, threads, THREADS - 1));
    close_scene();
}

static void cache_takes_what_the_master_allows(void **state)
{
    (void)state;
    open_scene();
    open_cache();
    set_level(MEMORY_SHORT, KIB);
    assert_false(put("/a", 2 * KIB));
    assert_true(put("/b", KIB));
    assert_false(put("/c", KIB));
    set_level(MEMORY_SHORT, KIB);
    assert_true(put("/c", KIB));
    close_cache();
    close_scene();
}

/* An eighth of the connections, when the cache has nothing more to evict. */
static void connections_follow_the_cache(void **state)
{
    struct shed_request *request;

    (void)state;
    open_scene();
    open_cache();
    set_level(MEMORY_SHORT, 64 * KIB);
    assert_true(put("/a", KIB));
    set_connections(0, 10, 0);
    set_connections(1, 20, 5);
    set_connections(2, 30, 0);
    relief_step(&scene.worker, &scene.shedding, threads, THREADS);
    assert_false(scene.shedding.under_way);
    assert_true(put("/a", KIB)); /* it was evicted */
    relief_step(&scene.worker, &scene.shedding, threads, THREADS);
    assert_false(scene.shedding.under_way);
    relief_step(&scene.worker, &scene.shedding, threads, THREADS);
    assert_true(scene.shedding.under_way);
    request = request_in(0);
    assert_non_null(request);
    assert_int_equal(request->reason, SHORTAGE_MEMORY);
    assert_int_equal(request->wanted, (10 + 20 + 30) / 8 + 1);
    assert_null(request->asker);
    close_cache();
    close_scene();
}

static void without_a_cache_connections_are_closed_at_once(void **state)
{
    (void)state;
    open_scene();
    relief_step(&scene.worker, &scene.shedding, threads, THREADS);
    assert_non_null(request_in(0));
    close_scene();
}

static void request_visits_each_thread_until_enough_are_closed(void **state)
{
    struct shed_request *request;

    (void)state;
    open_scene();
    worker_shedding_begin(&scene.shedding, SHORTAGE_CONNECTIONS, 5, threads, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        request = request_in(i);
        assert_non_null(request);
        assert_int_equal(request->closed, i);
        assert_true(scene.shedding.under_way);
        worker_shedding_begin(&scene.shedding, SHORTAGE_MEMORY, 9, threads, THREADS);
        assert_int_equal(request->wanted, 5); /* one at a time */
        request->closed++;
        pass(request);
    }
    assert_false(scene.shedding.under_way);

    worker_shedding_begin(&scene.shedding, SHORTAGE_CONNECTIONS, 5, threads, THREADS);
    request = request_in(0);
    assert_non_null(request);
    request->closed = 5;
    pass(request);
    assert_false(scene.shedding.under_way);
    close_scene();
}

static void request_of_a_thread_returns_to_it(void **state)
{
    struct shed_request own = {.asker = &thread[1].loop.mailbox, .wanted = 1};

    (void)state;
    open_scene();
    pass(&own);
    assert_ptr_equal(request_in(0), &own);
    own.closed = 1;
    pass(&own);
    assert_ptr_equal(next_item(1, shed_finish), &own.item);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level_is_known_to_all_threads),
        cmocka_unit_test(connections_wait_while_no_thread_admits_one),
        cmocka_unit_test(cache_takes_what_the_master_allows),
        cmocka_unit_test(connections_follow_the_cache),
        cmocka_unit_test(without_a_cache_connections_are_closed_at_once),
        cmocka_unit_test(request_visits_each_thread_until_enough_are_closed),
        cmocka_unit_test(request_of_a_thread_returns_to_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
