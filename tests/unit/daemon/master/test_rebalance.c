/* Which workers give and take connections, when, and for how long the master waits for them. */
#include "tests/unit/daemon/master/scene.h"
#include "tests/unit/wrapped.h"

#include "common/clock.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum {
    WORKERS = SCENE_WORKERS,
    THREADS = SCENE_THREADS,
    START_S = 1000,
    FIRST_PID = 100,
    NOT_SET = -1
};

static struct {
    uint64_t now_ns;
    struct event *timer; /* NULL: not set */
    int wait_ms;         /* of the timer; NOT_SET: not set */
    bool timer_fails;
    uint64_t cpu_ms[WORKERS]; /* 0: unknown */
    int orders_seen[WORKERS];
    int arrivals;
} scene;

/* The clock of a worker's CPU time has the number of its process. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    uint64_t ns = scene.now_ns;

    if (clock >= FIRST_PID && clock < FIRST_PID + WORKERS)
        ns = scene.cpu_ms[clock - FIRST_PID] * NS_PER_MS;
    *now = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    return 0;
}

int __wrap_clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
    assert_in_range(pid, FIRST_PID, FIRST_PID + WORKERS - 1);
    *clock = pid;
    return scene.cpu_ms[pid - FIRST_PID] == 0;
}

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    if (event != master.rebalance.look)
        return __real_event_add(event, timeout);
    if (scene.timer_fails)
        return -1;
    scene.timer = event;
    scene.wait_ms = (int)(timeout->tv_sec * 1000 + timeout->tv_usec / 1000);
    return 0;
}

int __wrap_event_del(struct event *event)
{
    if (event != master.rebalance.look)
        return __real_event_del(event);
    scene.timer = NULL;
    scene.wait_ms = NOT_SET;
    return 0;
}

static void on_arrival(struct master *of)
{
    assert_ptr_equal(of, &master);
    scene.arrivals++;
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.wait_ms = NOT_SET;
    scene.now_ns = START_S * NS_PER_S;
    if (scene_begin(WORKER_NONE) != 0)
        return -1;
    master.config->workers_balance_connections = true;
    for (uint32_t i = 0; i < WORKERS; i++)
        master.workers.worker[i].pid = (pid_t)(FIRST_PID + i);
    return 0;
}

const struct test_fixture test_fixture = {begin, scene_end};

/* A change is reported: the life cycle then notices that no worker is old. */
static void await_change(void)
{
    master.life.state = LIFE_replacing;
}

static bool has_changed(void)
{
    return master.life.state != LIFE_replacing;
}

/* What the threads of a worker publish. */
static void set_load(uint32_t slot, uint32_t open, uint32_t active)
{
    const struct segment *segment = &master.segment;

    atomic_store(&segment_worker(segment, slot)->connections_open, open);
    metric_set(segment_thread(segment, slot * THREADS)->metrics, METRIC_connections_active, active);
}

static void serve(uint32_t slot)
{
    master.workers.worker[slot].state = WORKER_SERVING;
    rebalance_added(&master, &master.workers.worker[slot]);
}

/* Workers 0 and 1 serve; worker 0 has all connections. */
static void serve_two(uint32_t open, uint32_t active)
{
    serve(0);
    set_load(0, open, active);
    serve(1);
}

static void pass_ms(uint64_t ms)
{
    scene.now_ns += ms * NS_PER_MS;
}

static void fire(void)
{
    struct event *timer = scene.timer;

    assert_non_null(timer);
    scene.timer = NULL;
    scene.wait_ms = NOT_SET;
    event_get_callback(timer)(-1, EV_TIMEOUT, event_get_callback_arg(timer));
}

/* When the timer is due. */
static void look(void)
{
    assert_true(scene.wait_ms >= 0);
    pass_ms((uint64_t)scene.wait_ms);
    fire();
}

