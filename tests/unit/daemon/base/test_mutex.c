/* A wait for a mutex is counted by the thread that waits. */
#include "daemon/base/mutex.h"

#include "common/clock.h"
#include "common/segment.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static _Atomic uint64_t metrics[METRIC_COUNT];
static bool is_held; /* by another thread */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return is_held ? EBUSY : __real_pthread_mutex_lock(mutex);
}

/* The holder needs some time. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    uint64_t since_ns = clock_monotonic_ns();

    while (clock_monotonic_ns() == since_ns)
        continue;
    return __real_pthread_mutex_lock(mutex);
}

static void only_waits_are_counted(void **state)
{
    static const struct {
        bool held;
        _Atomic uint64_t *metrics;
        uint64_t waits; /* so far */
    } steps[] = {{true, NULL, 0},
                 {false, metrics, 0},
                 {true, metrics, 1},
                 {true, metrics, 2},
                 {true, NULL, 2}};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        uint64_t before_ns = metrics[METRIC_lock_wait];

        mutex_count_waits(steps[i].metrics);
        is_held = steps[i].held;
        mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        assert_int_equal(metrics[METRIC_lock_waits], steps[i].waits);
        assert_int_equal(metrics[METRIC_lock_wait] > before_ns,
                         steps[i].held && steps[i].metrics != NULL);
    }
    pthread_mutex_destroy(&mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_waits_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
