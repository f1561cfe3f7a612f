/* What the protocols before the first request have in common. */
#include "daemon/connection/preliminary.h"

#include "common/segment.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct event_loop loop; /* too large for the stack */
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct connection connection, other; /* OTHER has bytes that were read ahead */
static int proceeded, served;

static void proceed(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    assert_true(loop.context.loop_now_ns > 0);
    assert_null(loop.ahead.connection);
    proceeded++;
}

static void serve(struct connection *of, const char *data, size_t length)
{
    (void)data, (void)length;
    assert_ptr_equal(of, &other);
    assert_int_equal(proceeded, 0);
    served++;
}

static const struct connection_protocol preliminary = {PRELIMINARY_PROTOCOL(proceed)};
static const struct connection_protocol serving = {.serve = serve};

static int set_up(void **state)
{
    (void)state;
    memset(&loop, 0, sizeof(loop));
    loop.context.metrics = metrics;
    connection = (struct connection){.loop = &loop, .protocol = &preliminary, .fd = -1};
    other = (struct connection){.loop = &loop, .protocol = &serving, .fd = -1};
    proceeded = served = 0;
    return 0;
}

/* As each event callback does, it first serves what another connection has read ahead. */
static void event_goes_on_with_the_protocol(void **state)
{
    (void)state;
    loop.ahead = (struct read_ahead){&other, "GET /", 5};
    preliminary.ready(-1, EV_READ, &connection);
    assert_int_equal(served, 1);
    assert_int_equal(proceeded, 1);
}

static void accepted_and_adopted_connections_go_on(void **state)
{
    (void)state;
    loop.context.loop_now_ns = 1;
    preliminary.accepted(&connection);
    assert_int_equal(proceeded, 1);
    preliminary.resume(&connection);
    assert_int_equal(proceeded, 2);
}

static void connection_can_move_at_any_time(void **state)
{
    (void)state;
    assert_true(preliminary.is_between_requests(&connection));
    assert_null(preliminary.drain); /* another worker can have it */
}

static void protocol_leaves_no_trace(void **state)
{
    struct connection before;

    (void)state;
    assert_int_equal(preliminary.connection_bytes, sizeof(struct connection));
    memcpy(&before, &connection, sizeof(before));
    preliminary.init(&connection);
    preliminary.moved(&connection, true);
    preliminary.moved(&connection, false);
    preliminary.abort(&connection);
    preliminary.free(&connection, NULL);
    assert_memory_equal(&connection, &before, sizeof(before));
    assert_int_equal(proceeded, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(event_goes_on_with_the_protocol, set_up),
        cmocka_unit_test_setup(accepted_and_adopted_connections_go_on, set_up),
        cmocka_unit_test_setup(connection_can_move_at_any_time, set_up),
        cmocka_unit_test_setup(protocol_leaves_no_trace, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
