#include "common/event_merge.h"

#include "common/macros.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <string.h>

enum { WORKERS = 2 };

static struct segment segment;
static struct event_merge *merge;
static struct event_record event;

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = WORKERS}) != 0 ||
        segment_reserve_worker(&segment, 0) != 0)
        return -1;
    merge = event_merge_new(segment_event_rings(&segment));
    return merge != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    event_merge_free(merge);
    segment_destroy(&segment);
    return 0;
}

/* All events claim to be the master's. */
static void append(uint32_t number, uint64_t time_ns)
{
    const struct event_ring ring = segment_event_ring(&segment, number);
    const struct event_record record = {
        .time_ns = time_ns, .level = LEVEL_INFO, .role = ROLE_MASTER, .text = "text"};

    event_ring_append(&ring, &record);
}

static int take(void)
{
    return event_merge_take(merge, UINT64_MAX, &event);
}

static void events_are_taken_in_order_of_time(void **state)
{
    static const struct {
        uint32_t ring;
        uint64_t time_ns;
        enum role role;
    } events[] = {{SEGMENT_RING_WORKERS, 10, ROLE_WORKER},
                  {SEGMENT_RING_MASTER, 20, ROLE_MASTER},
                  {SEGMENT_RING_LOGGER, 30, ROLE_LOGGER},
                  {SEGMENT_RING_MASTER, 40, ROLE_MASTER},
                  {SEGMENT_RING_WORKERS, 50, ROLE_WORKER}};
    static const size_t order[] = {1, 3, 2, 0, 4}; /* of writing */

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++)
        append(events[order[i]].ring, events[order[i]].time_ns);
    event_merge_begin(merge, &segment);
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++) {
        assert_int_equal(take(), events[i].ring);
        assert_int_equal(event.time_ns, events[i].time_ns);
        assert_int_equal(event.role, events[i].role);
    }
    assert_int_equal(take(), -1);
}

static void slot_without_memory_has_no_events(void **state)
{
    (void)state;
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), -1);
    assert_int_equal(segment_reserve_worker(&segment, 1), 0);
    append(SEGMENT_RING_WORKERS + 1, 1);
    assert_int_equal(take(), SEGMENT_RING_WORKERS + 1);
}

static void pass_ends_although_the_ring_is_refilled(void **state)
{
    uint64_t taken = 0;

    (void)state;
    append(SEGMENT_RING_WORKERS, 1);
    event_merge_begin(merge, &segment);
    while (take() >= 0 && taken < 10 * SEGMENT_CHILD_EVENTS) {
        taken++;
        append(SEGMENT_RING_WORKERS, taken);
    }
    assert_int_equal(taken, SEGMENT_CHILD_EVENTS);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_WORKERS);
}

static void overwritten_events_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < SEGMENT_CHILD_EVENTS + 7; i++)
        append(SEGMENT_RING_LOGGER, (uint64_t)i);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_LOGGER);
    assert_int_equal(event.time_ns, 7);
    assert_int_equal(event_merge_lost(merge), 7);
}

static void position_is_that_of_the_next_event(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        append(SEGMENT_RING_MASTER, (uint64_t)i);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    assert_int_equal(event_merge_position(merge, SEGMENT_RING_MASTER), 1);
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    event_merge_seek(merge, SEGMENT_RING_MASTER, 1); /* as after a restart of the reader */
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    assert_int_equal(event.time_ns, 1);
}

#define MERGE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MERGE_TEST(events_are_taken_in_order_of_time),
        MERGE_TEST(slot_without_memory_has_no_events),
        MERGE_TEST(pass_ends_although_the_ring_is_refilled),
        MERGE_TEST(overwritten_events_are_counted),
        MERGE_TEST(position_is_that_of_the_next_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
