/*
 * Accepting connections: what is accepted, when a listen socket pauses and resumes, and which idle
 * connections are closed for new ones.
 */
#include "daemon/connection/listen_socket.h"

#include "daemon/base/messages.h"

#include "own_loop.h"
#include "tests/test.h"
#include "tests/unit/own_cache.h"
#include "tests/unit/wrapped.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum { CLIENT = 1000, ALL_RESULTS = 8, ACCEPTS_PER_EVENT = 64, CLIENTS = 128 };

static struct listen_socket *listener;
static int fd; /* of the listen socket: always readable */

/* Results of accept4(): CLIENT, or an error. The last one is repeated. */
static int results[ALL_RESULTS];
static int accepts;
static int client[CLIENTS]; /* the other ends */
static int clients;
static bool out_of_memory;

int __wrap_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(0xc0000207)};
    int result = results[accepts < ALL_RESULTS ? accepts : ALL_RESULTS - 1], ends[2];

    assert_int_equal(from, fd);
    accepts++;
    if (result != CLIENT) {
        errno = result;
        return -1;
    }
    memcpy(peer, &address, sizeof(address));
    *length = sizeof(address);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends), 0);
    client[clients++] = ends[1];
    return ends[0];
}

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static int set_up(void **state)
{
    (void)state;
    loop_open();
    memset(results, 0, sizeof(results));
    results[0] = EAGAIN;
    accepts = clients = 0;
    out_of_memory = false;
    fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    listener = listen_socket_assign(&loop, fd, 0);
    mailbox_deliver(&loop.mailbox, &loop);
    return listener != NULL && !LIST_EMPTY(&loop.listen_sockets) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    listen_sockets_drop(&loop);
    loop_close();
    while (clients > 0)
        close(client[--clients]);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* The next results of accept4(). */
static void set_results(int first, int second)
{
    results[0] = first;
    results[1] = second;
    accepts = 0;
}

/* Runs the loop without a waiting connection. True: it did not accept. */
static bool finds_paused(void)
{
    set_results(EAGAIN, 0);
    loop_run();
    return accepts == 0;
}

static bool retry_is_due(void)
{
    return event_pending(loop.listen_retry, EV_TIMEOUT, NULL) != 0;
}

/* A connection that has been idle for so long that it may be closed for another one. */
static struct connection *open_idle(void)
{
    set_results(CLIENT, EAGAIN);
    loop_run();
    last->deadline_from_ns = LOOP_NOW_NS - 10 * NS_PER_S;
    TAILQ_REMOVE(&loop.connections[DEADLINE_KEEPALIVE], last, link);
    TAILQ_INSERT_HEAD(&loop.connections[DEADLINE_KEEPALIVE], last, link);
    return last;
}

/* Number of requests to other threads since the last call; each finds nothing. */
static unsigned take_requests(void)
{
    unsigned requests;

    mailbox_deliver(&main_thread, NULL);
    requests = shed_requests;
    shed_requests = 0;
    loop.shed_pending = false;
    return requests;
}

/* Accepting */

TEST(all_that_wait_are_accepted)
{
    static const int in_turn[] = {CLIENT, ECONNABORTED, EINTR, CLIENT, EAGAIN};
    static const uint8_t address[] = {192, 0, 2, 7};

    memcpy(results, in_turn, sizeof(in_turn));
    loop_run();
    assert_int_equal(accepts, 5);
    assert_int_equal(begun, 2);
    assert_memory_equal(last->client.address + CLIENT_ADDRESS_BYTES - 4, address, 4);
    assert_int_equal(loop.context.activity->state, THREAD_STATE_ACCEPT);
    assert_int_equal(loop_metric(METRIC_connections_accepted), 2);
    assert_int_equal(loop_metric(METRIC_accept_errors), 0);
    assert_false(finds_paused());
}

TEST(open_connections_are_served_in_between)
{
    for (int i = 0; i < ALL_RESULTS; i++)
        results[i] = CLIENT;
    loop_run();
    assert_int_equal(begun, ACCEPTS_PER_EVENT);
}

TEST(connection_without_memory_is_refused)
{
    char response[512] = "";

    set_results(CLIENT, EAGAIN);
    out_of_memory = true;
    loop_run();
    out_of_memory = false;
    assert_int_equal(begun, 0);
    assert_int_equal(loop_metric(METRIC_connections_refused), 1);
    recv(client[0], response, sizeof(response), MSG_DONTWAIT);
    assert_memory_equal(response, "HTTP/1.1 503 ", 13);
    assert_int_equal(take_requests(), 1);
    assert_int_equal(loop.shed.reason, SHORTAGE_MEMORY);
    assert_false(finds_paused());
}

/* Shortages */

static void expect_shortage(int error, enum shortage reason)
{
    static const enum metric shed[] = {[SHORTAGE_DESCRIPTORS] = METRIC_connections_shed_descriptors,
                                       [SHORTAGE_MEMORY] = METRIC_connections_shed_memory};
    uint64_t errors = loop_metric(METRIC_accept_errors), closed = loop_metric(shed[reason]);

    set_results(error, 0);
    loop_run();
    assert_int_equal(loop_metric(METRIC_accept_errors), errors + 1);
    assert_int_equal(take_requests(), 1);
    assert_int_equal(loop.shed.reason, reason);
    assert_true(finds_paused());
    listen_sockets_resume(&loop);
    assert_false(finds_paused());
    open_idle();
    set_results(error, 0);
    loop_run(); /* the idle connection is closed for it */
    assert_int_equal(loop_metric(shed[reason]), closed + 1);
    assert_int_equal(take_requests(), 0);
    assert_false(finds_paused());
}

TEST(socket_pauses_without_descriptors_or_memory)
{
    expect_shortage(EMFILE, SHORTAGE_DESCRIPTORS);
    expect_shortage(ENFILE, SHORTAGE_DESCRIPTORS);
    expect_shortage(ENOBUFS, SHORTAGE_MEMORY);
    expect_shortage(ENOMEM, SHORTAGE_MEMORY);
    assert_false(retry_is_due());
}

TEST(smaller_cache_is_room_enough)
{
    struct own_cache own;

    own_cache_open(&own, own_cache_forget);
    assert_true(own_cache_put(&own, "/a", KIB));
    worker.cache = own.cache;
    loop.context.thread_cache =
        thread_cache_new(own.cache, segment_hits_of(&own.segment, 0), loop.context.metrics);
    assert_non_null(loop.context.thread_cache);
    open_idle();
    set_results(ENOMEM, 0);
    loop_run();
    assert_int_equal(loop_metric(METRIC_connections_shed_memory) + take_requests(), 0);
    assert_false(finds_paused());
    set_results(ENOMEM, 0);
    loop_run(); /* the cache is empty now */
    assert_int_equal(loop_metric(METRIC_connections_shed_memory), 1);
    thread_cache_free(loop.context.thread_cache);
    worker.cache = NULL;
    own_cache_close(&own);
}

/* Maybe no other connection waits. */
TEST(nothing_is_closed_after_an_accepted_connection)
{
    open_idle();
    set_results(CLIENT, EMFILE);
    loop_run();
    assert_int_equal(accepts, 2);
    assert_int_equal(loop_metric(METRIC_connections_closed) + take_requests(), 0);
    assert_false(finds_paused());
}

TEST(socket_pauses_while_the_group_has_no_memory)
{
    atomic_store(&shortages.memory, MEMORY_EXHAUSTED);
    for (int i = 0; i < 8; i++) { /* few connections are accepted all the same */
        set_results(CLIENT, EAGAIN);
        loop_run();
    }
    assert_int_equal(begun, 8);
    set_results(CLIENT, EAGAIN);
    loop_run();
    assert_int_equal(accepts, 0);
    assert_int_equal(loop_metric(METRIC_accept_pauses), 1);
    atomic_store(&shortages.memory, MEMORY_ENOUGH);
    assert_true(finds_paused());
    listen_sockets_retry(&loop); /* another reason */
    assert_true(finds_paused());
    listen_sockets_resume(&loop);
    assert_false(finds_paused());
}

static void set_limit(uint32_t max)
{
    config.connections_max = max;
    atomic_store(&segment_master(&segment)->workers_wanted, 1);
}

TEST(socket_waits_at_the_limit_of_connections)
{
    set_results(CLIENT, EAGAIN);
    loop_run();
    set_limit(1);
    set_results(CLIENT, EAGAIN);
    loop_run();
    assert_int_equal(accepts, 0);
    assert_int_equal(take_requests(), 1);
    assert_int_equal(loop.shed.reason, SHORTAGE_CONNECTIONS);
    assert_int_equal(loop_metric(METRIC_accept_pauses), 1);
    assert_int_equal(loop_metric(METRIC_accept_errors), 0);
    assert_true(retry_is_due());
    assert_true(finds_paused());
    listen_sockets_resume(&loop); /* another reason */
    assert_true(finds_paused());
    event_del(loop.listen_retry);
    listen_sockets_retry(&loop);
    assert_int_equal(take_requests(), 1);
    assert_true(retry_is_due());
    assert_true(finds_paused());
    event_del(loop.listen_retry);
    set_limit(2);
    listen_sockets_retry(&loop); /* there is room now */
    assert_int_equal(take_requests(), 0);
    assert_false(retry_is_due());
    assert_false(finds_paused());
}

TEST(idle_connection_makes_room_at_the_limit)
{
    set_limit(1);
    open_idle();
    set_results(CLIENT, EAGAIN);
    loop_run();
    assert_int_equal(loop_metric(METRIC_connections_shed_max), 1);
    assert_int_equal(take_requests(), 0);
    assert_false(retry_is_due());
    set_results(CLIENT, EAGAIN);
    loop_run();
    assert_int_equal(begun, 2);
    loop_run();
    assert_true(finds_paused());
    last->deadline_from_ns = LOOP_NOW_NS - 10 * NS_PER_S;
    listen_sockets_retry(&loop);
    assert_int_equal(loop_metric(METRIC_connections_shed_max), 2);
    assert_false(finds_paused());
    event_del(loop.listen_retry);
    listen_sockets_retry(&loop); /* it does not wait any more */
    assert_false(retry_is_due());
}

/* Shedding */

TEST(connections_that_are_not_idle_stay_open)
{
    open_idle()->deadline_from_ns = LOOP_NOW_NS - NS_PER_S; /* not for long */
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 9), 0);
    last->deadline_from_ns = LOOP_NOW_NS - 10 * NS_PER_S;
    assert_int_equal(write(client[0], "G", 1), 1); /* a request has arrived */
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 9), 0);
    for (int i = 0; i < 3; i++)
        open_idle();
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 2), 2);
    assert_int_equal(loop_metric(METRIC_connections_shed_max), 2);
    assert_int_equal(loop_metric(METRIC_connections_open), 2);
}

