/* What follows each result of a TLS handshake. */
#include "daemon/connection/handshake.h"

#include "common/log_record.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport_tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CIPHER = 0x1301 }; /* TLS_AES_128_GCM_SHA256 */

static struct event_loop loop; /* too large for the stack */
static struct segment_activity activity;
static _Atomic uint64_t metrics[METRIC_COUNT];
static struct connection connection;
static int client; /* the other end */
static enum tls_progress progress;
static enum tls_failure failure;
static bool resumed, validation, http2;
static int closed, waits, initialised, accepted;
static short waits_for;
static enum deadline deadline;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
enum tls_progress __wrap_transport_tls_handshake(struct connection *of, enum tls_failure *why);
unsigned int __wrap_transport_tls_cipher(const struct connection *of, bool *was_resumed);
bool __wrap_transport_tls_was_validation(const struct connection *of);
bool __wrap_transport_tls_selected_http2(const struct connection *of);
void __wrap_connection_close(struct connection *of);
void __wrap_connection_wait(struct connection *of, short what, enum deadline until);
void __wrap_connection_set_deadline(struct connection *of, enum deadline until);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

enum tls_progress __wrap_transport_tls_handshake(struct connection *of, enum tls_failure *why)
{
    assert_ptr_equal(of, &connection);
    *why = failure;
    return progress;
}

unsigned int __wrap_transport_tls_cipher(const struct connection *of, bool *was_resumed)
{
    (void)of;
    *was_resumed = resumed;
    return CIPHER;
}

bool __wrap_transport_tls_was_validation(const struct connection *of)
{
    (void)of;
    return validation;
}

bool __wrap_transport_tls_selected_http2(const struct connection *of)
{
    (void)of;
    return http2;
}

void __wrap_connection_close(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    closed++;
}

void __wrap_connection_wait(struct connection *of, short what, enum deadline until)
{
    assert_ptr_equal(of, &connection);
    waits++;
    waits_for = what;
    deadline = until;
}

void __wrap_connection_set_deadline(struct connection *of, enum deadline until)
{
    assert_ptr_equal(of, &connection);
    deadline = until;
}

static void init(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    initialised++;
}

static void accept_first_request(struct connection *of)
{
    assert_ptr_equal(of, &connection);
    assert_int_equal(initialised, 1);
    accepted++;
}

static const struct connection_protocol http = {.init = init, .accepted = accept_first_request};

static int set_up(void **state)
{
    int ends[2];

    (void)state;
    memset(&loop, 0, sizeof(loop));
    memset(metrics, 0, sizeof(metrics));
    memset(&connection, 0, sizeof(connection));
    loop.protocol = &http;
    loop.context.metrics = metrics;
    loop.context.activity = &activity;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return -1;
    connection.fd = ends[0];
    connection.loop = &loop;
    connection.protocol = &handshake_protocol;
    client = ends[1];
    closed = waits = initialised = accepted = 0;
    waits_for = -1;
    deadline = DEADLINE_COUNT;
    resumed = validation = http2 = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(connection.fd);
    close(client);
    return 0;
}

static void proceed(enum tls_progress result)
{
    progress = result;
    handshake_protocol.resume(&connection);
}

static uint64_t count(enum metric metric)
{
    return metric_get(metrics, metric);
}

static void handshake_is_followed_by_http(void **state)
{
    (void)state;
    activity.state = THREAD_STATE_ACCEPT;
    proceed(TLS_DONE);
    assert_int_equal(activity.state, THREAD_STATE_READ);
    assert_ptr_equal(connection.protocol, &http);
    assert_int_equal(accepted, 1);
    assert_int_equal(deadline, DEADLINE_KEEPALIVE);
    assert_int_equal(connection.client.tls, log_record_tls(CIPHER, false));
    assert_false(connection.awaits_http2);
    assert_int_equal(count(METRIC_tls_handshakes), 1);
    assert_int_equal(count(METRIC_tls_resumed), 0);
    assert_int_equal(count(METRIC_tls_validations), 0);
    assert_int_equal(closed, 0);
}

