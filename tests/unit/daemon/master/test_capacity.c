/* Clearing the slot of a dead worker; room for workers and threads. */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <string.h>
#include <sys/resource.h>

enum { WORKERS = 3, THREADS = 2, ENTRIES = 4 };

static struct master master;
static struct config config;

static int begin(void **state)
{
    (void)state;
    config = (struct config){.workers_dispatch = DISPATCH_MASTER, /* no listen sockets to open */
                             .workers_processes = WORKERS,
                             .workers_threads = THREADS,
                             .server_listen.count = 1};
    master = (struct master){.config = &config};
    return own_segment_create(&master.segment, (struct segment_plan){.max_workers = WORKERS,
                                                                     .max_threads = THREADS,
                                                                     .cache_entries = ENTRIES});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&master.segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* The numbers of WORKER, all VALUE. */
static void fill(uint32_t worker, uint32_t value)
{
    struct segment_worker *block = segment_worker(&master.segment, worker);
    struct segment_client *clients = segment_clients(&master.segment, worker);

    for (uint32_t i = worker * THREADS; i < (worker + 1) * THREADS; i++) {
        struct segment_thread *thread = segment_thread(&master.segment, i);

        metric_set(thread->metrics, METRIC_connections_open, value);
        metric_set(thread->metrics, METRIC_requests, value);
        atomic_store(&thread->activity.tid, (int32_t)value);
    }
    metric_set(block->metrics, METRIC_offload_queue_depth, value);
    metric_set(block->metrics, METRIC_connections_received, value);
    atomic_store(&block->threads_actual, value);
    atomic_store(&block->offload_actual, value);
    atomic_store(&block->connections_open, value);
    atomic_store(&clients[0].count, value);
    atomic_store(&clients[SEGMENT_CLIENTS_PER_WORKER - 1].count, value);
    segment_use_threads(&master.segment, worker, THREADS);
}

/* Expects the gauges and states of WORKER to be NOW, and its counters to be EVER. */
static void expect(uint32_t worker, uint32_t now, uint32_t ever)
{
    struct segment_worker *block = segment_worker(&master.segment, worker);
    struct segment_client *clients = segment_clients(&master.segment, worker);

    for (uint32_t i = worker * THREADS; i < (worker + 1) * THREADS; i++) {
        struct segment_thread *thread = segment_thread(&master.segment, i);

        assert_int_equal(metric_get(thread->metrics, METRIC_connections_open), now);
        assert_int_equal(metric_get(thread->metrics, METRIC_requests), ever);
        assert_int_equal(atomic_load(&thread->activity.tid), now);
        assert_int_equal(atomic_load(&segment_thread_slot(&master.segment, i)->worker),
                         now > 0 ? worker : SEGMENT_NO_WORKER);
    }
    assert_int_equal(metric_get(block->metrics, METRIC_offload_queue_depth), now);
    assert_int_equal(metric_get(block->metrics, METRIC_connections_received), ever);
    assert_int_equal(atomic_load(&block->threads_actual), now);
    assert_int_equal(atomic_load(&block->offload_actual), now);
    assert_int_equal(atomic_load(&block->connections_open), now);
    assert_int_equal(atomic_load(&clients[0].count), now);
    assert_int_equal(atomic_load(&clients[SEGMENT_CLIENTS_PER_WORKER - 1].count), now);
}

TEST(numbers_of_a_dead_worker_are_cleared)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(segment_reserve(&master.segment, i, THREADS), 0);
        fill(i, 7);
    }
    capacity_clear_slot(&master.segment, 1);
    expect(0, 7, 7);
    expect(1, 0, 7);
    expect(2, 7, 7);
}

