/* Events, deadlines and timeouts of connections. */
#include "daemon/connection/timeouts.h"

#include "own_loop.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 3,
    KEEPALIVE_MS = 5000,
    HEADER_MS = 3000,
    BODY_MS = 4000,
    SEND_MS = 10000,
    MIN_RATE = 100, /* bytes per second */
};

static struct connection connections[CONNECTIONS];
static int client[CONNECTIONS]; /* the other end of each */
static int unsent;              /* bytes that a client has not acknowledged */
static int ready[CONNECTIONS], resumed[CONNECTIONS], timed_out[CONNECTIONS];
static short last_what;
static bool consumes, log_fills;

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    (void)fd, (void)request;
    *(int *)argument = unsent;
    return 0;
}

static size_t number_of(const struct connection *connection)
{
    return (size_t)(connection - connections);
}

static void on_ready(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;
    char byte;

    ready[number_of(connection)]++;
    last_what = what;
    if (consumes && recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
        connection_set_deadline(connection, DEADLINE_SEND);
}

static void resume(struct connection *connection)
{
    resumed[number_of(connection)]++;
    connection_set_deadline(connection, DEADLINE_KEEPALIVE);
    if (log_fills)
        connection_wait_for_log(connection);
}

static void time_out(struct connection *connection)
{
    timed_out[number_of(connection)]++;
    TAILQ_REMOVE(&loop.connections[connection->deadline], connection, link);
    TAILQ_INSERT_TAIL(&loop.connections[DEADLINE_NONE], connection, link);
    connection->deadline = DEADLINE_NONE;
}

static const struct connection_protocol protocol = {
    .ready = on_ready, .resume = resume, .timed_out = time_out};

static int set_up(void **state)
{
    (void)state;
    loop_open();
    config = (struct config){.connections_keepalive_timeout = KEEPALIVE_MS,
                             .connections_header_timeout = HEADER_MS,
                             .connections_body_timeout = BODY_MS,
                             .connections_send_timeout = SEND_MS,
                             .connections_min_send_rate = MIN_RATE};
    memset(connections, 0, sizeof(connections));
    for (int i = 0; i < CONNECTIONS; i++) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            return -1;
        client[i] = ends[1];
        connections[i].fd = ends[0];
        connections[i].loop = &loop;
        connections[i].protocol = &protocol;
        connections[i].deadline_from_ns = LOOP_NOW_NS;
        TAILQ_INSERT_TAIL(&loop.connections[DEADLINE_KEEPALIVE], &connections[i], link);
        ready[i] = resumed[i] = timed_out[i] = 0;
    }
    unsent = last_what = 0;
    consumes = log_fills = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CONNECTIONS; i++) {
        connection_watch(&connections[i], 0);
        close(connections[i].fd);
        close(client[i]);
    }
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&loop.connections[i]); /* those of the test */
    loop_close();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void pass_time(uint64_t ns)
{
    loop.context.loop_now_ns += ns;
}

/* Events */

TEST(unread_bytes_are_in_the_socket_or_the_transport)
{
    char byte;

    assert_false(connection_has_unread(&connections[0]));
    connections[0].buffered = true;
    assert_true(connection_has_unread(&connections[0]));
    connections[0].buffered = false;
    assert_int_equal(write(client[0], "x", 1), 1);
    assert_true(connection_has_unread(&connections[0]));
    assert_int_equal(read(connections[0].fd, &byte, 1), 1);
    assert_false(connection_has_unread(&connections[0]));
    assert_int_equal(shutdown(client[0], SHUT_WR), 0);
    assert_false(connection_has_unread(&connections[0])); /* the end is not a byte */
}

static void expect_watching(short what)
{
    assert_int_equal(connections[0].watching, what);
    assert_int_equal(event_pending(&connections[0].event, EV_READ | EV_WRITE, NULL), what);
}

TEST(only_the_wanted_event_is_watched)
{
    connection_watch(&connections[0], EV_READ);
    expect_watching(EV_READ);
    loop_run();
    assert_int_equal(ready[0], 0);
    assert_int_equal(write(client[0], "x", 1), 1);
    loop_run();
    assert_int_equal(ready[0], 1);
    assert_int_equal(last_what, EV_READ);
    connection_watch(&connections[0], EV_WRITE);
    expect_watching(EV_WRITE);
    loop_run();
    assert_int_equal(ready[0], 2);
    assert_int_equal(last_what, EV_WRITE);
    connection_watch(&connections[0], 0);
    expect_watching(0);
}

