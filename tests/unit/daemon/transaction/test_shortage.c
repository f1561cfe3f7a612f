/*
 * Shortages: one event when a thread has one, one when no thread has had it for a while. Room for an
 * allocation that failed: what the cache evicts, and what it has evicted before.
 */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/transaction/shortage.h"
#include "tests/test.h"
#include "tests/unit/own_cache.h"
#include "tests/unit/own_segment.h"

enum { START_S = 1000 };

static struct segment segment;
static struct worker_shortages of_worker;
static const struct worker_context of_context = {.worker_slot = 7, .shortages = &of_worker};
static uint64_t now_ns;
static uint64_t next_event;

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 1}) != 0)
        return -1;
    events_attach(&segment, SEGMENT_RING_MASTER);
    next_event = 0;
    memset(&of_worker, 0, sizeof(of_worker));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_attach(NULL, 0);
    segment_destroy(&segment);
    return 0;
}

static void at(unsigned seconds)
{
    now_ns = (START_S + seconds) * NS_PER_S;
    shortages_expire(&of_context, now_ns);
}

static void expect_event(const char *text)
{
    const struct event_ring ring = segment_event_ring(&segment, SEGMENT_RING_MASTER);
    struct event_record event;

    assert_int_equal(event_ring_read(&ring, &next_event, clock_wall_ns(), &event), 1);
    assert_string_equal(event.text, text);
}

static void expect_no_event(void)
{
    const struct event_ring ring = segment_event_ring(&segment, SEGMENT_RING_MASTER);
    struct event_record event;

    assert_int_equal(event_ring_read(&ring, &next_event, clock_wall_ns(), &event), 0);
}

static const char begins[] = "worker 7: the log ring is full: access log records are dropped";

/* The threads may be those of one connection each, which are gone soon. */
TEST_WITH(shortage_of_many_threads_is_one_begin_and_one_end, set_up, tear_down)
{
    at(0);
    assert_false(shortage_lasts(&of_context, SHORTAGE_LOG));
    shortage_note(&of_context, SHORTAGE_LOG, now_ns, 1);
    expect_event(begins);
    assert_true(shortage_lasts(&of_context, SHORTAGE_LOG));
    at(9);
    shortage_note(&of_context, SHORTAGE_LOG, now_ns, 6);
    at(18);
    expect_no_event();
    at(19);
    expect_event("worker 7: the shortage is over: 7 access log records were dropped");
    assert_false(shortage_lasts(&of_context, SHORTAGE_LOG));
    expect_no_event();
}

TEST_WITH(next_shortage_counts_from_zero, set_up, tear_down)
{
    for (unsigned i = 0; i < 2; i++) {
        at(100 * i);
        shortage_note(&of_context, SHORTAGE_LOG, now_ns, 1);
        expect_event(begins);
        at(100 * i + 50);
        expect_event("worker 7: the shortage is over: 1 access log record was dropped");
    }
    expect_no_event();
}

TEST_WITH(exit_of_the_worker_ends_its_shortages, set_up, tear_down)
{
    at(0);
    shortage_note(&of_context, SHORTAGE_LOG, now_ns, 2);
    expect_event(begins);
    shortages_expire(&of_context, UINT64_MAX);
    expect_event("worker 7: the shortage is over: 2 access log records were dropped");
    expect_no_event();
}

static struct {
    struct own_cache own;
    struct mailbox main;
    int sweeps; /* requests to drop what the cache has evicted */
    struct worker_shortages shortages;
    struct worker_context worker;
    struct transaction_context context;
    bool watch;                     /* look for room when an entry is about to be freed: */
    enum memory_room while_freeing; /* the result of the last look */
} scene;

static enum memory_room find_room(uint64_t freed_before)
{
    return memory_find_room(&scene.context, freed_before);
}

static void forget(struct cache_entry *entry)
{
    if (scene.watch)
        scene.while_freeing = find_room(memory_freed(&scene.worker));
    free(entry);
}

static void count_sweep(struct mailbox_item *item, void *receiver)
{
    (void)item, (void)receiver;
    atomic_store(&scene.shortages.sweep_posted, false);
    scene.sweeps++;
}

static void open_scene(void)
{
    memset(&scene, 0, sizeof(scene));
    scene.shortages.deliver_sweep = count_sweep;
    own_cache_open(&scene.own, forget);
    assert_int_equal(mailbox_open(&scene.main, 0, NULL), 0);
    scene.worker = (struct worker_context){
        .main = &scene.main, .shortages = &scene.shortages, .cache = scene.own.cache};
    scene.context = (struct transaction_context){.worker = &scene.worker, .loop_now_ns = 1};
    scene.context.thread_cache =
        thread_cache_new(scene.worker.cache, segment_hits_of(&scene.own.segment, 0),
                         segment_thread(&scene.own.segment, 0)->metrics);
    assert_non_null(scene.context.thread_cache);
}