/* Number of orders to give that the worker has received since the last call. */
static int orders_of(uint32_t slot)
{
    int all = scene_read(slot)->received[MESSAGE_GIVE], fresh = all - scene.orders_seen[slot];

    scene.orders_seen[slot] = all;
    return fresh;
}

static void expect_order(uint32_t slot, uint32_t active, uint32_t idle)
{
    assert_int_equal(orders_of(slot), 1);
    assert_int_equal(ends[slot].give.active, active);
    assert_int_equal(ends[slot].give.idle, idle);
}

static void expect_no_orders(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(orders_of(i), 0);
}

/* True if the last look was at NOW: the master has not waited for a worker. */
static bool has_looked(void)
{
    return master.rebalance.looked_ns == scene.now_ns;
}

/* Worker FROM returns COUNT connections, each of which is passed to TO; it keeps the others. */
static void move(uint32_t from, uint32_t to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct worker_process *taker = rebalance_returned(&master, &master.workers.worker[from]);

        assert_ptr_equal(taker, &master.workers.worker[to]);
        taker->dispatched++;
    }
}

static void finish_giving(uint32_t slot)
{
    assert_null(rebalance_given(&master.rebalance, &master.workers.worker[slot]));
}

/* It reports all connections that were passed to it as received. */
static void receive(uint32_t slot)
{
    metric_set(segment_worker(&master.segment, slot)->metrics, METRIC_connections_received,
               master.workers.worker[slot].dispatched);
}

static void expect_no_taker(uint32_t slot)
{
    assert_null(rebalance_returned(&master, &master.workers.worker[slot]));
}

/* --- Moves --- */

TEST(added_worker_gets_its_share_at_once)
{
    serve_two(100, 20);
    assert_int_equal(scene.wait_ms, 0);
    look();
    expect_order(0, 10, 40);
    assert_int_equal(ends[0].give.resized, 1);
    expect_no_orders();
    assert_int_equal(scene.wait_ms, BALANCE_MOVING_MS);
    move(0, 1, 50);
    expect_no_taker(0);
    finish_giving(0);
}

TEST(each_taker_gets_what_was_ordered_for_it)
{
    serve_two(90, 0);
    serve(2);
    look();
    expect_order(0, 0, 60);
    move(0, 1, 30);
    move(0, 2, 30);
    expect_no_taker(0);
    expect_no_taker(1);
}

TEST(uneven_load_is_evened_out_a_second_later)
{
    serve_two(50, 0);
    set_load(1, 50, 0);
    look();
    assert_int_equal(scene.wait_ms, BALANCE_REST_MS);
    set_load(0, 100, 0);
    look();
    expect_no_orders();
    look();
    expect_order(0, 0, 25);
    assert_int_equal(ends[0].give.resized, 0);
}

/* The moves of the last look are still on their way. */
TEST(next_look_is_no_sooner_for_another_worker)
{
    serve_two(100, 0);
    look();
    pass_ms(30);
    serve(2);
    assert_int_equal(scene.wait_ms, BALANCE_MOVING_MS - 30);
    pass_ms(BALANCE_MOVING_MS - 31);
    serve(2);
    assert_int_equal(scene.wait_ms, 1);
    pass_ms(1);
    serve(2);
    assert_int_equal(scene.wait_ms, 0);
}

TEST(only_current_workers_that_serve_are_balanced)
{
    static const struct {
        enum worker_state state;
        uint32_t generation, count; /* of the table */
    } cases[] = {{WORKER_NONE, 1, 3},
                 {WORKER_STARTING, 1, 3},
                 {WORKER_LEAVING, 1, 3},
                 {WORKER_SERVING, 2, 3},
                 {WORKER_SERVING, 1, 2}};
    struct worker_process *third = &master.workers.worker[2];

    serve_two(100, 0);
    serve(2);
    look();
    expect_order(0, 0, 66);
    finish_giving(0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        third->state = cases[i].state;
        third->generation = cases[i].generation;
        master.workers.count = cases[i].count;
        serve(0);
        serve(1);
        look();
        expect_order(0, 0, 50);
        finish_giving(0);
    }
    master.workers.count = WORKERS;
}