TEST(buffered_bytes_are_an_event)
{
    connections[0].buffered = true;
    connection_watch(&connections[0], EV_READ);
    loop_run();
    assert_int_equal(ready[0], 1);
    connection_watch(&connections[0], EV_READ); /* unchanged */
    loop_run();
    assert_int_equal(ready[0], 2);
    connection_watch(&connections[0], 0);
    connection_watch(&connections[0], EV_READ);
    connections[0].buffered = false;
    loop_run();
    assert_int_equal(ready[0], 3);
    connection_watch(&connections[0], EV_READ);
    loop_run();
    assert_int_equal(ready[0], 3);
}

/* Deadlines */

TEST(connection_moves_to_the_end_of_the_list)
{
    connections[0].idle = true;
    connection_wait(&connections[0], EV_READ, DEADLINE_BODY);
    pass_time(1);
    connection_wait(&connections[1], EV_READ, DEADLINE_BODY);
    expect_watching(EV_READ);
    assert_ptr_equal(TAILQ_FIRST(&loop.connections[DEADLINE_BODY]), &connections[0]);
    assert_ptr_equal(TAILQ_NEXT(&connections[0], link), &connections[1]);
    assert_ptr_equal(TAILQ_FIRST(&loop.connections[DEADLINE_KEEPALIVE]), &connections[2]);
    assert_int_equal(connections[0].deadline_from_ns, LOOP_NOW_NS);
    assert_int_equal(connections[1].deadline_from_ns, LOOP_NOW_NS + 1);
    assert_false(connections[0].idle);
    connection_restart_deadline(&connections[0]);
    assert_ptr_equal(TAILQ_FIRST(&loop.connections[DEADLINE_BODY]), &connections[1]);
    assert_int_equal(connections[0].deadline_from_ns, LOOP_NOW_NS + 1);
    assert_int_equal(connections[0].deadline, DEADLINE_BODY);
}

TEST(deadline_restarts_at_most_once_a_second)
{
    pass_time(NS_PER_S - 1);
    connection_set_deadline(&connections[0], DEADLINE_KEEPALIVE);
    assert_int_equal(connections[0].deadline_from_ns, LOOP_NOW_NS);
    pass_time(1);
    connection_set_deadline(&connections[0], DEADLINE_KEEPALIVE);
    assert_int_equal(connections[0].deadline_from_ns, LOOP_NOW_NS + NS_PER_S);
    connection_set_deadline(&connections[1], DEADLINE_HEADER);
    pass_time(2 * NS_PER_S); /* never while a request is incomplete */
    connection_set_deadline(&connections[1], DEADLINE_HEADER);
    assert_int_equal(connections[1].deadline_from_ns, LOOP_NOW_NS + NS_PER_S);
}

TEST(connection_is_active_for_two_seconds_after_a_request)
{
    assert_false(connection_is_active(&connections[0])); /* no request yet */
    connections[0].client.requests = connections[1].client.requests = 1;
    connections[1].idle = true;
    assert_true(connection_is_active(&connections[0]));
    assert_false(connection_is_active(&connections[1]));
    assert_int_equal(connections_count_active(&loop), 1);
    pass_time(2 * NS_PER_S);
    assert_true(connection_is_active(&connections[0]));
    pass_time(1);
    assert_false(connection_is_recent(&connections[0]));
    assert_false(connection_is_active(&connections[0]));
    assert_int_equal(connections_count_active(&loop), 0);
    connections[2].client.requests = 1;
    connection_set_deadline(&connections[2], DEADLINE_NONE);
    connection_set_deadline(&connections[0], DEADLINE_KEEPALIVE);
    assert_int_equal(connections_count_active(&loop), 2);
}

/* Slow clients */

/* A response is being sent since the start; the client had not acknowledged BYTES then. */
static void begin_response(int bytes)
{
    unsent = bytes;
    connection_wait_for_client(&connections[0]);
    expect_watching(EV_WRITE);
    assert_int_equal(connections[0].deadline, DEADLINE_SEND);
    assert_int_equal(connections[0].send_from_ns, LOOP_NOW_NS);
    assert_int_equal(connections[0].send_bytes, bytes);
    assert_int_equal(connections[0].unacknowledged, bytes);
}

/* True if the deadline was restarted. */
static bool is_fast_enough(int bytes)
{
    unsent = bytes;
    connection_wait_for_client(&connections[0]);
    return connections[0].deadline_from_ns == loop.context.loop_now_ns;
}

TEST(client_that_takes_nothing_for_five_seconds_is_stalled)
{
    begin_response(5000);
    pass_time(5 * NS_PER_S - 1);
    connection_set_deadline(&connections[1], DEADLINE_SEND);
    assert_int_equal(connections_count_stalled(&loop), 0);
    pass_time(1);
    assert_int_equal(connections_count_stalled(&loop), 1); /* the other one is recent */
    unsent = 4000;                                         /* without an event */
    assert_int_equal(connections_count_stalled(&loop), 0);
    assert_int_equal(connections[0].deadline_from_ns, loop.context.loop_now_ns);
    pass_time(5 * NS_PER_S - 1);
    assert_int_equal(connections_count_stalled(&loop), 1); /* only the other one */
    pass_time(1);
    assert_int_equal(connections_count_stalled(&loop), 2);
}

