/* Shortages: one event when the first thread has one, one when the last thread has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/transaction/shortage.h"
#include "tests/unit/own_segment.h"

enum { THREADS = 2, START_S = 1000 };

static struct segment segment;
static struct worker_shortages shortages;
static struct shortages thread[THREADS];
static uint64_t now_ns;
static uint64_t next_event;

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 1}) != 0)
        return -1;
    events_attach(&segment, SEGMENT_RING_MASTER);
    next_event = 0;
    for (int i = 0; i < THREADS; i++)
        thread[i] = (struct shortages){.worker = &shortages, .worker_slot = 7};
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
    for (int i = 0; i < THREADS; i++)
        shortages_expire(&thread[i], now_ns);
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

static const char begins[] = "worker slot 7: the log ring is full: access log records are dropped";

static void shortage_of_two_threads_is_one_begin_and_one_end(void **state)
{
    (void)state;
    at(0);
    shortage_note(&thread[0], SHORTAGE_LOG, now_ns, 1);
    expect_event(begins);
    shortage_note(&thread[1], SHORTAGE_LOG, now_ns, 2);
    at(9);
    shortage_note(&thread[1], SHORTAGE_LOG, now_ns, 4);
    at(10); /* over in the first thread */
    at(18);
    expect_no_event();
    at(19);
    expect_event("worker slot 7: the shortage is over: 7 access log records were dropped");
    expect_no_event();
}

static void next_shortage_counts_from_zero(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        at(100 * i);
        shortage_note(&thread[0], SHORTAGE_LOG, now_ns, 1);
        expect_event(begins);
        at(100 * i + 50);
        expect_event("worker slot 7: the shortage is over: 1 access log record was dropped");
    }
    expect_no_event();
}

static void exit_of_a_thread_ends_its_shortage(void **state)
{
    (void)state;
    at(0);
    shortage_note(&thread[0], SHORTAGE_LOG, now_ns, 1);
    shortage_note(&thread[1], SHORTAGE_LOG, now_ns, 1);
    expect_event(begins);
    shortages_end(&thread[0]);
    expect_no_event();
    shortages_end(&thread[1]);
    expect_event("worker slot 7: the shortage is over: 2 access log records were dropped");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shortage_of_two_threads_is_one_begin_and_one_end),
        TEST(next_shortage_counts_from_zero),
        TEST(exit_of_a_thread_ends_its_shortage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
