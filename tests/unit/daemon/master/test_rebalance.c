/* Which workers give and take connections, when, and for how long the master waits for them. */
#include "daemon/master/rebalance.h"

#include "common/clock.h"
#include "daemon/base/balance.h"
#include "tests/unit/logged_event.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORKERS = 3,
    THREADS = 2,
    START_S = 1000,
    FIRST_PID = 100,
    OPEN_MAX = 10000000,
    NOT_SET = -1
};

static struct {
    uint64_t now_ns;
    struct event *timer; /* NULL: not set */
    int wait_ms;         /* of the timer; NOT_SET: not set */
    bool timer_fails, calloc_fails, event_fails;
    uint64_t cpu_ms[WORKERS]; /* 0: unknown */
    int decisions;
    uint32_t decided; /* workers of the last decision */
    struct balance_load load[WORKERS];
    struct message_give order[WORKERS]; /* the last ones */
    int orders[WORKERS];
    int changes, arrivals;
    struct event_base *base;
    struct config config;
    struct server server;
    struct worker_process worker[WORKERS];
    struct workers workers;
    struct rebalance *rebalance;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
int wrapped_clock(clockid_t clock, struct timespec *now) __asm__("__wrap_clock_gettime");
int wrapped_cpu_clock(pid_t pid, clockid_t *clock) __asm__("__wrap_clock_getcpuclockid");
int wrapped_add(struct event *event, const struct timeval *timeout) __asm__("__wrap_event_add");
int wrapped_del(struct event *event) __asm__("__wrap_event_del");
void *wrapped_calloc(size_t count, size_t size) __asm__("__wrap_calloc");
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
struct event *wrapped_new(struct event_base *base, evutil_socket_t fd, short what,
                          event_callback_fn callback, void *argument) __asm__("__wrap_event_new");
struct event *real_new(struct event_base *base, evutil_socket_t fd, short what,
                       event_callback_fn callback, void *argument) __asm__("__real_event_new");
uint32_t wrapped_decide(struct balance *balance, const struct balance_load *load, uint32_t count,
                        struct balance_move *moves) __asm__("__wrap_balance_decide");
uint32_t real_decide(struct balance *balance, const struct balance_load *load, uint32_t count,
                     struct balance_move *moves) __asm__("__real_balance_decide");
void wrapped_give(struct worker_process *worker,
                  const struct message_give *order) __asm__("__wrap_worker_process_send_give");

/* The clock of a worker's CPU time has the number of its process. */
int wrapped_clock(clockid_t clock, struct timespec *now)
{
    uint64_t ns = scene.now_ns;

    if (clock >= FIRST_PID && clock < FIRST_PID + WORKERS)
        ns = scene.cpu_ms[clock - FIRST_PID] * NS_PER_MS;
    *now = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    return 0;
}

int wrapped_cpu_clock(pid_t pid, clockid_t *clock)
{
    assert_in_range(pid, FIRST_PID, FIRST_PID + WORKERS - 1);
    *clock = pid;
    return scene.cpu_ms[pid - FIRST_PID] == 0;
}

int wrapped_add(struct event *event, const struct timeval *timeout)
{
    if (scene.timer_fails)
        return -1;
    scene.timer = event;
    scene.wait_ms = (int)(timeout->tv_sec * 1000 + timeout->tv_usec / 1000);
    return 0;
}

int wrapped_del(struct event *event)
{
    (void)event;
    scene.timer = NULL;
    scene.wait_ms = NOT_SET;
    return 0;
}

void *wrapped_calloc(size_t count, size_t size)
{
    return scene.calloc_fails ? NULL : real_calloc(count, size);
}

struct event *wrapped_new(struct event_base *base, evutil_socket_t fd, short what,
                          event_callback_fn callback, void *argument)
{
    return scene.event_fails ? NULL : real_new(base, fd, what, callback, argument);
}

uint32_t wrapped_decide(struct balance *balance, const struct balance_load *load, uint32_t count,
                        struct balance_move *moves)
{
    scene.decisions++;
    scene.decided = count;
    memcpy(scene.load, load, count * sizeof(load[0]));
    return real_decide(balance, load, count, moves);
}

void wrapped_give(struct worker_process *worker, const struct message_give *order)
{
    scene.orders[worker->slot]++;
    scene.order[worker->slot] = *order;
}

static void on_change(void *context)
{
    assert_ptr_equal(context, &scene);
    scene.changes++;
}

static void on_arrival(void *context)
{
    assert_ptr_equal(context, &scene.arrivals);
    scene.arrivals++;
}

static struct rebalance *new_rebalance(void)
{
    return rebalance_new(&scene.server, &scene.workers, on_change, &scene);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    events = 0;
    scene.wait_ms = NOT_SET;
    scene.base = event_base_new();
    if (own_segment_create(&scene.server.segment,
                           (struct segment_plan){.max_workers = WORKERS, .max_threads = THREADS}) !=
        0)
        return -1;
    scene.now_ns = START_S * NS_PER_S;
    scene.config.workers_balance_connections = true;
    scene.server.config = &scene.config;
    scene.server.base = scene.base;
    scene.workers = (struct workers){
        .server = &scene.server, .worker = scene.worker, .count = WORKERS, .generation = 1};
    for (uint32_t i = 0; i < WORKERS; i++) {
        segment_reserve(&scene.server.segment, i, THREADS);
        scene.worker[i] = (struct worker_process){
            .slot = i, .pid = (pid_t)(FIRST_PID + i), .generation = 1, .threads_actual = 1};
    }
    scene.rebalance = new_rebalance();
    return scene.rebalance == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    rebalance_free(scene.rebalance);
    segment_destroy(&scene.server.segment);
    event_base_free(scene.base);
    return 0;
}

/* What the threads of a worker publish. */
static void set_load(uint32_t slot, uint32_t open, uint32_t active)
{
    const struct segment *segment = &scene.server.segment;

    atomic_store(&segment_worker(segment, slot)->connections_open, open);
    metric_set(segment_thread(segment, slot * THREADS)->metrics, METRIC_connections_active, active);
}

static void serve(uint32_t slot)
{
    scene.worker[slot].state = WORKER_SERVING;
    rebalance_added(scene.rebalance, &scene.worker[slot]);
}

/* Workers 0 and 1 serve; worker 0 has all connections. */
static void serve_two(uint32_t open, uint32_t active)
{
    serve(0);
    serve(1);
    set_load(0, open, active);
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

static void expect_order(uint32_t slot, uint32_t active, uint32_t idle)
{
    assert_int_equal(scene.orders[slot], 1);
    assert_int_equal(scene.order[slot].active, active);
    assert_int_equal(scene.order[slot].idle, idle);
    scene.orders[slot] = 0;
}

static void expect_no_orders(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(scene.orders[i], 0);
}

/* Worker FROM returns COUNT connections, each of which is passed to TO; it keeps the others. */
static void move(uint32_t from, uint32_t to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct worker_process *taker = rebalance_returned(scene.rebalance, &scene.worker[from]);

        assert_ptr_equal(taker, &scene.worker[to]);
        taker->dispatched++;
    }
}

static void finish_giving(uint32_t slot)
{
    assert_null(rebalance_given(scene.rebalance, &scene.worker[slot]));
}

/* It reports all connections that were passed to it as received. */
static void receive(uint32_t slot)
{
    metric_set(segment_worker(&scene.server.segment, slot)->metrics, METRIC_connections_received,
               scene.worker[slot].dispatched);
}

static void expect_no_taker(uint32_t slot)
{
    assert_null(rebalance_returned(scene.rebalance, &scene.worker[slot]));
}

/* --- Moves --- */

static void added_worker_gets_its_share_at_once(void **state)
{
    (void)state;
    serve_two(100, 20);
    assert_int_equal(scene.wait_ms, 0);
    look();
    expect_order(0, 10, 40);
    assert_int_equal(scene.order[0].resized, 1);
    expect_no_orders();
    assert_int_equal(scene.wait_ms, BALANCE_MOVING_MS);
    move(0, 1, 50);
    expect_no_taker(0);
    finish_giving(0);
}

static void each_taker_gets_what_was_ordered_for_it(void **state)
{
    (void)state;
    serve_two(90, 0);
    serve(2);
    look();
    expect_order(0, 0, 60);
    move(0, 1, 30);
    move(0, 2, 30);
    expect_no_taker(0);
    expect_no_taker(1);
}

static void uneven_load_is_evened_out_a_second_later(void **state)
{
    (void)state;
    serve_two(50, 0);
    set_load(1, 50, 0);
    look();
    assert_int_equal(scene.wait_ms, BALANCE_REST_MS);
    set_load(0, 100, 0);
    look();
    expect_no_orders();
    look();
    expect_order(0, 0, 25);
    assert_int_equal(scene.order[0].resized, 0);
}

/* The moves of the last look are still on their way. */
static void next_look_is_no_sooner_for_another_worker(void **state)
{
    (void)state;
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

static void only_current_workers_that_serve_are_balanced(void **state)
{
    static const enum worker_state states[] = {WORKER_NONE, WORKER_STARTING, WORKER_LEAVING};

    (void)state;
    serve_two(100, 0);
    serve(2);
    look();
    assert_int_equal(scene.decided, 3);
    finish_giving(0);
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++) {
        scene.worker[2].state = states[i];
        look();
        assert_int_equal(scene.decided, 2);
        finish_giving(0);
    }
    scene.worker[2].state = WORKER_SERVING;
    scene.worker[2].generation = 2;
    look();
    assert_int_equal(scene.decided, 2);
    scene.worker[2].generation = 1;
    scene.workers.count = 2; /* the table ends before it */
    look();
    assert_int_equal(scene.decided, 2);
}

/* It may keep some, if they have ended. */
static void worker_that_has_given_returns_no_more(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    move(0, 1, 30);
    finish_giving(0);
    expect_no_taker(0);
    assert_non_null(rebalance_given(scene.rebalance, &scene.worker[0]));
    assert_non_null(rebalance_given(scene.rebalance, &scene.worker[1]));
}

static void nothing_is_decided_without_a_worker(void **state)
{
    (void)state;
    serve(0);
    scene.worker[0].state = WORKER_LEAVING;
    look();
    assert_int_equal(scene.decided, 0);
    expect_no_orders();
}

/* --- Waiting for moves --- */

static void no_decision_while_a_worker_gives(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    assert_int_equal(scene.decisions, 1);
    pass_ms(999);
    fire();
    assert_int_equal(scene.decisions, 1);
    assert_int_equal(scene.wait_ms, BALANCE_MOVING_MS);
    finish_giving(0);
    look();
    assert_int_equal(scene.decisions, 2);
    assert_int_equal(scene.decided, 2);
}

static void worker_that_gives_late_is_left_out(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    pass_ms(1000);
    fire();
    assert_int_equal(scene.decisions, 2);
    assert_int_equal(scene.decided, 1);
    finish_giving(0);
    look();
    assert_int_equal(scene.decided, 2);
}

static void no_decision_while_a_worker_takes(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    move(0, 1, 50);
    finish_giving(0);
    pass_ms(999);
    fire();
    assert_int_equal(scene.decisions, 1);
    scene.worker[1].dispatched++; /* a new connection, which comes after them */
    metric_set(segment_worker(&scene.server.segment, 1)->metrics, METRIC_connections_received, 49);
    fire();
    assert_int_equal(scene.decisions, 1);
    metric_set(segment_worker(&scene.server.segment, 1)->metrics, METRIC_connections_received, 50);
    fire();
    assert_int_equal(scene.decisions, 2);
    assert_int_equal(scene.decided, 2);
}

static void worker_that_takes_late_is_left_out(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    pass_ms(500);
    move(0, 1, 50);
    finish_giving(0);
    pass_ms(999);
    fire();
    assert_int_equal(scene.decisions, 1);
    pass_ms(1);
    fire();
    assert_int_equal(scene.decisions, 2);
    assert_int_equal(scene.decided, 1);
}

/* The master could not send it. */
static void connection_that_was_not_passed_is_not_waited_for(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    assert_non_null(rebalance_returned(scene.rebalance, &scene.worker[0]));
    finish_giving(0);
    look();
    assert_int_equal(scene.decisions, 2);
    assert_int_equal(scene.decided, 2);
}

static void restarted_worker_owes_nothing(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    serve(0);
    expect_no_taker(0);
    assert_non_null(rebalance_given(scene.rebalance, &scene.worker[0]));
}

/* --- Loads --- */

static void busy_is_cpu_time_per_thread(void **state)
{
    (void)state;
    serve_two(10, 0);
    set_load(1, 10, 0);
    serve(2);
    set_load(2, 10, 0);
    scene.worker[1].threads_actual = 2;
    scene.cpu_ms[0] = scene.cpu_ms[1] = 5000;
    look();
    scene.cpu_ms[0] += 500;
    scene.cpu_ms[1] += 500;
    look();
    assert_int_equal(scene.load[0].busy, 500);
    assert_int_equal(scene.load[1].busy, 250);
    assert_int_equal(scene.load[2].busy, 0); /* unknown */
    scene.cpu_ms[0] += 3000;
    look();
    assert_int_equal(scene.load[0].busy, 1000);
    assert_int_equal(scene.load[1].busy, 0);
}

static void open_connections_include_those_on_their_way(void **state)
{
    (void)state;
    serve_two(10, 4);
    scene.worker[0].threads_actual = THREADS;
    metric_set(segment_thread(&scene.server.segment, 1)->metrics, METRIC_connections_active, 3);
    metric_set(segment_thread(&scene.server.segment, 2)->metrics, METRIC_connections_active, 1);
    scene.worker[0].dispatched = 5;
    look();
    assert_int_equal(scene.load[0].open, 15);
    assert_int_equal(scene.load[0].active, 7);
}

static void incredible_numbers_are_not_believed(void **state)
{
    (void)state;
    serve_two(4000000000, 0);
    set_load(1, 5, 9);
    look();
    assert_int_equal(scene.load[0].open, OPEN_MAX);
    assert_int_equal(scene.load[1].open, 5);
    assert_int_equal(scene.load[1].active, 5);
}

/* It may read the requests of those that it attracts. */
static void worker_that_claims_no_connections_gets_few(void **state)
{
    enum { OPEN = 2000, AVERAGE = OPEN / 2, LEAST = 64, SECONDS = 2, LOOKS = 10 * SECONDS };
    uint32_t ordered = 0;

    (void)state;
    serve_two(OPEN, 0);
    for (int i = 0; i < LOOKS; i++) {
        look();
        if (scene.orders[0] > 0) {
            ordered += scene.order[0].idle;
            move(0, 1, scene.order[0].idle);
            finish_giving(0);
            receive(1);
        }
        scene.orders[0] = 0;
    }
    assert_in_range(ordered, AVERAGE, (AVERAGE + LEAST) * (16 + SECONDS) / 16);
}

/* --- What the owner learns --- */

static void end_of_the_first_moves_is_reported(void **state)
{
    (void)state;
    assert_false(rebalance_is_moving(scene.rebalance));
    serve_two(100, 0);
    assert_true(rebalance_is_moving(scene.rebalance));
    look();
    assert_true(rebalance_is_moving(scene.rebalance));
    assert_int_equal(scene.changes, 0);
    move(0, 1, 50);
    finish_giving(0);
    receive(1);
    look(); /* as uneven as before, because others have come */
    assert_false(rebalance_is_moving(scene.rebalance));
    assert_int_equal(scene.changes, 1);
    finish_giving(0);
    look();
    assert_int_equal(scene.changes, 1);
}

static void even_load_ends_the_moves(void **state)
{
    (void)state;
    serve_two(1, 0);
    look();
    assert_false(rebalance_is_moving(scene.rebalance));
    assert_int_equal(scene.changes, 1);
    assert_int_equal(events, 0);
}

static void moves_to_an_added_worker_are_logged(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    move(0, 1, 50);
    finish_giving(0);
    receive(1);
    set_load(0, 50, 0);
    set_load(1, 50, 0);
    assert_int_equal(events, 0);
    look();
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "2 workers: 50 connections moved between workers, balanced after 0.1 s");
    look();
    assert_int_equal(events, 1);
}