/* Its successors continue the counters, so what it cannot have counted is removed. */
TEST(impossible_counts_of_a_dead_worker_are_removed)
{
    enum { BEFORE = 1000, SECONDS = 10 };
    static const struct {
        const char *name;
        uint64_t requests, bytes, response_ns; /* after its death */
        uint64_t in_latency, latency_ns;       /* of all its requests */
        bool requests_count, bytes_count, time_counts, latency_counts;
    } cases[] = {
        {"honest", BEFORE + 50, BEFORE + 900, BEFORE + NS_PER_S, BEFORE + 50, NS_PER_S, true, true,
         true, true},
        {"fast", BEFORE + SECONDS * 1000000, BEFORE + SECONDS * 1000000000ULL, BEFORE + NS_PER_S,
         BEFORE, NS_PER_S, true, true, true, true},
        {"negative", BEFORE - 1, UINT64_MAX, BEFORE - 1, 0, 1, false, false, false, true},
        {"huge", UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2, 1, false, false,
         false, false},
        {"more latencies than requests", BEFORE, BEFORE, BEFORE, BEFORE + 1, 1, true, true, true,
         false},
        {"requests of a century", BEFORE, BEFORE, BEFORE, BEFORE, UINT64_MAX / 4, true, true, true,
         false},
    };
    struct worker_process *worker;
    _Atomic uint64_t *metrics;
    struct histogram *latency;

    assert_int_equal(workers_init(&master), 0);
    worker = &master.workers.worker[1];
    assert_int_equal(segment_reserve(&master.segment, 1, THREADS), 0);
    metrics = segment_thread(&master.segment, THREADS)->metrics;
    latency = &segment_latency_of(&master.segment, THREADS)[0];
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t now_ns = clock_monotonic_ns();

        metric_set(metrics, METRIC_requests, BEFORE);
        metric_set(metrics, METRIC_bytes_sent, BEFORE);
        metric_set(metrics, METRIC_response_time, BEFORE);
        totals_remember(worker);
        worker->started_ns = now_ns - SECONDS * NS_PER_S;
        metric_set(metrics, METRIC_requests, cases[i].requests);
        metric_set(metrics, METRIC_bytes_sent, cases[i].bytes);
        metric_set(metrics, METRIC_response_time, cases[i].response_ns);
        memset(latency, 0, sizeof(*latency));
        histogram_restore_bucket(latency, histogram_index(cases[i].latency_ns),
                                 cases[i].in_latency);
        histogram_restore_sum(latency, cases[i].latency_ns, cases[i].latency_ns);
        totals_limit(worker, now_ns);
        if ((metric_get(metrics, METRIC_requests) == cases[i].requests) !=
                cases[i].requests_count ||
            (metric_get(metrics, METRIC_bytes_sent) == cases[i].bytes) != cases[i].bytes_count ||
            (metric_get(metrics, METRIC_response_time) == cases[i].response_ns) !=
                cases[i].time_counts ||
            (histogram_count(latency) == cases[i].in_latency) != cases[i].latency_counts)
            fail_msg("%s: %lu requests, %lu bytes, %lu ns, latency of %lu", cases[i].name,
                     (unsigned long)metric_get(metrics, METRIC_requests),
                     (unsigned long)metric_get(metrics, METRIC_bytes_sent),
                     (unsigned long)metric_get(metrics, METRIC_response_time),
                     (unsigned long)histogram_count(latency));
        if (!cases[i].requests_count)
            assert_int_equal(metric_get(metrics, METRIC_requests), BEFORE);
    }
    workers_free(&master.workers);
}

TEST(cache_entries_of_a_dead_worker_become_free)
{
    struct segment_cache_entry *dead, *other;

    assert_int_equal(segment_reserve_worker(&master.segment, 0), 0);
    assert_int_equal(segment_reserve_worker(&master.segment, 1), 0);
    dead = segment_cache(&master.segment, 0);
    other = segment_cache(&master.segment, 1);
    segment_cache_state(&dead[0], CACHE_SLOT_LIVE);
    segment_cache_state(&dead[ENTRIES - 1], CACHE_SLOT_STALE);
    segment_cache_state(&other[0], CACHE_SLOT_LIVE);
    capacity_clear_cache(&master.segment, 0);
    for (int i = 0; i < ENTRIES; i++)
        assert_int_equal(atomic_load(&dead[i].state), CACHE_SLOT_FREE);
    assert_int_equal(atomic_load(&other[0].state), CACHE_SLOT_LIVE);
}

