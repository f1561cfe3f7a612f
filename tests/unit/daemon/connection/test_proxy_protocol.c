/* A connection that begins with a PROXY header: what is taken from the socket, and what follows. */
#include "daemon/connection/proxy_protocol.h"

#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"
#include "daemon/transaction/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char header[] = "PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n";
enum { HEADER_BYTES = sizeof(header) - 1, CUT = 10 };

static struct event_loop loop; /* too large for the stack */
static struct loop_space space;
static struct worker_context worker;
static struct segment_activity activity;
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct connection connection;
static int client; /* the other end; -1: closed */
static int closed, waits, begun, turned_away;
static bool tls; /* when it was turned away */
static enum client_limit_verdict verdict;
static bool begin_fails, out_of_memory;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void __wrap_connection_close(struct connection *of);
void __wrap_connection_wait(struct connection *of, short what, enum deadline deadline);
bool __wrap_connection_begin(struct connection *of);
bool __real_connection_keep_unserved(struct connection *of, const char *data, size_t length);
bool __wrap_connection_keep_unserved(struct connection *of, const char *data, size_t length);
enum client_limit_verdict __wrap_admission_of_connection(const struct worker_context *of,
                                                         const uint8_t *address, bool admitted);
void __wrap_admission_turn_away(struct transaction_context *context, int fd,
                                enum client_limit_verdict why, bool opening);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void __wrap_connection_close(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    closed++;
}

void __wrap_connection_wait(struct connection *of, short what, enum deadline deadline)
{
    assert_ptr_equal(of, &connection);
    assert_int_equal(what, EV_READ);
    assert_int_equal(deadline, DEADLINE_HEADER);
    waits++;
}

bool __wrap_connection_begin(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    assert_null(connection.unserved);
    begun++;
    return !begin_fails;
}

bool __wrap_connection_keep_unserved(struct connection *of, const char *data, size_t length)
{
    return !out_of_memory && __real_connection_keep_unserved(of, data, length);
}

enum client_limit_verdict __wrap_admission_of_connection(const struct worker_context *of,
                                                         const uint8_t *address, bool admitted)
{
    assert_ptr_equal(of, &worker);
    assert_ptr_equal(address, connection.client.address);
    assert_false(admitted);
    return verdict;
}

void __wrap_admission_turn_away(struct transaction_context *context, int fd,
                                enum client_limit_verdict why, bool opening)
{
    (void)context;
    assert_int_equal(fd, connection.fd);
    assert_int_equal(why, CLIENT_LIMIT_EXCEEDED);
    turned_away++;
    tls = opening;
}

static int set_up(void **state)
{
    int ends[2];

    (void)state;
    memset(&loop, 0, sizeof(loop));
    memset(metrics, 0, sizeof(metrics));
    memset(&connection, 0, sizeof(connection));
    loop.space = &space;
    loop.context.worker = &worker;
    loop.context.metrics = metrics;
    loop.context.activity = &activity;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return -1;
    connection.fd = ends[0];
    connection.loop = &loop;
    connection.protocol = &proxy_protocol;
    connection.opening = OPENING_ALL;
    memset(connection.client.address, 'p', sizeof(connection.client.address));
    client = ends[1];
    closed = waits = begun = turned_away = 0;
    verdict = CLIENT_LIMIT_UNCOUNTED;
    begin_fails = out_of_memory = tls = false;
    activity.state = THREAD_STATE_ACCEPT;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(connection.fd);
    if (client >= 0)
        close(client);
    free(connection.unserved);
    return 0;
}

static void send_bytes(const char *bytes, size_t length)
{
    assert_int_equal(write(client, bytes, length), length);
}

/* The connection is readable. */
static void become_ready(void)
{
    errno = EAGAIN; /* of an earlier call */
    proxy_protocol.ready(connection.fd, EV_READ, &connection);
}

static void close_client(void)
{
    close(client);
    client = -1;
}

/* All that is left in the socket. */
static void expect_left(const char *bytes)
{
    char left[64] = {0};
    ssize_t got = recv(connection.fd, left, sizeof(left) - 1, MSG_DONTWAIT);

    assert_string_equal(left, bytes);
    assert_int_equal(got, *bytes != '\0' ? (ssize_t)strlen(bytes) : -1);
}

static void expect_address(const uint8_t *last)
{
    assert_memory_equal(connection.client.address + CLIENT_ADDRESS_BYTES - 4, last, 4);
}

static void expect_begun(void)
{
    static const uint8_t address[] = {192, 0, 2, 7};

    assert_int_equal(begun, 1);
    assert_int_equal(closed, 0);
    assert_true(connection.client.proxied);
    assert_int_equal(connection.opening, OPENING_TLS);
    assert_int_equal(metric_get(metrics, METRIC_proxy_headers), 1);
    assert_null(connection.unserved);
    expect_address(address);
    expect_left("GET /");
}

static void bytes_after_the_header_stay_in_the_socket(void **state)
{
    (void)state;
    send_bytes(header, HEADER_BYTES);
    send_bytes("GET /", 5);
    become_ready();
    expect_begun();
    assert_false(connection.client.counted);
    assert_int_equal(activity.state, THREAD_STATE_READ);
    assert_int_equal(metric_get(metrics, METRIC_wakeups), 1);
}