TEST(slow_client_keeps_its_deadline)
{
    begin_response(5000);
    pass_time(SEND_MS * NS_PER_MS);
    assert_false(is_fast_enough(4001)); /* 999 of 1000 bytes */
    assert_int_equal(connections[0].send_from_ns, LOOP_NOW_NS);
    assert_false(is_fast_enough(5000));
    connection_set_deadline(&connections[0], DEADLINE_BODY);
    assert_true(is_fast_enough(4001)); /* only SEND stays */
}

TEST(fast_client_has_its_deadline_restarted)
{
    begin_response(5000);
    pass_time(SEND_MS * NS_PER_MS - NS_PER_MS);
    assert_true(is_fast_enough(5000)); /* too early to say */
    assert_int_equal(connections[0].send_from_ns, LOOP_NOW_NS);
    pass_time(NS_PER_S + NS_PER_MS);
    connection_count_sent(&connections[0], 100, false);
    assert_int_equal(connections[0].send_bytes, 5100);
    assert_true(is_fast_enough(4000)); /* 1100 in 11 s */
    assert_int_equal(connections[0].send_from_ns, loop.context.loop_now_ns);
    assert_int_equal(connections[0].send_bytes, 4000);
}

TEST(client_that_has_everything_is_not_slow)
{
    begin_response(1);
    pass_time(SEND_MS * NS_PER_MS);
    assert_true(is_fast_enough(0));
    pass_time(SEND_MS * NS_PER_MS);
    assert_true(is_fast_enough(1)); /* more than was counted */
}

TEST(next_response_is_measured_on_its_own)
{
    begin_response(5000);
    connection_count_sent(&connections[0], 1, false);
    assert_int_equal(connections[0].send_from_ns, LOOP_NOW_NS);
    connection_count_sent(&connections[0], 1, true);
    assert_int_equal(connections[0].send_from_ns, 0);
    pass_time(SEND_MS * NS_PER_MS);
    assert_true(is_fast_enough(4999));
}

/* The log ring */

TEST(connections_wait_for_the_log_together)
{
    connection_watch(&connections[0], EV_READ);
    connection_wait_for_log(&connections[0]);
    expect_watching(0);
    assert_true(event_pending(loop.log_retry, EV_TIMEOUT, NULL));
    assert_int_equal(loop_metric(METRIC_log_waits), 1);
    assert_int_equal(loop.context.log_wait_from_ns, LOOP_NOW_NS);
    connection_wait_for_log(&connections[1]);
    assert_int_equal(loop_metric(METRIC_log_waits), 1);
    connection_set_deadline(&connections[2], DEADLINE_NONE); /* an offload job */
    connections_retry_log(&loop);
    assert_int_equal(resumed[0], 1);
    assert_int_equal(resumed[1], 1);
    assert_int_equal(resumed[2], 0);
    assert_false(connections[0].log_blocked);
    assert_false(loop.log_full);
    assert_int_equal(loop.context.log_wait_from_ns, 0);
}

TEST(connection_that_fills_the_log_stops_the_others)
{
    connection_wait_for_log(&connections[0]);
    connection_wait_for_log(&connections[1]);
    log_fills = true;
    pass_time(1);
    connections_retry_log(&loop);
    assert_int_equal(resumed[0], 1);
    assert_int_equal(resumed[1], 0);
    assert_true(connections[0].log_blocked);
    assert_true(loop.log_full);
    assert_int_equal(loop.context.log_wait_from_ns, LOOP_NOW_NS + 1);
    assert_int_equal(loop_metric(METRIC_log_waits), 2);
}

/* Expiry */

TEST(each_deadline_has_its_time)
{
    static const struct {
        enum deadline deadline;
        uint64_t ms;
        int counted;
    } examples[] = {
        {DEADLINE_KEEPALIVE, KEEPALIVE_MS + 1000, 1},
        {DEADLINE_HEADER, HEADER_MS, 1},
        {DEADLINE_BODY, BODY_MS, 1},
        {DEADLINE_SEND, SEND_MS + 1000, 1},
        {DEADLINE_LINGER, 3000, 0},
    };

    connection_set_deadline(&connections[1], DEADLINE_NONE);
    connection_set_deadline(&connections[2], DEADLINE_NONE);
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        uint64_t counted = loop_metric(METRIC_connections_timed_out);

        timed_out[0] = 0;
        connections[0].deadline_from_ns = 0;
        connection_set_deadline(&connections[0], examples[i].deadline);
        pass_time(examples[i].ms * NS_PER_MS - 1);
        timeouts_expire(&loop);
        assert_int_equal(timed_out[0], 0);
        pass_time(1);
        timeouts_expire(&loop);
        assert_int_equal(timed_out[0], 1);
        assert_int_equal(loop_metric(METRIC_connections_timed_out),
                         counted + (uint64_t)examples[i].counted);
    }
    pass_time(1000 * NS_PER_S);
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0] + timed_out[1] + timed_out[2], 1);
}