static void moves_that_do_not_end_are_logged(void **state)
{
    (void)state;
    serve_two(100, 0);
    for (int i = 0; i <= BALANCE_ROUNDS; i++) {
        look();
        if (i == 0)
            move(0, 1, 1);
        if (scene.orders[0] > 0)
            finish_giving(0);
        scene.orders[0] = 0;
        receive(1);
    }
    assert_int_equal(events, 1);
    assert_string_equal(logged,
                        "2 workers: 1 connection moved between workers, still uneven after 3.0 s");
}

static void other_moves_are_not_logged(void **state)
{
    (void)state;
    serve_two(1, 0);
    look();
    set_load(0, 100, 0);
    look();
    look();
    expect_order(0, 0, 50);
    move(0, 1, 50);
    finish_giving(0);
    receive(1);
    set_load(0, 50, 0);
    set_load(1, 50, 0);
    look();
    look();
    assert_int_equal(events, 0);
    serve(2);
    look(); /* counts only moves since it was added */
    move(0, 2, scene.order[0].idle);
    finish_giving(0);
    move(1, 2, scene.order[1].idle);
    finish_giving(1);
    receive(2);
    set_load(0, 34, 0);
    set_load(1, 33, 0);
    set_load(2, 33, 0);
    look();
    assert_int_equal(events, 1);
    assert_non_null(strstr(logged, "3 workers: 33 connections moved"));
}