/* It may keep some, if they have ended. */
TEST(worker_that_has_given_returns_no_more)
{
    serve_two(100, 0);
    look();
    move(0, 1, 30);
    finish_giving(0);
    expect_no_taker(0);
    assert_non_null(rebalance_given(&master.rebalance, &master.workers.worker[0]));
    assert_non_null(rebalance_given(&master.rebalance, &master.workers.worker[1]));
}

TEST(nothing_moves_without_a_worker)
{
    serve(0);
    master.workers.worker[0].state = WORKER_LEAVING;
    look();
    expect_no_orders();
}

/* --- Waiting for moves --- */

TEST(no_decision_while_a_worker_gives)
{
    serve_two(100, 0);
    look();
    expect_order(0, 0, 50);
    pass_ms(999);
    fire();
    assert_false(has_looked());
    assert_int_equal(scene.wait_ms, BALANCE_MOVING_MS);
    finish_giving(0);
    look();
    expect_order(0, 0, 50);
}

TEST(worker_that_gives_late_is_left_out)
{
    serve_two(100, 0);
    look();
    expect_order(0, 0, 50);
    pass_ms(1000);
    fire();
    assert_true(has_looked());
    expect_no_orders();
    finish_giving(0);
    look();
    look();
    expect_order(0, 0, 50);
}

TEST(no_decision_while_a_worker_takes)
{
    _Atomic uint64_t *metrics = segment_worker(&master.segment, 1)->metrics;

    serve_two(100, 0);
    look();
    move(0, 1, 50);
    finish_giving(0);
    pass_ms(999);
    fire();
    assert_false(has_looked());
    master.workers.worker[1].dispatched++; /* a new connection, which comes after them */
    metric_set(metrics, METRIC_connections_received, 49);
    fire();
    assert_false(has_looked());
    metric_set(metrics, METRIC_connections_received, 50);
    fire();
    assert_true(has_looked());
}

TEST(worker_that_takes_late_is_left_out)
{
    serve_two(100, 0);
    look();
    expect_order(0, 0, 50);
    pass_ms(500);
    move(0, 1, 50);
    finish_giving(0);
    pass_ms(999);
    fire();
    assert_false(has_looked());
    pass_ms(1);
    fire();
    assert_true(has_looked());
    expect_no_orders();
}

/* The master could not send it. */
TEST(connection_that_was_not_passed_is_not_waited_for)
{
    serve_two(100, 0);
    look();
    expect_order(0, 0, 50);
    assert_non_null(rebalance_returned(&master, &master.workers.worker[0]));
    finish_giving(0);
    look();
    expect_order(0, 0, 50);
}

TEST(restarted_worker_owes_nothing)
{
    serve_two(100, 0);
    look();
    serve(0);
    expect_no_taker(0);
    assert_non_null(rebalance_given(&master.rebalance, &master.workers.worker[0]));
}

/* --- Loads --- */

/*
 * One that has no processor time left gives half of its active connections for as many of another.
 */
TEST(busy_is_cpu_time_per_thread)
{
    static const struct {
        uint32_t threads;
        uint64_t cpu_ms; /* in each second; the others use an unknown time */
        bool busy;
    } cases[] = {{1, 950, true}, {2, 950, false}, {1, 880, false}, {2, 1900, true}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int exchanges = 0;

        serve_two(10, 10);
        set_load(1, 10, 10);
        master.workers.worker[0].threads_actual = cases[i].threads;
        scene.cpu_ms[0] = 5000;
        for (int seconds = 0; seconds < 8; seconds++) {
            scene.cpu_ms[0] += cases[i].cpu_ms * (uint64_t)scene.wait_ms / 1000;
            look();
            if (orders_of(0) == 0)
                continue;
            exchanges++;
            assert_true(ends[0].give.active == 5 && ends[0].give.idle == 0);
            expect_order(1, 5, 0);
            finish_giving(0);
            finish_giving(1);
        }
        assert_int_equal(exchanges > 0, cases[i].busy);
    }
}

