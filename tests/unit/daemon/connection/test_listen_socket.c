/* Accepting connections: what is accepted, when a listen socket pauses, and when it resumes. */
#include "daemon/connection/listen_socket.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/shedding.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/shortage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENT = 1000, ALL_RESULTS = 8, ACCEPTS_PER_EVENT = 64, OPENING = OPENING_TLS };

static struct event_loop loop; /* too large for the stack */
static struct worker_context worker;
static struct segment_activity activity;
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct listen_socket *listener;
static int fd; /* of the listen socket: always readable */

/* Results of accept4(): CLIENT, or an error. The last one is repeated. */
static int results[ALL_RESULTS];
static int accepts;
static int accepted;   /* connections */
static bool no_memory; /* for a connection */
static bool has_room, admits, cache_shrinks;
static uint32_t idle; /* connections that can be closed */
static int shed, asked, shrunk;
static enum shortage reason; /* of the last attempt to make room */
static bool out_of_memory;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __wrap_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags);
bool __wrap_connection_accept(struct event_loop *to, int client, const uint8_t *address,
                              uint8_t opening);
bool __wrap_admission_has_room(const struct worker_context *of);
bool __wrap_memory_make_room(struct transaction_context *context);
bool __wrap_memory_admits(const struct transaction_context *context);
uint32_t __wrap_shed_idle(struct event_loop *of, enum shortage why, uint32_t wanted);
void __wrap_shed_ask(struct event_loop *of, enum shortage why);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(0xc0000207)};
    int result = results[accepts < ALL_RESULTS ? accepts : ALL_RESULTS - 1];

    assert_int_equal(from, fd);
    assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
    accepts++;
    if (result == CLIENT) {
        memcpy(peer, &address, sizeof(address));
        *length = sizeof(address);
        return CLIENT;
    }
    errno = result;
    return -1;
}

bool __wrap_connection_accept(struct event_loop *to, int client, const uint8_t *address,
                              uint8_t opening)
{
    static const uint8_t expected[] = {192, 0, 2, 7};

    assert_ptr_equal(to, &loop);
    assert_int_equal(client, CLIENT);
    assert_memory_equal(address + CLIENT_ADDRESS_BYTES - sizeof(expected), expected,
                        sizeof(expected));
    assert_int_equal(opening, OPENING);
    accepted++;
    return !no_memory;
}

bool __wrap_admission_has_room(const struct worker_context *of)
{
    assert_ptr_equal(of, &worker);
    return has_room;
}

bool __wrap_memory_make_room(struct transaction_context *context)
{
    (void)context;
    shrunk++;
    return cache_shrinks;
}

bool __wrap_memory_admits(const struct transaction_context *context)
{
    (void)context;
    return admits;
}

uint32_t __wrap_shed_idle(struct event_loop *of, enum shortage why, uint32_t wanted)
{
    (void)of;
    assert_int_equal(wanted, 1);
    reason = why;
    shed++;
    return idle;
}

