/* The read buffer of a connection: what it keeps, how it grows, and when it counts as idle. */
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/read_buffer.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

TEST(keep_copies_and_empty_keep_frees)
{
    struct read_buffer *buffer = NULL;

    assert_true(read_buffer_keep(&buffer, "GET /", 5));
    assert_int_equal(buffer->length, 5);
    assert_memory_equal(buffer->bytes, "GET /", 5);
    assert_true(read_buffer_keep(&buffer, NULL, 0));
    assert_null(buffer);
    assert_true(read_buffer_keep(&buffer, NULL, 0));
    assert_null(buffer);
}

/* The served requests at the beginning are dropped; the rest overlaps its new position. */
TEST(keep_of_own_tail_moves_it)
{
    struct read_buffer *buffer = NULL;

    assert_true(read_buffer_keep(&buffer, "abcdefgh", 8));
    assert_true(read_buffer_keep(&buffer, buffer->bytes + 2, 6));
    assert_int_equal(buffer->length, 6);
    assert_memory_equal(buffer->bytes, "cdefgh", 6);
    free(buffer);
}

TEST(append_grows_and_keeps_content)
{
    struct read_buffer *buffer = NULL;
    char piece[1000];

    memset(piece, 'x', sizeof(piece));
    assert_true(read_buffer_keep(&buffer, "head", 4));
    for (int i = 0; i < 100; i++)
        assert_true(read_buffer_append(&buffer, piece, sizeof(piece)));
    assert_int_equal(buffer->length, 4 + 100 * sizeof(piece));
    assert_in_range(buffer->length, 1, buffer->size);
    assert_memory_equal(buffer->bytes, "headx", 5);
    assert_int_equal(buffer->bytes[buffer->length - 1], 'x');
    free(buffer);
}

TEST(only_empty_lines_are_idle)
{
    static const struct {
        const char *bytes;
        bool idle;
    } cases[] = {{"\r\n", true},    {"\r\n\r\n", true}, {"\r", false},
                 {"\r\n\r", false}, {"\n", false},      {"\r\nG", false}};

    assert_true(read_buffer_is_idle(NULL));
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct read_buffer *buffer = NULL;

        assert_true(read_buffer_keep(&buffer, cases[i].bytes, strlen(cases[i].bytes)));
        assert_int_equal(read_buffer_is_idle(buffer), cases[i].idle);
        free(buffer);
    }
}

/* Reading ahead */

static struct event_loop loop; /* too large for the stack */
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct connection connection;
static const char bytes[] = "GET /";
static int served;

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
    served = 0;
    return 0;
}

TEST_WITH(clock_is_read_once_per_iteration, set_up, NULL)
{
    uint64_t before = clock_monotonic_ns();

    loop_begin_iteration(&loop);
    assert_in_range(loop.context.loop_now_ns, before, clock_monotonic_ns());
    assert_int_equal(metric_get(metrics, METRIC_wakeups), 1);
    loop.context.loop_now_ns = 1;
    loop_begin_iteration(&loop);
    assert_int_equal(loop.context.loop_now_ns, 1);
    assert_int_equal(metric_get(metrics, METRIC_wakeups), 1);
}

TEST_WITH(bytes_read_ahead_are_served_once, set_up, NULL)
{
    loop_enter(&loop);
    assert_true(loop.context.loop_now_ns > 0);
    loop.ahead = (struct read_ahead){&connection, bytes, sizeof(bytes)};
    loop_enter(&loop);
    assert_int_equal(served, 1);
    assert_null(loop.ahead.connection);
    loop_enter(&loop);
    assert_int_equal(served, 1);
}