TEST(open_connections_include_those_on_their_way)
{
    serve_two(10, 4);
    master.workers.worker[0].threads_actual = THREADS;
    metric_set(segment_thread(&master.segment, 1)->metrics, METRIC_connections_active, 3);
    metric_set(segment_thread(&master.segment, 2)->metrics, METRIC_connections_active, 1);
    master.workers.worker[0].dispatched = 5;
    look();
    expect_order(0, 3, 4); /* 15 are open, 7 of them active */
}

/* A worker cannot have more active connections than open ones. */
TEST(incredible_numbers_are_not_believed)
{
    serve_two(0, 0);
    set_load(1, 5, 9);
    look();
    expect_order(1, 2, 0);
}

/* It may read the requests of those that it attracts. */
TEST(worker_that_claims_no_connections_gets_its_share)
{
    enum { OPEN = 2000, LEAST = 8, LOOKS = 100 };
    uint32_t open = OPEN, closed = 0;

    serve_two(OPEN, 0);
    for (int i = 0; i < LOOKS; i++) {
        look();
        if (orders_of(0) > 0) {
            open -= ends[0].give.idle;
            move(0, 1, ends[0].give.idle);
            finish_giving(0);
            receive(1);
        }
        open--;
        metric_set(segment_thread(&master.segment, 0)->metrics, METRIC_connections_closed,
                   ++closed);
        set_load(0, open, 0);
    }
    assert_in_range(OPEN - closed - open, OPEN / 2, OPEN / 2 + LEAST + closed);
}

/* --- What the owner learns --- */

TEST(end_of_the_first_moves_is_reported)
{
    await_change();
    assert_false(rebalance_is_moving(&master.rebalance));
    serve_two(100, 0);
    assert_true(rebalance_is_moving(&master.rebalance));
    look();
    assert_true(rebalance_is_moving(&master.rebalance));
    assert_false(has_changed());
    move(0, 1, 50);
    finish_giving(0);
    receive(1);
    set_load(0, 16, 0); /* others have come */
    look();
    assert_false(rebalance_is_moving(&master.rebalance));
    assert_true(has_changed());
    await_change();
    finish_giving(0);
    look();
    assert_false(has_changed());
}

TEST(even_load_ends_the_moves)
{
    await_change();
    serve_two(1, 0);
    look();
    assert_false(rebalance_is_moving(&master.rebalance));
    assert_true(has_changed());
    assert_int_equal(scene_events(), 0);
}

TEST(moves_to_an_added_worker_are_logged)
{
    serve_two(100, 0);
    look();
    move(0, 1, 50);
    finish_giving(0);
    receive(1);
    set_load(0, 50, 0);
    set_load(1, 50, 0);
    assert_int_equal(scene_events(), 0);
    look();
    assert_int_equal(scene_events(), 1);
    assert_string_equal(scene_last_event(),
                        "2 workers: 50 connections moved between workers, balanced after 0.1 s");
    look();
    assert_int_equal(scene_events(), 1);
}

TEST(moves_that_do_not_end_are_logged)
{
    serve_two(100, 0);
    for (int i = 0; i <= BALANCE_ROUNDS; i++) {
        look();
        if (i == 0)
            move(0, 1, 1);
        if (orders_of(0) > 0)
            finish_giving(0);
        receive(1);
    }
    assert_int_equal(scene_events(), 1);
    assert_string_equal(scene_last_event(),
                        "2 workers: 1 connection moved between workers, still uneven after 3.0 s");
}

