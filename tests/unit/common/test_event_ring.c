/* The event ring with many writers and readers. */
#include "common/clock.h"
#include "common/event_ring.h"
#include "common/macros.h"
#include "common/tables.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 8, EVENTS = 4000 }; /* per writer */

enum { SLOTS = 128 };

static struct event_ring storage, *const ring = &storage;

static int make_ring(void **state)
{
    (void)state;
    storage.shared = calloc(1, event_ring_bytes(SLOTS));
    storage.slots = event_ring_capacity(event_ring_bytes(SLOTS));
    return storage.shared != NULL && storage.slots == SLOTS ? 0 : -1;
}

static int free_ring(void **state)
{
    (void)state;
    free(storage.shared);
    return 0;
}

static void append(uint64_t time_ns, enum level level, const char *text)
{
    struct event_record event = {
        .time_ns = time_ns, .level = (uint8_t)level, .role = ROLE_WORKER, .pid = INT32_MAX};

    snprintf(event.text, sizeof(event.text), "%s", text);
    event_ring_append(ring, &event);
}

TEST_WITH(empty_ring_has_no_event, make_ring, free_ring)
{
    struct event_record event;
    uint64_t number = 0;

    assert_int_equal(event_ring_oldest(ring), 0);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 0);
    assert_int_equal(number, 0);
    number = 77; /* the ring was cleared */
    assert_int_equal(event_ring_read(ring, &number, UINT64_MAX, &event), -1);
    assert_int_equal(number, 0);
}

TEST_WITH(event_round_trips, make_ring, free_ring)
{
    struct event_record event;
    uint64_t number = 0;

    append(1234567890123456789, LEVEL_WARN, "a worker died");
    append(5, LEVEL_ERROR, "");
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 1);
    assert_int_equal(number, 1);
    assert_int_equal(event.number, 0);
    assert_int_equal(event.time_ns, 1234567890123456789);
    assert_int_equal(event.level, LEVEL_WARN);
    assert_int_equal(event.role, ROLE_WORKER);
    assert_int_equal(event.pid, INT32_MAX);
    assert_string_equal(event.text, "a worker died");
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 1);
    assert_string_equal(event.text, "");
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 0);
}

TEST_WITH(long_text_is_cut, make_ring, free_ring)
{
    struct event_record event = {0}, copy;
    uint64_t number = 0;

    memset(event.text, 'x', sizeof(event.text)); /* without a NUL */
    event_ring_append(ring, &event);
    assert_int_equal(event_ring_read(ring, &number, 0, &copy), 1);
    assert_int_equal(strlen(copy.text), EVENT_TEXT_BYTES - 1);
}

TEST_WITH(overwritten_events_are_skipped, make_ring, free_ring)
{
    struct event_record event;
    uint64_t number = 3;
    char text[32];

    for (int i = 0; i < SLOTS + 10; i++) {
        snprintf(text, sizeof(text), "event %d", i);
        append(1, LEVEL_INFO, text);
    }
    assert_int_equal(event_ring_oldest(ring), 10);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), -1);
    assert_int_equal(number, 10);
    for (int i = 10; i < SLOTS + 10; i++) {
        snprintf(text, sizeof(text), "event %d", i);
        assert_int_equal(event_ring_read(ring, &number, 0, &event), 1);
        assert_string_equal(event.text, text);
    }
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 0);
}

/* A writer died: readers wait for its event, then skip it. */
TEST_WITH(event_of_dead_writer_is_skipped, make_ring, free_ring)
{
    const uint64_t time_ns = 1000000;
    struct event_record event;
    uint64_t number = 0;

    append(time_ns, LEVEL_INFO, "dead");
    atomic_store(&ring->shared->slot[0].sequence, 1);
    assert_int_equal(event_ring_read(ring, &number, UINT64_MAX, &event),
                     0); /* no later event yet */
    append(time_ns, LEVEL_INFO, "alive");
    assert_int_equal(event_ring_read(ring, &number, time_ns + EVENT_WRITER_LOST_NS, &event), 0);
    assert_int_equal(number, 0);
    assert_int_equal(event_ring_read(ring, &number, time_ns + EVENT_WRITER_LOST_NS + 1, &event),
                     -1);
    assert_int_equal(number, 1);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 1);
    assert_string_equal(event.text, "alive");
}

/* A writer delayed by a whole lap wrote into the slot of a later event. */
TEST_WITH(slot_of_two_writers_is_skipped, make_ring, free_ring)
{
    struct event_record event;
    uint64_t number = 0;

    append(1, LEVEL_INFO, "the text of the later event");
    append(1, LEVEL_INFO, "next");
    atomic_fetch_xor(&ring->shared->slot[0].text[2], 1);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), -1);
    assert_int_equal(number, 1);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 1);
    assert_string_equal(event.text, "next");
}

