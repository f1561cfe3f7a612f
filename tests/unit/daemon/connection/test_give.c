/* Which connections a thread gives. */
#include "common/clock.h"
#include "daemon/base/messages.h"
#include "daemon/connection/lifecycle.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <string.h>

enum { CONNECTIONS = 6, SIBLING = 1 };
#define NOW_NS  (1000 * NS_PER_S)
#define LONG_NS (10 * NS_PER_S) /* an active connection is not so old */

static struct segment segment;
static struct mailbox main_thread;
static struct worker_context worker;
static struct event_loop loop; /* too large for the stack */
static struct connection connections[CONNECTIONS];
static int left;     /* connections that left their thread */
static int executed; /* orders that came back to the main thread */
static bool given[CONNECTIONS];
static bool between_requests;

static void moved(struct connection *connection, bool leaving)
{
    (void)connection;
    left += leaving;
}

static bool is_between_requests(const struct connection *connection)
{
    (void)connection;
    return between_requests;
}

static const struct connection_protocol protocol = {.moved = moved,
                                                    .is_between_requests = is_between_requests};

static void take_given(struct mailbox_item *item, void *receiver)
{
    (void)receiver;
    given[CONTAINER_OF(item, struct connection, item) - connections] = true;
}

static int begin(void **state)
{
    (void)state;
    memset(&loop, 0, sizeof(loop));
    memset(connections, 0, sizeof(connections));
    left = 0;
    between_requests = true;
    if (own_segment_create(&segment, (struct segment_plan){0}) != 0 ||
        segment_reserve(&segment, 0, 1) != 0 || mailbox_open(&main_thread, 0, NULL) != 0)
        return -1;
    worker = (struct worker_context){.main = &main_thread, .segment = &segment};
    loop.context = (struct transaction_context){
        .worker = &worker, .metrics = segment_thread(&segment, 0)->metrics, .loop_now_ns = NOW_NS};
    loop.pass_connection = take_given;
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&loop.connections[i]);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mailbox_close(&main_thread);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* Adds connection I at the end of a list. */
static struct connection *add(int i, enum deadline deadline, uint64_t waited_ns)
{
    struct connection *connection = &connections[i];

    connection->loop = &loop;
    connection->protocol = &protocol;
    connection->client.requests = 1;
    connection->deadline = (uint8_t)deadline;
    connection->deadline_from_ns = NOW_NS - waited_ns;
    TAILQ_INSERT_TAIL(&loop.connections[deadline], connection, link);
    return connection;
}

static void count_executed(struct mailbox_item *item, void *receiver)
{
    (void)item, (void)receiver;
    executed++;
}

static void give(uint32_t count, bool idle, uint32_t destination)
{
    struct give order = {
        .given = count_executed, .count = count, .destination = destination, .idle = idle};

    executed = 0;
    memset(given, false, sizeof(given));
    connections_give(&order.item, &loop);
    mailbox_deliver(&main_thread, NULL);
    assert_int_equal(executed, 1);
}

/*
 * Expects that the main thread has received just the connections whose numbers are in TEXT, in
 * any order.
 */
static void expect_given(const char *text)
{
    for (int i = 0, at = 0; i < CONNECTIONS; i++) {
        bool expected = text[at] == (char)('0' + i);

        at += expected;
        if (expected != given[i])
            fail_msg("connection %d was %sgiven", i, expected ? "not " : "");
    }
    assert_int_equal(left, strlen(text));
    left = 0;
}

TEST(longest_idle_goes_first)
{
    add(0, DEADLINE_KEEPALIVE, 3 * LONG_NS);
    add(1, DEADLINE_KEEPALIVE, 2 * LONG_NS);
    add(2, DEADLINE_KEEPALIVE, LONG_NS);
    give(2, true, SIBLING);
    expect_given("01");
    assert_int_equal(connections[0].destination, SIBLING);
    assert_true(connections[0].idle);
    give(2, true, SIBLING);
    expect_given("2");
}

/* A client may stop in the middle of a request or of a response, and still count as idle. */
TEST(idle_ones_that_wait_for_more_go_after_those_between_requests)
{
    add(0, DEADLINE_HEADER, LONG_NS);
    add(1, DEADLINE_BODY, LONG_NS);
    add(2, DEADLINE_SEND, LONG_NS);
    add(3, DEADLINE_KEEPALIVE, LONG_NS);
    give(1, true, SIBLING);
    expect_given("3");
    give(2, true, SIBLING);
    expect_given("01");
    give(2, true, SIBLING);
    expect_given("2");
}

/* The order counted them as idle a second ago. */
TEST(active_ones_go_if_idle_ones_are_missing)
{
    add(0, DEADLINE_KEEPALIVE, LONG_NS);
    add(1, DEADLINE_KEEPALIVE, 0);
    add(2, DEADLINE_KEEPALIVE, 0);
    give(2, true, SIBLING);
    expect_given("01");
    assert_true(connections[0].idle);
    assert_false(connections[1].idle);
}

TEST(active_ones_go_evenly_spaced)
{
    for (int i = 0; i < CONNECTIONS; i++)
        add(i, DEADLINE_KEEPALIVE, i == 0 ? LONG_NS : 0);
    give(1, false, SIBLING);
    expect_given("1");
    give(2, false, SIBLING);
    expect_given("24");
    give(9, false, SIBLING);
    expect_given("35");
    assert_int_equal(metric_get(loop.context.metrics, METRIC_connections_active), 0);
    give(9, false, SIBLING);
    expect_given("");
}

TEST(gauge_of_active_ones_follows)
{
    add(0, DEADLINE_KEEPALIVE, 0);
    add(1, DEADLINE_SEND, 0);
    add(2, DEADLINE_SEND, 0)->client.requests = 0;
    give(1, false, SIBLING);
    assert_int_equal(metric_get(loop.context.metrics, METRIC_connections_active), 1);
}

TEST(busy_and_closing_connections_stay)
{
    add(0, DEADLINE_NONE, LONG_NS)->client.jobs_out = 1;
    add(1, DEADLINE_SEND, LONG_NS)->client.closing = true;
    add(2, DEADLINE_LINGER, LONG_NS)->lingering = true;
    give(3, true, SIBLING);
    expect_given("");
}

/* With its mode it hands over all. */
TEST(moving_thread_gives_none)
{
    loop.mode = THREAD_MOVING;
    add(0, DEADLINE_KEEPALIVE, LONG_NS);
    give(1, true, SIBLING);
    expect_given("");
}

TEST(other_worker_gets_only_those_between_requests)
{
    struct read_buffer unserved = {.length = PASSED_BYTES_MAX + 1};

    add(0, DEADLINE_KEEPALIVE, LONG_NS)->tls = (struct tls_session *)&unserved; /* any */
    add(1, DEADLINE_KEEPALIVE, LONG_NS)->unserved = &unserved;
    give(2, true, DESTINATION_MASTER);
    expect_given("");
    unserved.length--;
    between_requests = false;
    give(2, true, DESTINATION_MASTER);
    expect_given("");
    between_requests = true;
    give(2, true, DESTINATION_MASTER);
    expect_given("1");
}