TEST(other_moves_are_not_logged)
{
    serve_two(1, 0);
    look();
    set_load(0, 16, 0);
    look();
    look();
    expect_order(0, 0, 8);
    move(0, 1, 8);
    finish_giving(0);
    receive(1);
    set_load(0, 50, 0);
    set_load(1, 50, 0);
    look();
    look();
    assert_int_equal(scene_events(), 0);
    serve(2);
    look(); /* counts only moves since it was added */
    assert_true(orders_of(0) == 1 && orders_of(1) == 1);
    move(0, 2, ends[0].give.idle);
    finish_giving(0);
    move(1, 2, ends[1].give.idle);
    finish_giving(1);
    receive(2);
    set_load(0, 34, 0);
    set_load(1, 33, 0);
    set_load(2, 33, 0);
    look();
    assert_int_equal(scene_events(), 1);
    assert_non_null(strstr(scene_last_event(), "3 workers: 33 connections moved"));
}

/* --- Off, and the end --- */

TEST(nothing_moves_while_balancing_is_off)
{
    master.config->workers_balance_connections = false;
    serve_two(100, 0);
    assert_int_equal(scene.wait_ms, NOT_SET);
    master.config->workers_balance_connections = true;
    await_change();
    rebalance_switched(&master);
    assert_false(has_changed());
    master.config->workers_balance_connections = false;
    look();
    assert_false(has_looked());
    assert_true(scene.wait_ms > 0);
    master.config->workers_balance_connections = true;
    look();
    expect_order(0, 0, 50);
    assert_int_equal(ends[0].give.resized, 0);
}

TEST(switching_off_ends_the_moves)
{
    serve_two(100, 0);
    assert_true(rebalance_is_moving(&master.rebalance));
    master.config->workers_balance_connections = false;
    await_change();
    rebalance_switched(&master);
    assert_false(rebalance_is_moving(&master.rebalance));
    assert_true(has_changed());
    master.config->workers_balance_connections = true;
    rebalance_switched(&master);
    look();
    expect_order(0, 0, 50);
    assert_int_equal(ends[0].give.resized, 0); /* no worker was added since */
}

TEST(nothing_moves_after_a_stop)
{
    serve_two(100, 0);
    rebalance_stop(&master.rebalance);
    assert_int_equal(scene.wait_ms, NOT_SET);
    serve(2);
    assert_int_equal(scene.wait_ms, NOT_SET);
    expect_no_orders();
}

static void await(uint64_t most_ms)
{
    rebalance_await(&master, most_ms, on_arrival);
}

TEST(wait_ends_at_once_if_nothing_moves)
{
    serve_two(100, 0);
    await(5000);
    assert_int_equal(scene.arrivals, 1);
    assert_int_equal(scene.wait_ms, NOT_SET);
}

TEST(wait_ends_when_all_connections_have_arrived)
{
    serve_two(100, 0);
    look();
    await(5000);
    assert_true(scene.wait_ms > 0);
    look();
    move(0, 1, 50);
    look();
    finish_giving(0);
    look();
    assert_int_equal(scene.arrivals, 0);
    receive(1);
    look();
    assert_int_equal(scene.arrivals, 1);
    assert_int_equal(scene.wait_ms, NOT_SET);
}

TEST(wait_has_a_limit)
{
    serve_two(100, 0);
    look();
    await(5000);
    pass_ms(4999);
    fire();
    assert_int_equal(scene.arrivals, 0);
    pass_ms(1);
    fire();
    assert_int_equal(scene.arrivals, 1);
}

TEST(wait_is_only_for_workers_that_serve)
{
    serve_two(100, 0);
    look();
    master.workers.worker[0].state = WORKER_LEAVING;
    await(5000);
    assert_int_equal(scene.arrivals, 1);
}

TEST(wait_ends_without_memory_for_the_timer)
{
    serve_two(100, 0);
    look();
    scene.timer_fails = true;
    await(5000);
    assert_int_equal(scene.arrivals, 1);
}
