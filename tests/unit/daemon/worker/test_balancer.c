/* The orders of a worker's balancer. The test sets the threads' numbers of connections. */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/connection/lifecycle.h"
#include "tests/unit/event_output.h"

#include "serving_threads.h"
#include "tests/test.h"

static struct balancer *balancer = &worker.balancer;

static int begin(void **state)
{
    (void)state;
    open_threads();
    *balancer = (struct balancer){.on = true, .worker_slot = 4, .looked_ns = clock_monotonic_ns()};
    events_forget();
    return 0;
}

static int end(void **state)
{
    (void)state;
    close_threads();
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void expect_log(const char *text)
{
    const char *logged = last_event();

    if (strncmp(logged, text, strlen(text)) != 0 || (text[0] == '\0' && logged[0] != '\0'))
        fail_msg("'%s' is logged, not '%s'", logged, text);
    events_forget();
}

static struct give *order_in(uint32_t number)
{
    struct mailbox_item *item = next_item(number, connections_give);

    return item == NULL ? NULL : CONTAINER_OF(item, struct give, item);
}

/* The next look is too early, however slow the test is. */
static void stop_time(void)
{
    balancer->looked_ns = clock_monotonic_ns() + 3600 * NS_PER_S;
}

/* The next look is due. */
static void let_time_pass(void)
{
    balancer->looked_ns = clock_monotonic_ns() - 10 * NS_PER_S;
}

static uint32_t look(void)
{
    return balancer_look(&worker);
}

static void expect_order(uint32_t number, uint32_t count, bool idle, enum move_reason reason)
{
    struct give *give = order_in(number);

    assert_non_null(give);
    assert_int_equal(give->count, count);
    assert_int_equal(give->idle, idle);
    assert_int_equal(give->destination, DESTINATION_MASTER);
    assert_int_equal(give->reason, reason);
    give->given(&give->item, &worker);
}

TEST(each_thread_gives_away_its_part)
{
    const struct message_give active = {.active = 4}, idle = {.idle = 5, .resized = 1};

    set_connections(0, 20, 10);
    set_connections(1, 10, 0);
    set_connections(2, 40, 30);
    balancer_give_away(&worker, &active);
    assert_true(balancer_gives_away(balancer));
    expect_order(0, 1, false, MOVE_UNEVEN);
    assert_false(next_message(connections, MESSAGE_GIVEN, NULL, 0));
    expect_order(2, 3, false, MOVE_UNEVEN);
    assert_false(balancer_gives_away(balancer));
    assert_true(next_message(connections, MESSAGE_GIVEN, NULL, 0));

    set_connections(0, 10, 10);
    set_connections(1, 20, 0);
    set_connections(2, 30, 0);
    balancer_give_away(&worker, &idle);
    expect_order(1, 2, true, MOVE_RESIZE);
    expect_order(2, 3, true, MOVE_RESIZE);
    assert_false(balancer_gives_away(balancer));
}

/*
 * A thread counts its active connections once a second: there may be more of them than open ones.
 */
TEST(closed_connections_are_not_idle)
{
    const struct message_give idle = {.idle = 6};

    set_connections(0, 2, 10);
    set_connections(1, 6, 0);
    balancer_give_away(&worker, &idle);
    expect_order(1, 6, true, MOVE_UNEVEN);
}

TEST(threads_without_connections_give_none)
{
    const struct message_give all = {.active = 7, .idle = 7};

    balancer_give_away(&worker, &all);
    assert_false(balancer_gives_away(balancer));
    assert_false(balancer_is_moving(&worker));
}

/* Takes the orders of a look at thread 0, whose connections all others lack. Returns their sum. */
static uint32_t take_orders(enum move_reason reason)
{
    uint32_t sum = 0;
    struct give *give;

    while ((give = order_in(0)) != NULL) {
        assert_in_range(give->destination, 1, THREADS - 1);
        assert_int_equal(give->reason, reason);
        assert_false(give->idle);
        sum += give->count;
        give->given(&give->item, &worker);
    }
    return sum;
}

TEST(resize_is_evened_out_at_once)
{
    uint32_t pause_ms = 0;

    set_connections(0, 90, 90);
    balancer_resized(balancer, 1, THREADS);
    assert_true(look() < BALANCE_MOVING_MS); /* as soon as they have arrived */
    assert_true(balancer_is_moving(&worker));
    assert_int_equal(take_orders(MOVE_RESIZE), 60);
    assert_false(balancer_is_moving(&worker));
    balancer->moved = 60;
    for (uint32_t i = 0; i < THREADS; i++)
        set_connections(i, 30, 30);
    stop_time();
    assert_int_equal(look(), BALANCE_MOVING_MS);
    expect_log("");
    for (int i = 0; i < BALANCE_ROUNDS && balancer->resized_ns != 0; i++) {
        let_time_pass();
        pause_ms = look();
    }
    expect_log("worker 4: threads 1 to 3: 60 connections moved, balanced after ");
    assert_int_equal(pause_ms, BALANCE_REST_MS);
    assert_int_equal(balancer->resized_ns, 0);
    let_time_pass();
    look();
    expect_log(""); /* once */
}

TEST(resize_logs_what_it_has_moved)
{
    balancer_resized(balancer, 1, 2);
    balancer_resized(balancer, 2, 1);
    expect_log(""); /* nothing has moved */
    balancer->moved = 1;
    balancer_resized(balancer, 1, THREADS);
    expect_log("worker 4: threads 2 to 1: 1 connection moved, resized again after ");
    assert_int_equal(balancer->moved, 0);
    let_time_pass();
    balancer->moved = 2;
    set_connections(0, 90, 90);
    for (int i = 0; i <= BALANCE_ROUNDS; i++) {
        let_time_pass();
        look();
        take_orders(i < BALANCE_ROUNDS ? MOVE_RESIZE : MOVE_UNEVEN);
    }
    expect_log("worker 4: threads 1 to 3: 2 connections moved, still uneven after ");
}

TEST(uneven_load_must_last)
{
    set_connections(0, 90, 90);
    let_time_pass();
    assert_int_equal(look(), BALANCE_SUSPECT_MS);
    assert_int_equal(take_orders(MOVE_UNEVEN), 0);
    assert_true(thread[0].cpu_ns > 0); /* as of this look */
    stop_time();
    assert_int_equal(look(), BALANCE_MOVING_MS);
    assert_int_equal(take_orders(MOVE_UNEVEN), 0);
    let_time_pass();
    look();
    assert_int_equal(take_orders(MOVE_UNEVEN), 60);
}

TEST(next_look_waits_for_connections_on_their_way)
{
    set_connections(0, 90, 90);
    balancer_resized(balancer, 1, THREADS);
    thread[2].passed = 1; /* and not taken yet */
    assert_true(balancer_is_moving(&worker));
    look();
    assert_int_equal(take_orders(MOVE_RESIZE), 0);
    atomic_store(&thread[2].taken, 1);
    look();
    assert_int_equal(take_orders(MOVE_RESIZE), 60);
}

TEST(nothing_moves_while_it_is_off)
{
    set_connections(0, 90, 90);
    balancer_switch(balancer, false);
    balancer_resized(balancer, 1, THREADS);
    let_time_pass();
    assert_int_equal(look(), BALANCE_REST_MS);
    let_time_pass();
    look();
    assert_int_equal(take_orders(MOVE_RESIZE), 0);
    balancer->looked_ns = clock_monotonic_ns();
    balancer_switch(balancer, true);
    look();
    assert_int_equal(take_orders(MOVE_UNEVEN), 60);
}
