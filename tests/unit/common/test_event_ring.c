/* The event ring with many writers and readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/event_ring.h"
#include "common/tables.h"

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

static void empty_ring_has_no_event(void **state)
{
    struct event_record event;
    uint64_t number = 0;

    (void)state;
    assert_int_equal(event_ring_oldest(ring), 0);
    assert_int_equal(event_ring_read(ring, &number, 0, &event), 0);
    assert_int_equal(number, 0);
    number = 77; /* the ring was cleared */
    assert_int_equal(event_ring_read(ring, &number, UINT64_MAX, &event), -1);
    assert_int_equal(number, 0);
}

static void event_round_trips(void **state)
{
    struct event_record event;
    uint64_t number = 0;

    (void)state;
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

static void long_text_is_cut(void **state)
{
    struct event_record event = {0}, copy;
    uint64_t number = 0;

    (void)state;
    memset(event.text, 'x', sizeof(event.text)); /* without a NUL */
    event_ring_append(ring, &event);
    assert_int_equal(event_ring_read(ring, &number, 0, &copy), 1);
    assert_int_equal(strlen(copy.text), EVENT_TEXT_BYTES - 1);
}

static void overwritten_events_are_skipped(void **state)
{
    struct event_record event;
    uint64_t number = 3;
    char text[32];

    (void)state;
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
static void event_of_dead_writer_is_skipped(void **state)
{
    const uint64_t time_ns = 1000000;
    struct event_record event;
    uint64_t number = 0;

    (void)state;
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
static void slot_of_two_writers_is_skipped(void **state)
{
    struct event_record event;
    uint64_t number = 0;

    (void)state;
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

static void concurrent_writers_lose_no_event(void **state)
{
    pthread_t threads[WRITERS];
    int names[WRITERS], torn = 0, whole = 0, passed_over = 0, backwards = 0;
    uint64_t number = 0, last[WRITERS] = {0};
    struct event_record event;

    (void)state;
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

#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, make_ring, free_ring)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RING_TEST(empty_ring_has_no_event),
        RING_TEST(event_round_trips),
        RING_TEST(long_text_is_cut),
        RING_TEST(overwritten_events_are_skipped),
        RING_TEST(event_of_dead_writer_is_skipped),
        RING_TEST(slot_of_two_writers_is_skipped),
        RING_TEST(concurrent_writers_lose_no_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