/* --- Off, and the end --- */

static void nothing_moves_while_balancing_is_off(void **state)
{
    (void)state;
    scene.config.workers_balance_connections = false;
    serve_two(100, 0);
    assert_int_equal(scene.wait_ms, NOT_SET);
    scene.config.workers_balance_connections = true;
    rebalance_switched(scene.rebalance);
    assert_int_equal(scene.changes, 0);
    scene.config.workers_balance_connections = false;
    look();
    assert_int_equal(scene.decisions, 0);
    assert_true(scene.wait_ms > 0);
    scene.config.workers_balance_connections = true;
    look();
    expect_order(0, 0, 50);
    assert_int_equal(scene.order[0].resized, 0);
}

static void switching_off_ends_the_moves(void **state)
{
    (void)state;
    serve_two(100, 0);
    assert_true(rebalance_is_moving(scene.rebalance));
    scene.config.workers_balance_connections = false;
    rebalance_switched(scene.rebalance);
    assert_false(rebalance_is_moving(scene.rebalance));
    assert_int_equal(scene.changes, 1);
    scene.config.workers_balance_connections = true;
    rebalance_switched(scene.rebalance);
    look();
    expect_order(0, 0, 50);
    assert_int_equal(scene.order[0].resized, 0); /* no worker was added since */
}