static void resumed_session_is_counted_and_logged(void **state)
{
    (void)state;
    resumed = http2 = true;
    proceed(TLS_DONE);
    assert_true(connection.awaits_http2);
    assert_int_equal(connection.client.tls, log_record_tls(CIPHER, true));
    assert_int_equal(count(METRIC_tls_handshakes), 1);
    assert_int_equal(count(METRIC_tls_resumed), 1);
}

static void validation_ends_with_the_handshake(void **state)
{
    (void)state;
    validation = true;
    proceed(TLS_DONE);
    assert_int_equal(count(METRIC_tls_handshakes), 1);
    assert_int_equal(count(METRIC_tls_validations), 1);
    assert_int_equal(closed, 1);
    assert_int_equal(accepted, 0);
}

static void handshake_waits_for_the_client(void **state)
{
    (void)state;
    proceed(TLS_WANTS_READ);
    assert_int_equal(waits_for, EV_READ);
    assert_int_equal(deadline, DEADLINE_HEADER);
    deadline = DEADLINE_COUNT;
    proceed(TLS_WANTS_WRITE);
    assert_int_equal(waits_for, EV_WRITE);
    assert_int_equal(deadline, DEADLINE_HEADER);
    assert_int_equal(waits, 2);
    assert_int_equal(connection.client.jobs_out, 0);
}

/* Meanwhile the connection must not move. */
static void connection_stays_on_its_thread_during_a_signature(void **state)
{
    (void)state;
    proceed(TLS_WANTS_SIGNATURE);
    assert_int_equal(waits_for, 0);
    assert_int_equal(deadline, DEADLINE_NONE);
    assert_int_equal(connection.client.jobs_out, 1);
    assert_int_equal(loop.context.jobs_out, 1);
    progress = TLS_DONE;
    handshake_resume(&connection);
    assert_int_equal(count(METRIC_wakeups), 1);
    assert_int_equal(connection.client.jobs_out, 0);
    assert_int_equal(loop.context.jobs_out, 0);
    assert_int_equal(accepted, 1);
}

static ssize_t receive(char *bytes, size_t size)
{
    memset(bytes, 0, size);
    return recv(client, bytes, size - 1, MSG_DONTWAIT);
}

static void each_failure_has_its_counter(void **state)
{
    static const struct {
        enum tls_failure failure;
        enum metric counter;
    } examples[] = {
        {TLS_FAILURE_VERSION, METRIC_tls_failed_version},
        {TLS_FAILURE_CIPHER, METRIC_tls_failed_cipher},
        {TLS_FAILURE_CLIENT, METRIC_tls_failed_client},
        {TLS_FAILURE_OTHER, METRIC_tls_failed_other},
    };
    char bytes[16];

    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        failure = examples[i].failure;
        proceed(TLS_FAILED);
        assert_int_equal(count(examples[i].counter), 1);
        assert_int_equal(closed, i + 1);
    }
    assert_int_equal(receive(bytes, sizeof(bytes)), -1);
    handshake_protocol.timed_out(&connection);
    assert_int_equal(count(METRIC_tls_failed_timeout), 1);
    assert_int_equal(closed, 5);
}

/* The response's Content-Length is that of its body. */
static void plain_request_is_answered(void **state)
{
    static const char length[] = "\r\nContent-Length: 40\r\n";
    char bytes[512], *body;
    ssize_t got;

    (void)state;
    failure = TLS_FAILURE_HTTP;
    proceed(TLS_FAILED);
    assert_int_equal(count(METRIC_tls_failed_http), 1);
    assert_int_equal(closed, 1);
    got = receive(bytes, sizeof(bytes));
    assert_true(got > 0);
    assert_memory_equal(bytes, "HTTP/1.1 400 ", 13);
    assert_non_null(strstr(bytes, length));
    body = strstr(bytes, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(bytes + got - (body + 4), 40);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handshake_is_followed_by_http),
        TEST(resumed_session_is_counted_and_logged),
        TEST(validation_ends_with_the_handshake),
        TEST(handshake_waits_for_the_client),
        TEST(connection_stays_on_its_thread_during_a_signature),
        TEST(each_failure_has_its_counter),
        TEST(plain_request_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
