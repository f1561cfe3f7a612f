/* Which thread has which listen socket of a worker. */
#include "serving_threads.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"

#include "daemon/connection/listen_socket.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

enum { IDS = 64 };

static bool out_of_memory;

void *__wrap_realloc(void *memory, size_t size)
{
    return out_of_memory ? NULL : __real_realloc(memory, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static int set_up(void **state)
{
    (void)state;
    open_threads();
    for (int i = 0; i < THREADS; i++)
        thread[i].loop.base = worker.base;
    events_forget();
    return 0;
}

/* Lets the threads execute what they were told. Returns the number of sockets given or revoked. */
static int deliver(void)
{
    int items = 0;

    for (int i = 0; i < THREADS; i++) {
        for (const struct mailbox_item *item = thread[i].loop.mailbox.first; item != NULL;
             item = item->next)
            items++;
        mailbox_deliver(&thread[i].loop.mailbox, &thread[i].loop);
    }
    return items;
}

static int tear_down(void **state)
{
    (void)state;
    deliver();
    for (int i = 0; i < THREADS; i++)
        listen_sockets_drop(&thread[i].loop);
    worker_listeners_drop_all(&worker);
    free(worker.listeners);
    close_threads();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static bool add(uint32_t row, uint32_t id)
{
    const struct message_listen_socket message = {.id = id, .row = row};

    return worker_listeners_add(&worker, &message, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/* Returns the number of sockets given or revoked. */
static int assign(uint32_t count)
{
    worker.count = count;
    worker_listeners_assign(&worker);
    return deliver();
}

static void expect_sockets(uint64_t zero, uint64_t one, uint64_t two)
{
    assert_int_equal(metric_get(thread_metrics[0], METRIC_listen_sockets), zero);
    assert_int_equal(metric_get(thread_metrics[1], METRIC_listen_sockets), one);
    assert_int_equal(metric_get(thread_metrics[2], METRIC_listen_sockets), two);
}

/* Returns the number of the thread that had it, or -1. */
static int drop(uint32_t id)
{
    uint64_t before[THREADS];

    for (int i = 0; i < THREADS; i++)
        before[i] = metric_get(thread_metrics[i], METRIC_listen_sockets);
    worker_listeners_drop(&worker, id);
    deliver();
    for (int i = 0; i < THREADS; i++)
        if (metric_get(thread_metrics[i], METRIC_listen_sockets) != before[i])
            return i;
    return -1;
}

/* Ids 1 to 5, in the rows 0, 0, 1, 2 and 7. */
static void add_five(void)
{
    assert_true(add(2, 4));
    assert_true(add(0, 2));
    assert_true(add(7, 5));
    assert_true(add(0, 1));
    assert_true(add(1, 3));
}

TEST(rows_are_assigned_to_the_threads_in_turn)
{
    static const int owners[] = {0, 0, 1, 0, 1};

    add_five();
    assert_int_equal(assign(0), 0);
    assert_int_equal(assign(2), 5);
    expect_sockets(3, 2, 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(drop(i + 1), owners[i]);
    assert_int_equal(event_count(), 0);
}

TEST(only_sockets_that_change_their_thread_are_revoked)
{
    add_five();
    assign(2);
    assert_int_equal(assign(2), 0);
    assert_int_equal(assign(3), 4); /* 4 and 5 go to other threads */
    expect_sockets(3, 1, 1);
    assert_int_equal(drop(4), 2);
    assert_int_equal(drop(5), 0);
}

/* It closes them itself. */
TEST(sockets_of_an_exiting_thread_are_not_revoked)
{
    add_five();
    assign(3);
    assert_int_equal(assign(2), 3); /* 4 is given; 5 is revoked and given */
    expect_sockets(3, 2, 1);
    worker.count = 1;
    assert_int_equal(drop(3), -1); /* of thread 1 */
}

TEST(many_sockets_are_spread)
{
    for (uint32_t id = IDS; id-- > 0;)
        assert_true(add(id / 2, id));
    assert_int_equal(assign(THREADS), IDS);
    expect_sockets(22, 22, 20);
    for (uint32_t id = 0; id < THREADS; id++) {
        assert_int_equal(drop(2 * id), id);
        assert_int_equal(drop(2 * id + 1), id);
    }
}

TEST(dropped_socket_is_closed)
{
    int descriptors;

    add_five();
    assign(2);
    descriptors = open_descriptors();
    assert_int_equal(drop(9), -1); /* unknown */
    assert_int_equal(open_descriptors(), descriptors);
    drop(1);
    drop(3);
    assert_int_equal(open_descriptors(), descriptors - 2 * 2); /* and the thread's duplicate */
    expect_sockets(2, 1, 0);
    assign(2); /* the rows 0, 2 and 7 are left */
    expect_sockets(2, 1, 0);
    assert_int_equal(drop(4), 1);
    worker_listeners_drop_all(&worker);
    assert_int_equal(worker.listener_count, 0);
    assert_int_equal(open_descriptors(), descriptors - 3 * 2 - 2);
}

TEST(failed_assignment_is_repeated)
{
    struct rlimit before, none;

    assert_true(add(0, 1));
    out_of_memory = true;
    assign(1);
    out_of_memory = false;
    assert_int_equal(event_count(), 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assign(1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(event_count(), 2);
    expect_sockets(0, 0, 0);
    assert_int_equal(assign(1), 1);
    assert_int_equal(assign(1), 0);
    expect_sockets(1, 0, 0);
    assert_int_equal(event_count(), 2);
}

TEST(socket_without_memory_is_closed)
{
    int descriptors;

    for (uint32_t id = 0; id < 16; id++)
        assert_true(add(0, id));
    descriptors = open_descriptors();
    out_of_memory = true;
    assert_false(add(0, 16));
    out_of_memory = false;
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(worker.listener_count, 16);
    assert_int_equal(event_count(), 1);
    assert_true(add(0, 17));
    assert_int_equal(worker.listener_count, 17);
}