/* Many writers at full speed; each text repeats writer and event number. */

static void make_text(char *text, int writer, int serial)
{
    int length = 0;

    while (length < 150)
        length +=
            snprintf(text + length, EVENT_TEXT_BYTES - (size_t)length, "%d:%d ", writer, serial);
}

static void *write_events(void *argument)
{
    int writer = *(const int *)argument;
    struct event_record event = {.level = LEVEL_WARN, .pid = writer};

    for (int serial = 0; serial < EVENTS; serial++) {
        event.time_ns = (uint64_t)serial + 1;
        make_text(event.text, writer, serial);
        event_ring_append(ring, &event);
        if (serial % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static bool is_whole(const struct event_record *event)
{
    char text[EVENT_TEXT_BYTES] = "";

    if (event->pid < 0 || event->pid >= WRITERS || event->time_ns == 0 || event->time_ns > EVENTS)
        return false;
    make_text(text, event->pid, (int)event->time_ns - 1);
    return strcmp(text, event->text) == 0;
}

TEST_WITH(concurrent_writers_lose_no_event, make_ring, free_ring)
{
    pthread_t threads[WRITERS];
    int names[WRITERS], torn = 0, whole = 0, passed_over = 0, backwards = 0;
    uint64_t number = 0, last[WRITERS] = {0};
    struct event_record event;

    for (int i = 0; i < WRITERS; i++) {
        names[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, &names[i]), 0);
    }
    while (number < WRITERS * EVENTS) {
        uint64_t before = number;
        /*
         * At a time far after every event, a missing event is skipped as soon as a later one is
         * complete.
         */
        int result = event_ring_read(ring, &number, UINT64_MAX / 2, &event);

        passed_over += result < 0;
        if (result <= 0) {
            sched_yield();
            continue;
        }
        assert_int_equal(event.number, before);
        whole++;
        torn += !is_whole(&event);
        backwards += is_whole(&event) && event.time_ns <= last[event.pid];
        last[is_whole(&event) ? event.pid : 0] = event.time_ns;
        if (torn > 0)
            break;
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(torn, 0);
    assert_int_equal(backwards, 0);
    assert_true(whole > 0);
    assert_int_equal(ring->shared->next, WRITERS * EVENTS);
    print_message("%d whole, passed over %d times\n", whole, passed_over);
}

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
    segment.header.started_ns = 0;
    merge = event_merge_new(segment_event_rings(&segment), false);
    return merge != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    event_merge_free(merge);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* All events claim to be the master's. */
static void append_to(uint32_t number, uint64_t time_ns)
{
    const struct event_ring own = segment_event_ring(&segment, number);
    const struct event_record record = {
        .time_ns = time_ns, .level = LEVEL_INFO, .role = ROLE_MASTER, .text = "text"};

    event_ring_append(&own, &record);
}

static int take(void)
{
    return event_merge_take(merge, UINT64_MAX, &event);
}

TEST(events_are_taken_in_order_of_time)
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

    for (size_t i = 0; i < ARRAY_LENGTH(order); i++)
        append_to(events[order[i]].ring, events[order[i]].time_ns);
    event_merge_begin(merge, &segment);
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++) {
        assert_int_equal(take(), events[i].ring);
        assert_int_equal(event.time_ns, events[i].time_ns);
        assert_int_equal(event.role, events[i].role);
    }
    assert_int_equal(take(), -1);
}

/* A hostile worker claims any pid and time. */
TEST(event_of_a_worker_has_its_pid_and_a_possible_time)
{
    enum { FORMER = 41, TENANT = 42, OTHER = 7, SERVER_STARTED_S = 800, STARTED_S = 1000 };
    static const struct {
        const char *name;
        uint64_t claimed_s; /* time of the event */
        uint64_t empty_s;   /* when the ring was last found empty; 0: never */
        uint64_t now_s, time_s;
        int32_t pid;
    } cases[] = {
        {"in its time", 1500, 1499, 1500, 1500, TENANT},
        {"in the future", 9999, 1499, 1500, 1500, TENANT},
        {"at the end of time", 18446744073, 1499, 1500, 1500, TENANT},
        {"long ago", 1100, 1499, 1500, 1500, TENANT},
        {"at the beginning of time", 0, 1499, 1500, 1500, TENANT},
        {"before its start", 900, 1499, 1500, 1500, TENANT},
        {"stored late", 1498, 1499, 1500, 1498, TENANT},
        {"read late", 1100, 0, 1500, 1100, TENANT},
        {"of the worker before it", 900, 0, 1500, 900, FORMER},
        {"before the server started", 700, 0, 1500, 1500, TENANT},
        {"after the clock was set back", 1100, 2000, 1100, 1100, TENANT},
    };
    struct segment_worker_slot *slot = segment_worker_slot(&segment, 0);

    segment.header.started_ns = SERVER_STARTED_S * NS_PER_S;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct event_ring own = segment_event_ring(&segment, SEGMENT_RING_WORKERS);
        const struct event_record record = {.time_ns = cases[i].claimed_s * NS_PER_S,
                                            .pid = OTHER,
                                            .role = ROLE_MASTER,
                                            .text = "text"};

        event_merge_free(merge);
        merge = event_merge_new(segment_event_rings(&segment), false);
        event_merge_seek(merge, SEGMENT_RING_WORKERS, i);
        atomic_store(&slot->pid, FORMER);
        event_merge_begin(merge, &segment);
        if (cases[i].empty_s > 0)
            assert_int_equal(event_merge_take(merge, cases[i].empty_s * NS_PER_S, &event), -1);
        atomic_store(&slot->started_ns, STARTED_S * NS_PER_S);
        atomic_store(&slot->pid, TENANT);
        event_ring_append(&own, &record);
        assert_int_equal(event_merge_take(merge, cases[i].now_s * NS_PER_S, &event),
                         SEGMENT_RING_WORKERS);
        if (event.time_ns != cases[i].time_s * NS_PER_S || event.pid != cases[i].pid ||
            event.role != ROLE_WORKER)
            fail_msg("%s: pid %d, time %lu", cases[i].name, event.pid,
                     (unsigned long)event.time_ns);
    }
}