static void header_may_arrive_in_parts(void **state)
{
    (void)state;
    send_bytes(header, CUT);
    become_ready();
    assert_int_equal(waits, 1);
    assert_non_null(connection.unserved);
    assert_int_equal(connection.unserved->length, CUT);
    send_bytes(header + CUT, CUT);
    become_ready();
    assert_int_equal(waits, 2);
    become_ready(); /* nothing new */
    assert_int_equal(waits, 3);
    assert_int_equal(connection.unserved->length, 2 * CUT);
    assert_memory_equal(connection.unserved->bytes, header, 2 * CUT);
    send_bytes(header + 2 * CUT, HEADER_BYTES - 2 * CUT);
    send_bytes("GET /", 5);
    become_ready();
    expect_begun();
}

static void header_without_a_client_leaves_the_address(void **state)
{
    (void)state;
    send_bytes("PROXY UNKNOWN\r\n", 15);
    become_ready();
    assert_int_equal(begun, 1);
    assert_true(connection.client.proxied);
    expect_address((const uint8_t *)"pppp");
}

static void client_is_counted_or_turned_away(void **state)
{
    (void)state;
    verdict = CLIENT_LIMIT_COUNTED;
    send_bytes(header, HEADER_BYTES);
    become_ready();
    assert_true(connection.client.counted);
    assert_int_equal(begun, 1);
    verdict = CLIENT_LIMIT_EXCEEDED;
    connection.opening = OPENING_ALL;
    send_bytes(header, HEADER_BYTES);
    become_ready();
    assert_int_equal(turned_away, 1);
    assert_true(tls);
    assert_int_equal(closed, 1);
    assert_false(connection.client.counted);
    connection.opening = OPENING_PROXY;
    send_bytes(header, HEADER_BYTES);
    become_ready();
    assert_int_equal(turned_away, 2);
    assert_false(tls);
    assert_int_equal(begun, 1);
}

static void connection_without_memory_is_closed(void **state)
{
    (void)state;
    begin_fails = true;
    send_bytes(header, HEADER_BYTES);
    become_ready();
    assert_int_equal(closed, 1);
    out_of_memory = true;
    send_bytes(header, CUT);
    become_ready();
    assert_int_equal(closed, 2);
    assert_int_equal(waits, 0);
}

static void expect_failed(enum metric counter)
{
    assert_int_equal(metric_get(metrics, counter), 1);
    assert_int_equal(closed, 1);
    assert_int_equal(begun + waits, 0);
}

static void other_bytes_are_invalid(void **state)
{
    (void)state;
    send_bytes("GET / HTTP/1.1\r\n", 16);
    become_ready();
    expect_failed(METRIC_proxy_failed_invalid);
}

/* As another worker may have sent it. */
static void bytes_read_before_cannot_be_a_whole_header(void **state)
{
    (void)state;
    assert_true(__real_connection_keep_unserved(&connection, header, HEADER_BYTES));
    send_bytes("G", 1);
    become_ready();
    expect_failed(METRIC_proxy_failed_invalid);
}

static void end_within_the_header_is_invalid(void **state)
{
    (void)state;
    assert_true(__real_connection_keep_unserved(&connection, header, CUT));
    close_client();
    become_ready();
    expect_failed(METRIC_proxy_failed_invalid);
}

/* It is a check whether the port is open. */
static void end_without_a_byte_is_not_counted(void **state)
{
    (void)state;
    close_client();
    become_ready();
    assert_int_equal(closed, 1);
    assert_int_equal(waits, 0);
    assert_int_equal(metric_get(metrics, METRIC_proxy_failed_invalid), 0);
}

static void reset_without_a_byte_is_not_counted(void **state)
{
    (void)state;
    assert_int_equal(write(connection.fd, "x", 1), 1);
    close_client(); /* which has unread bytes: a reset */
    become_ready();
    assert_int_equal(closed, 1);
    assert_int_equal(waits, 0);
    assert_int_equal(metric_get(metrics, METRIC_proxy_failed_invalid), 0);
}

static void time_out_is_counted(void **state)
{
    (void)state;
    proxy_protocol.timed_out(&connection);
    expect_failed(METRIC_proxy_failed_timeout);
}

static void connection_may_move_before_its_header(void **state)
{
    (void)state;
    assert_true(proxy_protocol.is_between_requests(&connection));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_after_the_header_stay_in_the_socket),
        TEST(header_may_arrive_in_parts),
        TEST(header_without_a_client_leaves_the_address),
        TEST(client_is_counted_or_turned_away),
        TEST(connection_without_memory_is_closed),
        TEST(other_bytes_are_invalid),
        TEST(bytes_read_before_cannot_be_a_whole_header),
        TEST(end_within_the_header_is_invalid),
        TEST(end_without_a_byte_is_not_counted),
        TEST(reset_without_a_byte_is_not_counted),
        TEST(time_out_is_counted),
        TEST(connection_may_move_before_its_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
