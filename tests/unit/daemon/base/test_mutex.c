/* A wait for a mutex is published and counted by the thread that waits. */
#include "daemon/base/mutex.h"

#include "common/clock.h"
#include "common/segment.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>

static struct segment_thread block;
static bool is_held; /* by another thread */
static enum thread_state state_of_wait;

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return is_held ? EBUSY : __real_pthread_mutex_lock(mutex);
}

/* The holder needs some time. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    uint64_t since_ns = clock_monotonic_ns();

    state_of_wait = block.activity.state;
    while (clock_monotonic_ns() == since_ns)
        continue;
    return __real_pthread_mutex_lock(mutex);
}

TEST(only_waits_are_published)
{
    static const struct {
        bool held;
        struct segment_thread *block;
        uint64_t waits; /* so far */
    } steps[] = {
        {true, NULL, 0}, {false, &block, 0}, {true, &block, 1}, {true, &block, 2}, {true, NULL, 2}};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        uint64_t before_ns = block.metrics[METRIC_lock_wait];
        bool published = steps[i].held && steps[i].block != NULL;

        mutex_publish_waits(steps[i].block);
        is_held = steps[i].held;
        block.activity.state = THREAD_STATE_READ;
        mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        assert_int_equal(block.metrics[METRIC_lock_waits], steps[i].waits);
        assert_int_equal(block.metrics[METRIC_lock_wait] > before_ns, published);
        if (steps[i].held)
            assert_int_equal(state_of_wait, published ? THREAD_STATE_LOCK : THREAD_STATE_READ);
        assert_int_equal(block.activity.state, THREAD_STATE_READ);
    }
    pthread_mutex_destroy(&mutex);
}
