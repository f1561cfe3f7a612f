/*
 * How a worker executes the commands of the master about caches and memory, and how its main thread
 * passes a request to close idle connections.
 */
#include "common/macros.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/transaction/shortage.h"

#include "serving_threads.h"
#include "tests/test.h"
#include "tests/unit/own_cache.h"

enum { NUMBER = 77, FEW_CONNECTIONS = 8 };

static struct own_cache own;

static void ignore_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument;
}

static int begin(void **state)
{
    (void)state;
    open_threads();
    worker.relief = event_new(worker.base, -1, 0, ignore_timer, NULL);
    assert_non_null(worker.relief);
    own_cache_open(&own, own_cache_forget);
    worker.context.cache = own.cache;
    return 0;
}

static int end(void **state)
{
    (void)state;
    event_free(worker.relief);
    close_threads();
    own_cache_close(&own);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static bool put(const char *path, size_t bytes)
{
    return own_cache_put(&own, path, bytes);
}

/* Commands about the caches */

/* The cache has /a, /b/1 and /b/2. */
static void fill_cache(void)
{
    assert_true(put("/a", KIB));
    assert_true(put("/b/1", KIB));
    assert_true(put("/b/2", KIB));
}

static void command(uint32_t count, enum worker_command what, uint64_t value, const char *path)
{
    struct message_command *message = calloc(1, sizeof(*message) + strlen(path) + 1);

    assert_non_null(message);
    message->number = NUMBER;
    message->value = value;
    message->what = what;
    memcpy(message->path, path, strlen(path) + 1);
    worker.count = count;
    worker_command_caches(&worker, message);
    worker.count = THREADS;
    free(message);
}

static void sweep(uint32_t number)
{
    mailbox_deliver(&thread[number].loop.mailbox, &thread[number].loop);
    mailbox_deliver(&worker.mailbox, &worker);
}

static bool has_reported(struct message_command_done *report)
{
    return next_message(commands, MESSAGE_COMMAND_DONE, report, sizeof(*report));
}

static void expect_report(uint64_t affected)
{
    struct message_command_done report = {0};

    assert_true(has_reported(&report));
    assert_int_equal(report.number, NUMBER);
    assert_int_equal(report.affected, affected);
    assert_false(has_reported(&report));
}

TEST(report_follows_the_last_thread)
{
    struct message_command_done report;

    fill_cache();
    command(THREADS, COMMAND_CACHE_FLUSH, 0, "");
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_false(has_reported(&report));
        sweep(i);
    }
    expect_report(3);
}

TEST(without_threads_it_follows_at_once)
{
    fill_cache();
    command(0, COMMAND_CACHE_PURGE, 0, "/b/");
    expect_report(2);
}

TEST(each_command_changes_the_cache)
{
    fill_cache();
    command(0, COMMAND_CACHE_PURGE, 0, "/a");
    expect_report(1);
    command(0, COMMAND_CACHE_SIZE, 3 * KIB / 2, "");
    expect_report(1);
    command(0, COMMAND_CACHE_POLICY, POLICY_SIEVE, "");
    expect_report(0);
    command(0, COMMAND_CACHE_FLUSH, 0, "");
    expect_report(1);
}

TEST(worker_without_a_cache_only_sweeps)
{
    struct message_command_done report;

    fill_cache();
    worker.context.cache = NULL;
    command(1, COMMAND_CACHE_FLUSH, 0, "");
    assert_false(has_reported(&report));
    sweep(0);
    expect_report(0);
}

/* Memory */

static void set_level(enum memory_level level, uint64_t cache_bytes)
{
    const struct message_memory message = {.cache_bytes = cache_bytes, .level = level};

    worker_set_memory(&worker, &message);
}

/* The timer of the next step has expired. */
static void relieve(void)
{
    event_del(worker.relief);
    worker_relieve(&worker);
}

static struct shed_request *request_in(uint32_t number)
{
    struct mailbox_item *item = next_item(number, shed_visit);