static void close_scene(void)
{
    thread_cache_free(scene.context.thread_cache);
    own_cache_close(&scene.own);
    mailbox_close(&scene.main);
}

/* The caller has a reference. */
static struct cache_entry *put(const char *path)
{
    struct cache_entry *entry = own_cache_insert(&scene.own, path, KIB);

    assert_true(entry->stored);
    return entry;
}

/* Whether all threads have been asked to drop what the cache has evicted. */
static bool asked_all(void)
{
    int before = scene.sweeps;

    mailbox_deliver(&scene.main, NULL);
    assert_in_range(scene.sweeps, before, before + 1);
    return scene.sweeps > before;
}

/* Its callers try again as long as there was something to free. */
TEST(without_a_cache_there_is_no_room_to_make)
{
    struct worker_shortages shortages = {0};
    const struct worker_context worker = {.cache = NULL, .shortages = &shortages};
    struct transaction_context context = {.worker = &worker, .loop_now_ns = 1};

    assert_false(memory_make_room(&context));
    assert_int_equal(memory_find_room(&context, memory_freed(&worker)), MEMORY_NONE);
    assert_true(shortage_lasts(&worker, SHORTAGE_MEMORY));
}

TEST(cache_is_emptied_by_halves)
{
    open_scene();
    cache_release(scene.worker.cache, put("/a"));
    cache_release(scene.worker.cache, put("/b"));
    cache_release(scene.worker.cache, put("/c"));
    assert_true(memory_make_room(&scene.context));
    assert_int_equal(memory_freed(&scene.worker), 2);
    assert_true(memory_make_room(&scene.context));
    assert_int_equal(memory_freed(&scene.worker), 3);
    assert_false(memory_make_room(&scene.context));
    assert_int_equal(find_room(3), MEMORY_NONE);
    assert_false(asked_all());
    close_scene();
}

TEST(memory_that_others_use_is_awaited)
{
    struct cache_entry *entry;

    open_scene();
    entry = put("/a");
    assert_int_equal(find_room(0), MEMORY_FREED); /* evicted */
    assert_true(asked_all());
    assert_int_equal(find_room(0), MEMORY_AWAITED);
    assert_true(asked_all());
    cache_release(scene.worker.cache, entry);
    assert_int_equal(find_room(0), MEMORY_FREED);
    assert_int_equal(find_room(1), MEMORY_NONE);
    close_scene();
}

/* Between the last reference and free(), another thread may look. */
TEST(memory_about_to_be_freed_is_awaited)
{
    struct cache_entry *entry;

    open_scene();
    entry = put("/a");
    assert_int_equal(find_room(0), MEMORY_FREED);
    scene.watch = true;
    cache_release(scene.worker.cache, entry);
    assert_int_equal(scene.while_freeing, MEMORY_AWAITED);

    scene.while_freeing = MEMORY_NONE;
    cache_release(scene.worker.cache, put("/b"));
    assert_int_equal(cache_flush(scene.worker.cache), 1);
    assert_int_equal(scene.while_freeing, MEMORY_AWAITED);
    close_scene();
}

TEST(own_thread_cache_drops_what_is_evicted)
{
    struct cache_entry *entry;

    open_scene();
    entry = put("/a");
    thread_cache_store(scene.context.thread_cache, 0, (struct span){"/a", 2}, 0, entry, false, 1,
                       UINT64_MAX);
    cache_release(scene.worker.cache, entry);
    assert_int_equal(find_room(0), MEMORY_FREED);
    assert_int_equal(memory_freed(&scene.worker), 1);
    close_scene();
}

TEST(few_connections_are_always_admitted)
{
    _Atomic uint64_t *metrics;

    open_scene();
    metrics = scene.context.metrics = segment_thread(&scene.own.segment, 0)->metrics;
    metric_set(metrics, METRIC_connections_open, 1000);
    assert_true(memory_admits(&scene.context));
    atomic_store(&scene.shortages.memory, MEMORY_EXHAUSTED);
    assert_false(memory_admits(&scene.context));
    metric_set(metrics, METRIC_connections_open, 8);
    assert_false(memory_admits(&scene.context));
    metric_set(metrics, METRIC_connections_open, 7);
    assert_true(memory_admits(&scene.context));
    close_scene();
}