static void nothing_moves_after_a_stop(void **state)
{
    (void)state;
    serve_two(100, 0);
    rebalance_stop(scene.rebalance);
    assert_int_equal(scene.wait_ms, NOT_SET);
    serve(2);
    assert_int_equal(scene.wait_ms, NOT_SET);
    expect_no_orders();
}

static void await(uint64_t most_ms)
{
    rebalance_await(scene.rebalance, most_ms, on_arrival, &scene.arrivals);
}

static void wait_ends_at_once_if_nothing_moves(void **state)
{
    (void)state;
    serve_two(100, 0);
    await(5000);
    assert_int_equal(scene.arrivals, 1);
    assert_int_equal(scene.wait_ms, NOT_SET);
}

static void wait_ends_when_all_connections_have_arrived(void **state)
{
    (void)state;
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
    assert_int_equal(scene.decisions, 1);
}

static void wait_has_a_limit(void **state)
{
    (void)state;
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

static void wait_is_only_for_workers_that_serve(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    scene.worker[0].state = WORKER_LEAVING;
    await(5000);
    assert_int_equal(scene.arrivals, 1);
}

static void wait_ends_without_memory_for_the_timer(void **state)
{
    (void)state;
    serve_two(100, 0);
    look();
    scene.timer_fails = true;
    await(5000);
    assert_int_equal(scene.arrivals, 1);
}

static void shortage_of_memory_is_reported(void **state)
{
    (void)state;
    scene.calloc_fails = true;
    assert_null(new_rebalance());
    scene.calloc_fails = false;
    scene.event_fails = true;
    assert_null(new_rebalance());
    rebalance_free(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(added_worker_gets_its_share_at_once),
        TEST(each_taker_gets_what_was_ordered_for_it),
        TEST(uneven_load_is_evened_out_a_second_later),
        TEST(next_look_is_no_sooner_for_another_worker),
        TEST(only_current_workers_that_serve_are_balanced),
        TEST(worker_that_has_given_returns_no_more),
        TEST(nothing_is_decided_without_a_worker),
        TEST(no_decision_while_a_worker_gives),
        TEST(worker_that_gives_late_is_left_out),
        TEST(no_decision_while_a_worker_takes),
        TEST(worker_that_takes_late_is_left_out),
        TEST(connection_that_was_not_passed_is_not_waited_for),
        TEST(restarted_worker_owes_nothing),
        TEST(busy_is_cpu_time_per_thread),
        TEST(open_connections_include_those_on_their_way),
        TEST(incredible_numbers_are_not_believed),
        TEST(worker_that_claims_no_connections_gets_few),
        TEST(end_of_the_first_moves_is_reported),
        TEST(even_load_ends_the_moves),
        TEST(moves_to_an_added_worker_are_logged),
        TEST(moves_that_do_not_end_are_logged),
        TEST(other_moves_are_not_logged),
        TEST(nothing_moves_while_balancing_is_off),
        TEST(switching_off_ends_the_moves),
        TEST(nothing_moves_after_a_stop),
        TEST(wait_ends_at_once_if_nothing_moves),
        TEST(wait_ends_when_all_connections_have_arrived),
        TEST(wait_has_a_limit),
        TEST(wait_is_only_for_workers_that_serve),
        TEST(wait_ends_without_memory_for_the_timer),
        TEST(shortage_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