/* A new logger does not know it, and a hostile worker may have named any process. */
TEST(event_of_an_unknown_worker_has_its_pid_unless_the_merge_is_strict)
{
    enum { TENANT = 42, OTHER = 7 };
    const struct event_ring own = segment_event_ring(&segment, SEGMENT_RING_WORKERS);
    const struct event_record record = {.time_ns = 900 * NS_PER_S, .pid = OTHER, .text = "text"};
    struct segment_worker_slot *slot = segment_worker_slot(&segment, 0);

    atomic_store(&slot->pid, TENANT);
    atomic_store(&slot->started_ns, 1000 * NS_PER_S);
    event_ring_append(&own, &record);
    for (int strict = 0; strict <= 1; strict++) {
        event_merge_free(merge);
        merge = event_merge_new(segment_event_rings(&segment), strict != 0);
        event_merge_begin(merge, &segment);
        assert_int_equal(event_merge_take(merge, 1500 * NS_PER_S, &event), SEGMENT_RING_WORKERS);
        assert_int_equal(event.pid, strict != 0 ? TENANT : OTHER);
    }
}

TEST(dead_worker_keeps_its_events)
{
    struct segment_worker_slot *slot = segment_worker_slot(&segment, 0);

    atomic_store(&slot->pid, 42);
    event_merge_begin(merge, &segment);
    append_to(SEGMENT_RING_WORKERS, 10);
    atomic_store(&slot->pid, 0);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_WORKERS);
    assert_int_equal(event.pid, 42);
}

TEST(slot_without_memory_has_no_events)
{
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), -1);
    assert_int_equal(segment_reserve_worker(&segment, 1), 0);
    append_to(SEGMENT_RING_WORKERS + 1, 1);
    assert_int_equal(take(), SEGMENT_RING_WORKERS + 1);
}

TEST(pass_ends_although_the_ring_is_refilled)
{
    uint64_t taken = 0;

    append_to(SEGMENT_RING_WORKERS, 1);
    event_merge_begin(merge, &segment);
    while (take() >= 0 && taken < 10 * SEGMENT_CHILD_EVENTS) {
        taken++;
        append_to(SEGMENT_RING_WORKERS, taken);
    }
    assert_int_equal(taken, SEGMENT_CHILD_EVENTS);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_WORKERS);
}

TEST(overwritten_events_are_counted)
{
    for (int i = 0; i < SEGMENT_CHILD_EVENTS + 7; i++)
        append_to(SEGMENT_RING_LOGGER, (uint64_t)i);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_LOGGER);
    assert_int_equal(event.time_ns, 7);
    assert_int_equal(event_merge_lost(merge), 7);
}

TEST(position_is_that_of_the_next_event)
{
    for (int i = 0; i < 3; i++)
        append_to(SEGMENT_RING_MASTER, (uint64_t)i);
    event_merge_begin(merge, &segment);
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    assert_int_equal(event_merge_position(merge, SEGMENT_RING_MASTER), 1);
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    event_merge_seek(merge, SEGMENT_RING_MASTER, 1); /* as after a restart of the reader */
    assert_int_equal(take(), SEGMENT_RING_MASTER);
    assert_int_equal(event.time_ns, 1);
}