TEST(each_thread_needs_listen_sockets_unless_the_master_accepts)
{
    assert_int_equal(capacity_listen_sockets(&config), 1);
    config.workers_dispatch = DISPATCH_KERNEL;
    assert_int_equal(capacity_listen_sockets(&config), WORKERS * THREADS);
}

TEST(connections_have_the_descriptors_that_are_left)
{
    /* 48, for each thread 4 and 2 for each address, and a quarter for the cache. */
    const struct rlimit enough = {.rlim_cur = 1000}, too_few = {.rlim_cur = 80};

    assert_int_equal(capacity_of_worker(&config, &enough), 1000 - 250 - 48 - THREADS * 6);
    assert_int_equal(capacity_of_worker(&config, &too_few), 8);
    config.server_listen.count = 3;
    assert_int_equal(capacity_of_worker(&config, &enough), 1000 - 250 - 48 - THREADS * 10);
}

TEST(too_few_descriptors_are_refused)
{
    struct rlimit limit, low;
    char why[256];

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    /* A worker needs the most: 48, for each thread 4 and 2 for its listen socket. */
    low = (struct rlimit){48 + THREADS * 6 - 1, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(capacity_prepare(&master, 1, THREADS, why, sizeof(why)), -1);
    assert_string_equal(why, "1 worker with 2 threads each: a process needs 60 descriptors, but 59 "
                             "are allowed (raise the limit: ulimit -n)");
    assert_false(segment_worker_reserved(&master.segment, 0));
    low.rlim_cur++;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(capacity_prepare(&master, 1, THREADS, why, sizeof(why)), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(memory_is_reserved_first_for_slots_in_use)
{
    char why[256];

    assert_int_equal(capacity_prepare(&master, 0, THREADS, why, sizeof(why)), 0);
    assert_false(segment_worker_reserved(&master.segment, 0));
    atomic_store(&segment_worker_slot(&master.segment, 1)->state, WORKER_SERVING);
    atomic_store(&segment_worker_slot(&master.segment, 2)->state, WORKER_STARTING);
    assert_int_equal(capacity_prepare(&master, 1, 1, why, sizeof(why)), 0);
    assert_false(segment_worker_reserved(&master.segment, 0));
    assert_true(segment_worker_reserved(&master.segment, 1));
    assert_true(segment_thread_reserved(&master.segment, 1 * THREADS));
    assert_false(segment_thread_reserved(&master.segment, 1 * THREADS + 1));
    assert_false(segment_worker_reserved(&master.segment, 2));
    assert_int_equal(capacity_prepare(&master, 2, THREADS, why, sizeof(why)), 0);
    assert_false(segment_worker_reserved(&master.segment, 0));
    assert_true(segment_thread_reserved(&master.segment, 1 * THREADS + 1));
    assert_true(segment_worker_reserved(&master.segment, 2));
    assert_int_equal(capacity_prepare(&master, 3, THREADS, why, sizeof(why)), 0);
    assert_true(segment_worker_reserved(&master.segment, 0));
}

TEST(impossible_counts_of_a_dead_logger_are_removed)
{
    enum { BEFORE = 1000, SECONDS = 10 };
    uint64_t now_ns = clock_monotonic_ns();
    _Atomic uint64_t *metrics = segment_logger(&master.segment)->metrics;

    assert_int_equal(workers_init(&master), 0);
    metric_set(metrics, METRIC_log_lines, BEFORE);
    metric_set(metrics, METRIC_log_bytes, BEFORE);
    totals_remember_logger(&master);
    master.auxiliary.logger.child.started_ns = now_ns - SECONDS * NS_PER_S;
    metric_set(metrics, METRIC_log_lines, BEFORE + 50);
    metric_set(metrics, METRIC_log_bytes, BEFORE - 1);
    totals_limit_logger(&master, now_ns);
    assert_int_equal(metric_get(metrics, METRIC_log_lines), BEFORE + 50);
    assert_int_equal(metric_get(metrics, METRIC_log_bytes), BEFORE);
    workers_free(&master.workers);
}