TEST(all_that_are_late_time_out)
{
    pass_time((KEEPALIVE_MS + 1000) * NS_PER_MS);
    connection_set_deadline(&connections[1], DEADLINE_KEEPALIVE);
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0], 1);
    assert_int_equal(timed_out[1], 0);
    assert_int_equal(timed_out[2], 1);
}

/* Without an event, because little of the socket's buffer is free. */
TEST(client_that_has_received_bytes_has_its_deadline_restarted)
{
    begin_response(5000);
    unsent = 3000;
    pass_time((SEND_MS + 1000) * NS_PER_MS);
    connection_set_deadline(&connections[1], DEADLINE_NONE);
    connection_set_deadline(&connections[2], DEADLINE_NONE);
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0], 0);
    assert_int_equal(connections[0].deadline_from_ns, loop.context.loop_now_ns);
    assert_int_equal(connections[0].unacknowledged, 3000);
    pass_time((SEND_MS + 1000) * NS_PER_MS); /* as many as before */
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0], 1);
    assert_int_equal(loop_metric(METRIC_connections_too_slow), 0);
}

/* A close would lose the rest if it sent anything. */
TEST(client_that_receives_the_rest_lets_the_connection_linger)
{
    connection_set_deadline(&connections[1], DEADLINE_NONE);
    connection_set_deadline(&connections[2], DEADLINE_NONE);
    connection_set_deadline(&connections[0], DEADLINE_LINGER);
    connections[0].linger_from_ns = loop.context.loop_now_ns;
    for (unsent = 5 * MIN_RATE * SEND_MS / 1000; unsent > 0; unsent -= MIN_RATE * SEND_MS / 1000) {
        pass_time((SEND_MS - 1000) * NS_PER_MS);
        timeouts_expire(&loop);
        assert_int_equal(timed_out[0], 0);
    }
    pass_time(3000 * NS_PER_MS);
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0], 1);
}

/* It takes fewer bytes than min_send_rate. */
TEST(lingering_client_that_is_too_slow_times_out)
{
    connection_set_deadline(&connections[1], DEADLINE_NONE);
    connection_set_deadline(&connections[2], DEADLINE_NONE);
    connection_set_deadline(&connections[0], DEADLINE_LINGER);
    connections[0].linger_from_ns = loop.context.loop_now_ns;
    unsent = 5000;
    for (uint64_t ms = 0; ms < SEND_MS + 5000; ms += 3000) {
        assert_int_equal(timed_out[0], 0);
        pass_time(3000 * NS_PER_MS);
        timeouts_expire(&loop);
        unsent--;
    }
    assert_int_equal(timed_out[0], 1);
}

TEST(client_that_is_too_slow_times_out)
{
    begin_response(5000);
    unsent = 4999;
    pass_time((SEND_MS + 1000) * NS_PER_MS);
    timeouts_expire(&loop);
    assert_int_equal(timed_out[0], 1);
    assert_int_equal(loop_metric(METRIC_connections_too_slow), 1);
}

TEST(request_that_has_arrived_is_read_before_it_times_out)
{
    consumes = true;
    connection_set_deadline(&connections[0], DEADLINE_HEADER);
    connection_set_deadline(&connections[1], DEADLINE_HEADER);
    assert_int_equal(write(client[0], "x", 1), 1);
    pass_time(HEADER_MS * NS_PER_MS);
    timeouts_expire(&loop);
    assert_int_equal(ready[0], 1);
    assert_int_equal(timed_out[0], 0);
    assert_int_equal(ready[1], 0);
    assert_int_equal(timed_out[1], 1);
}

/* Without a limit it would be read for ever. */
TEST(client_that_keeps_sending_times_out)
{
    connection_set_deadline(&connections[0], DEADLINE_HEADER);
    assert_int_equal(write(client[0], "x", 1), 1);
    pass_time(HEADER_MS * NS_PER_MS);
    timeouts_expire(&loop);
    assert_int_equal(ready[0], 64);
    assert_int_equal(timed_out[0], 1);
}
