/* The begin of an iteration of an event loop. */
#include "daemon/connection/connection.h"

#include "common/clock.h"
#include "common/segment_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct event_loop loop; /* too large for the stack */
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct connection connection;
static const char bytes[] = "GET /";
static int served, prefetched;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTNEXTLINE(clang-diagnostic-reserved-identifier): a name of the linker */
void __wrap_lookup_prefetch_entry(struct transaction_context *context);

void __wrap_lookup_prefetch_entry(struct transaction_context *context)
{
    assert_ptr_equal(context, &loop.context);
    prefetched++;
}

static void serve(struct connection *of, const char *data, size_t length)
{
    assert_ptr_equal(of, &connection);
    assert_ptr_equal(data, bytes);
    assert_int_equal(length, sizeof(bytes));
    served++;
    loop_serve_ahead(&loop); /* there is nothing else */
}

static const struct connection_protocol protocol = {.serve = serve};

static int set_up(void **state)
{
    (void)state;
    memset(&loop, 0, sizeof(loop));
    memset(metrics, 0, sizeof(metrics));
    loop.context.metrics = metrics;
    connection = (struct connection){.loop = &loop, .protocol = &protocol};
    served = prefetched = 0;
    return 0;
}

static void clock_is_read_once_per_iteration(void **state)
{
    uint64_t before = clock_monotonic_ns();

    (void)state;
    loop_begin_iteration(&loop);
    assert_in_range(loop.context.loop_now_ns, before, clock_monotonic_ns());
    assert_int_equal(metric_get(metrics, METRIC_wakeups), 1);
    loop.context.loop_now_ns = 1;
    loop_begin_iteration(&loop);
    assert_int_equal(loop.context.loop_now_ns, 1);
    assert_int_equal(metric_get(metrics, METRIC_wakeups), 1);
}

static void bytes_read_ahead_are_served_once(void **state)
{
    (void)state;
    loop_enter(&loop);
    assert_true(loop.context.loop_now_ns > 0);
    assert_int_equal(prefetched, 0);
    loop.ahead = (struct read_ahead){&connection, bytes, sizeof(bytes)};
    loop_enter(&loop);
    assert_int_equal(served, 1);
    assert_int_equal(prefetched, 1);
    assert_null(loop.ahead.connection);
    loop_enter(&loop);
    assert_int_equal(served, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(clock_is_read_once_per_iteration, set_up),
        cmocka_unit_test_setup(bytes_read_ahead_are_served_once, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
