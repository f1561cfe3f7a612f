/* Watching a server: CPU times, and threads that do not answer. */
#include "common/clock.h"
#include "common/macros.h"
#include "console/data/watch.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

static struct segment segment;
static struct watch *watch;

static int begin(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){0}) != 0)
        return -1;
    segment_reserve_thread(&segment, 0);
    segment_publish(&segment);
    watch = watch_open(segment.header.name);
    return watch == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    watch_close(watch);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void sample(uint64_t now_ns)
{
    assert_int_equal(watch_sample(watch, now_ns, clock_wall_ns(), WANT_NOTHING), 0);
}

/* Only the first one is of half a second. */
TEST(cpu_time_is_that_of_a_second)
{
    uint64_t from_ns = clock_monotonic_ns();
    static const unsigned halves[] = {0, 1, 1, 3, 3, 5}; /* when it was read last */

    for (unsigned i = 0; i < ARRAY_LENGTH(halves); i++) {
        sample(from_ns + i * NS_PER_S / 2);
        assert_true(watch_processes(watch)->time_ns == from_ns + halves[i] * NS_PER_S / 2);
    }
}

/* The master asks another question each second. */
TEST(thread_is_silent_until_it_answers)
{
    struct segment_thread *thread = segment_thread(&segment, 0);
    const struct snapshot *now = &watch_info(watch)->snapshot;
    uint64_t now_ns = clock_monotonic_ns();

    segment_activity_work(&thread->activity, THREAD_STATE_WRITE, now_ns, "", 0);
    for (uint64_t second = 0; second < 4; second++) {
        atomic_store(&segment_master(&segment)->question, second + 1);
        sample(now_ns + second * NS_PER_S);
        assert_int_equal(now->threads[0].silent_ns, second * NS_PER_S);
    }
    atomic_store(&thread->answer, 3); /* late, but it runs */
    sample(now_ns + 5 * NS_PER_S);
    assert_int_equal(now->threads[0].silent_ns, 0);
    sample(now_ns + 6 * NS_PER_S);
    assert_int_equal(now->threads[0].silent_ns, NS_PER_S);
    atomic_store(&thread->answer, 4);
    sample(now_ns + 7 * NS_PER_S);
    sample(now_ns + 99 * NS_PER_S); /* no further question */
    assert_int_equal(now->threads[0].silent_ns, 0);
}