TEST(slow_heads_and_ended_connections_make_room)
{
    static const enum deadline lists[] = {DEADLINE_HEADER, DEADLINE_LINGER, DEADLINE_SEND,
                                          DEADLINE_BODY};

    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        connection_set_deadline(open_idle(), lists[i]);
        last->deadline_from_ns = LOOP_NOW_NS - 3 * NS_PER_S / 2;
    }
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 9), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
        TAILQ_FIRST(&loop.connections[lists[i]])->deadline_from_ns = LOOP_NOW_NS - 2 * NS_PER_S;
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 1), 1);
    assert_true(TAILQ_EMPTY(&loop.connections[DEADLINE_LINGER]));
    TAILQ_FIRST(&loop.connections[DEADLINE_HEADER])->client.jobs_out = 1;
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 9), 0);
    TAILQ_FIRST(&loop.connections[DEADLINE_HEADER])->client.jobs_out = 0;
    assert_int_equal(shed_idle(&loop, SHORTAGE_CONNECTIONS, 9), 1);
    assert_int_equal(loop_metric(METRIC_connections_open), 2);
}

TEST(one_request_is_under_way)
{
    for (int i = 0; i < 2; i++)
        shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_ptr_equal(mailbox_next(&main_thread), &loop.shed.item);
    assert_null(mailbox_next(&main_thread));
    loop.shed.closed = 1;
    shed_finish(&loop.shed.item, &loop);
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(take_requests(), 1);
}