void __wrap_shed_ask(struct event_loop *of, enum shortage why)
{
    (void)of;
    assert_int_equal(why, reason);
    asked++;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static void on_timer(evutil_socket_t timer, short what, void *argument)
{
    (void)timer, (void)what, (void)argument;
}

static int set_up(void **state)
{
    (void)state;
    memset(&loop, 0, sizeof(loop));
    memset(metrics, 0, sizeof(metrics));
    loop.base = event_base_new();
    if (loop.base == NULL || mailbox_open(&loop.mailbox, 0, NULL) != 0)
        return -1;
    loop.listen_retry = event_new(loop.base, -1, 0, on_timer, NULL);
    loop.context.worker = &worker;
    loop.context.metrics = metrics;
    loop.context.activity = &activity;
    loop.context.loop_now_ns = NS_PER_S;
    fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    memset(results, 0, sizeof(results));
    results[0] = EAGAIN;
    accepts = accepted = shed = asked = shrunk = 0;
    idle = 0;
    has_room = admits = true;
    no_memory = cache_shrinks = out_of_memory = false;
    listener = listen_socket_assign(&loop, fd, OPENING);
    mailbox_deliver(&loop.mailbox, &loop);
    return listener != NULL && !LIST_EMPTY(&loop.listen_sockets) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    listen_sockets_drop(&loop);
    mailbox_close(&loop.mailbox);
    event_free(loop.listen_retry);
    event_base_free(loop.base);
    return 0;
}

/* The socket is readable, unless it pauses. */
static void run_loop(void)
{
    event_base_loop(loop.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Runs the loop with room and without a waiting connection, which stay so. True: it did not accept. */
static bool finds_paused(void)
{
    int before = accepts;

    results[0] = EAGAIN;
    has_room = admits = true;
    accepts = 0;
    run_loop();
    if (accepts > 0)
        return false;
    accepts = before;
    return true;
}

static bool retry_is_due(void)
{
    return event_pending(loop.listen_retry, EV_TIMEOUT, NULL) != 0;
}

/* Accepting */

static void all_that_wait_are_accepted(void **state)
{
    static const int in_turn[] = {CLIENT, ECONNABORTED, EINTR, CLIENT, EAGAIN};

    (void)state;
    memcpy(results, in_turn, sizeof(in_turn));
    run_loop();
    assert_int_equal(accepts, 5);
    assert_int_equal(accepted, 2);
    assert_int_equal(activity.state, THREAD_STATE_ACCEPT);
    assert_int_equal(shed + asked + shrunk, 0);
    assert_false(finds_paused());
    assert_int_equal(metric_get(metrics, METRIC_accept_errors), 0);
}

static void open_connections_are_served_in_between(void **state)
{
    (void)state;
    for (int i = 0; i < ALL_RESULTS; i++)
        results[i] = CLIENT;
    run_loop();
    assert_int_equal(accepted, ACCEPTS_PER_EVENT);
}

static void connection_without_memory_makes_room(void **state)
{
    (void)state;
    results[0] = CLIENT;
    results[1] = EAGAIN;
    no_memory = true;
    run_loop();
    assert_int_equal(accepted, 1);
    assert_int_equal(shrunk, 1);
    assert_int_equal(reason, SHORTAGE_MEMORY);
    assert_int_equal(asked, 1);
    assert_false(finds_paused());
}

/* Shortages */

static void expect_shortage(int error, enum shortage expected, bool shrinks)
{
    int shrunk_before = shrunk;
    uint64_t errors = metric_get(metrics, METRIC_accept_errors);

    shed = asked = accepts = 0;
    results[0] = error;
    idle = 0;
    run_loop();
    assert_int_equal(metric_get(metrics, METRIC_accept_errors), errors + 1);
    assert_int_equal(shrunk - shrunk_before, shrinks);
    assert_int_equal(reason, expected);
    assert_int_equal(shed, 1);
    assert_int_equal(asked, 1);
    assert_true(finds_paused());
    listen_sockets_resume(&loop);
    assert_false(finds_paused());
    results[0] = error;
    accepts = 0;
    idle = 1;
    run_loop(); /* an idle connection is closed for it */
    assert_int_equal(shed, 2);
    assert_int_equal(asked, 1);
    assert_false(finds_paused());
}

static void socket_pauses_without_descriptors_or_memory(void **state)
{
    (void)state;
    expect_shortage(EMFILE, SHORTAGE_DESCRIPTORS, false);
    expect_shortage(ENFILE, SHORTAGE_DESCRIPTORS, false);
    expect_shortage(ENOBUFS, SHORTAGE_MEMORY, true);
    expect_shortage(ENOMEM, SHORTAGE_MEMORY, true);
    assert_false(retry_is_due());
}

static void smaller_cache_is_room_enough(void **state)
{
    (void)state;
    results[0] = ENOMEM;
    cache_shrinks = true;
    run_loop();
    assert_int_equal(shrunk, 1);
    assert_int_equal(shed + asked, 0);
    assert_false(finds_paused());
}

/* Maybe no other connection waits. */
static void nothing_is_closed_after_an_accepted_connection(void **state)
{
    (void)state;
    results[0] = CLIENT;
    results[1] = EMFILE;
    run_loop();
    assert_int_equal(accepts, 2);
    assert_int_equal(shed + asked, 0);
    assert_false(finds_paused());
}

static void socket_pauses_while_the_group_has_no_memory(void **state)
{
    (void)state;
    results[0] = CLIENT;
    admits = false;
    run_loop();
    assert_int_equal(accepts, 0);
    assert_int_equal(metric_get(metrics, METRIC_accept_pauses), 1);
    assert_true(finds_paused());
    listen_sockets_retry(&loop); /* another reason */
    assert_true(finds_paused());
    listen_sockets_resume(&loop);
    assert_false(finds_paused());
    assert_int_equal(metric_get(metrics, METRIC_accept_pauses), 1);
}

static void socket_waits_at_the_limit_of_connections(void **state)
{
    (void)state;
    has_room = false;
    run_loop();
    assert_int_equal(accepts, 0);
    assert_int_equal(reason, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked, 1);
    assert_int_equal(shrunk, 0);
    assert_int_equal(metric_get(metrics, METRIC_accept_pauses), 1);
    assert_int_equal(metric_get(metrics, METRIC_accept_errors), 0);
    assert_true(retry_is_due());
    assert_true(finds_paused());
    listen_sockets_resume(&loop); /* another reason */
    assert_true(finds_paused());
    event_del(loop.listen_retry);
    has_room = false;
    listen_sockets_retry(&loop);
    assert_int_equal(asked, 2);
    assert_true(retry_is_due());
    assert_true(finds_paused());
    event_del(loop.listen_retry);
    listen_sockets_retry(&loop); /* there is room now */
    assert_int_equal(asked, 2);
    assert_false(retry_is_due());
    assert_false(finds_paused());
}

static void idle_connection_makes_room_at_the_limit(void **state)
{
    (void)state;
    has_room = false;
    idle = 1;
    run_loop();
    assert_int_equal(shed, 1);
    assert_int_equal(asked, 0);
    assert_false(retry_is_due());
    assert_false(finds_paused());
    idle = 0;
    has_room = false;
    run_loop();
    assert_true(finds_paused());
    has_room = false;
    idle = 1;
    listen_sockets_retry(&loop);
    assert_false(finds_paused());
    event_del(loop.listen_retry);
    listen_sockets_retry(&loop); /* it does not wait any more */
    assert_int_equal(shed, 3);
}

/* The end */

static void revoked_socket_is_closed(void **state)
{
    (void)state;
    assert_int_equal(metric_get(metrics, METRIC_listen_sockets), 1);
    listen_socket_revoke(&loop, listener);
    mailbox_deliver(&loop.mailbox, &loop);
    assert_int_equal(metric_get(metrics, METRIC_listen_sockets), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_true(LIST_EMPTY(&loop.listen_sockets));
    run_loop();
    assert_int_equal(accepts, 0);
}

static void socket_without_memory_is_closed(void **state)
{
    int other = eventfd(1, EFD_CLOEXEC);

    (void)state;
    out_of_memory = true;
    assert_null(listen_socket_assign(&loop, other, 0));
    out_of_memory = false;
    assert_int_equal(fcntl(other, F_GETFD), -1);
    assert_null(loop.mailbox.first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_wait_are_accepted),
        TEST(open_connections_are_served_in_between),
        TEST(connection_without_memory_makes_room),
        TEST(socket_pauses_without_descriptors_or_memory),
        TEST(smaller_cache_is_room_enough),
        TEST(nothing_is_closed_after_an_accepted_connection),
        TEST(socket_pauses_while_the_group_has_no_memory),
        TEST(socket_waits_at_the_limit_of_connections),
        TEST(idle_connection_makes_room_at_the_limit),
        TEST(revoked_socket_is_closed),
        TEST(socket_without_memory_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