    return item == NULL ? NULL : CONTAINER_OF(item, struct shed_request, item);
}

TEST(connections_wait_while_no_thread_admits_one)
{
    assert_true(worker_ready_for_connection(&worker));
    worker.leaving = true; /* nothing is freed */
    set_level(MEMORY_EXHAUSTED, 0);
    for (uint32_t i = 0; i < THREADS; i++)
        set_connections(i, FEW_CONNECTIONS, 0);
    assert_false(worker_ready_for_connection(&worker));
    set_connections(THREADS - 1, FEW_CONNECTIONS - 1, 0);
    assert_true(worker_ready_for_connection(&worker));
    worker.count = THREADS - 1;
    assert_false(worker_ready_for_connection(&worker));
    set_level(MEMORY_SHORT, 0);
    assert_true(worker_ready_for_connection(&worker));
    worker.count = THREADS;
    free(worker.spare);
}

TEST(cache_takes_what_the_master_allows)
{
    worker.leaving = true;
    set_level(MEMORY_SHORT, KIB);
    assert_false(put("/a", 2 * KIB));
    assert_true(put("/b", KIB));
    assert_false(put("/c", KIB));
    set_level(MEMORY_SHORT, KIB);
    assert_true(put("/c", KIB));
}

/* An eighth of the connections, when the cache has nothing more to evict. */
TEST(connections_follow_the_cache)
{
    struct shed_request *request;

    assert_true(put("/a", KIB));
    set_connections(0, 10, 0);
    set_connections(1, 20, 5);
    set_connections(2, 30, 0);
    worker_relieve(&worker);
    assert_false(event_pending(worker.relief, EV_TIMEOUT, NULL)); /* memory is not short */
    set_level(MEMORY_SHORT, 64 * KIB);
    assert_true(event_pending(worker.relief, EV_TIMEOUT, NULL));
    assert_true(put("/a", KIB)); /* it was evicted */
    worker_relieve(&worker);     /* too early: nothing is freed */
    relieve();
    assert_false(worker.shed_pending);
    relieve();
    assert_true(worker.shed_pending);
    request = request_in(0);
    assert_non_null(request);
    assert_int_equal(request->reason, SHORTAGE_MEMORY);
    assert_int_equal(request->wanted, (10 + 20 + 30) / 8 + 1);
    assert_null(request->asker);
}

TEST(without_a_cache_connections_are_closed_at_once)
{
    worker.context.cache = NULL;
    set_level(MEMORY_SHORT, 0);
    assert_non_null(request_in(0));
}

TEST(request_visits_each_thread_until_enough_are_closed)
{
    struct shed_request *request;

    worker_shed(&worker, SHORTAGE_CONNECTIONS, 5);
    for (uint32_t i = 0; i < THREADS; i++) {
        request = request_in(i);
        assert_non_null(request);
        assert_int_equal(request->closed, i);
        assert_true(worker.shed_pending);
        worker_shed(&worker, SHORTAGE_MEMORY, 9);
        assert_int_equal(request->wanted, 5); /* one at a time */
        request->closed++;
        request->pass(&request->item, &worker);
    }
    assert_false(worker.shed_pending);

    worker_shed(&worker, SHORTAGE_CONNECTIONS, 5);
    request = request_in(0);
    assert_non_null(request);
    request->closed = 5;
    request->pass(&request->item, &worker);
    assert_false(worker.shed_pending);
    worker_shed(&worker, SHORTAGE_CONNECTIONS, 0);
    assert_false(worker.shed_pending);
}

TEST(request_of_a_thread_returns_to_it)
{
    struct shed_request request = {.asker = &thread[1].loop.mailbox, .wanted = 1};

    worker_pass_shed_request(&request.item, &worker);
    assert_ptr_equal(request_in(0), &request);
    request.closed = 1;
    worker_pass_shed_request(&request.item, &worker);
    assert_ptr_equal(next_item(1, shed_finish), &request.item);
}