TEST(request_in_vain_is_not_repeated_at_once)
{
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    shed_finish(&loop.shed.item, &loop);
    assert_int_equal(take_requests(), 1);
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(take_requests(), 0);
    loop.context.loop_now_ns += NS_PER_S;
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(take_requests(), 1);
}

TEST(request_that_closed_a_connection_resumes_the_socket)
{
    set_results(EMFILE, 0);
    loop_run();
    assert_true(finds_paused());
    loop.shed.closed = 1;
    shed_finish(&loop.shed.item, &loop);
    assert_false(finds_paused());
}

TEST(visit_closes_and_returns_the_request)
{
    struct shed_request request = {
        .pass = loop_count_request, .reason = SHORTAGE_CONNECTIONS, .wanted = 3, .closed = 1};

    for (int i = 0; i < 3; i++)
        open_idle();
    shed_visit(&request.item, &loop);
    assert_int_equal(request.closed, 3);
    assert_int_equal(loop_metric(METRIC_connections_open), 1);
    assert_ptr_equal(mailbox_next(&main_thread), &request.item);
}

/* The end */

TEST(revoked_socket_is_closed)
{
    assert_int_equal(loop_metric(METRIC_listen_sockets), 1);
    listen_socket_revoke(&loop, listener);
    mailbox_deliver(&loop.mailbox, &loop);
    assert_int_equal(loop_metric(METRIC_listen_sockets), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_true(LIST_EMPTY(&loop.listen_sockets));
}

TEST(socket_without_memory_is_closed)
{
    int other = eventfd(1, EFD_CLOEXEC);

    out_of_memory = true;
    assert_null(listen_socket_assign(&loop, other, 0));
    out_of_memory = false;
    assert_int_equal(fcntl(other, F_GETFD), -1);
    assert_null(mailbox_next(&loop.mailbox));
}
