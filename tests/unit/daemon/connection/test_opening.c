/* A connection that begins with a PROXY header: what is taken from the socket, and what follows. */
#include "daemon/connection/opening.h"

#include "daemon/base/messages.h"
#include "daemon/base/network.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/transaction/limits.h"

#include "own_loop.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <stdlib.h>

static const char header[] = "PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n";
enum { HEADER_BYTES = sizeof(header) - 1, CUT = 10 };
static const uint8_t peer[CLIENT_ADDRESS_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

static struct connection *connection;
static int client; /* the other end; -1: closed */
static bool out_of_memory;

void *__wrap_malloc(size_t size)
{
    return out_of_memory ? NULL : __real_malloc(size);
}

static bool open_from(const uint8_t *address)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client = ends[1];
    return connection_accept(&loop, ends[0], address, OPENING_PROXY);
}

/* A peer whose headers are trusted has connected. */
static int set_up(void **state)
{
    static struct network trusted;

    (void)state;
    loop_open();
    assert_int_equal(network_parse("127.0.0.0/8", &trusted), NETWORK_GOOD);
    config.proxy_trusted = (struct config_networks){.set = {&trusted, 1}};
    out_of_memory = false;
    assert_true(open_from(peer));
    connection = TAILQ_FIRST(&loop.connections[DEADLINE_HEADER]);
    return connection != NULL && begun == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (client >= 0)
        close(client);
    loop_close();
    client_limit_free(worker.client_limit);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void send_bytes(const char *bytes, size_t length)
{
    assert_int_equal(write(client, bytes, length), length);
    loop_run();
}

static void close_client(void)
{
    close(client);
    client = -1;
    loop_run();
}

static void expect_waiting(size_t kept)
{
    assert_int_equal(begun + (int)loop_metric(METRIC_connections_closed), 0);
    assert_int_equal(connection->deadline, DEADLINE_HEADER);
    assert_int_equal(connection->watching, EV_READ);
    assert_int_equal(connection->unserved->length, kept);
    assert_memory_equal(connection->unserved->bytes, header, kept);
}

static void expect_closed(enum metric counter, uint64_t count)
{
    assert_int_equal(loop_metric(METRIC_connections_closed), 1);
    assert_int_equal(loop_metric(counter), count);
    assert_int_equal(begun, 0);
}

/* Only LEFT is in the socket. */
static void expect_begun(const uint8_t *address, const char *left)
{
    char bytes[64] = {0};

    assert_int_equal(begun, 1);
    assert_ptr_equal(last, connection);
    assert_int_equal(connection->deadline, DEADLINE_KEEPALIVE);
    assert_true(connection->client.proxied);
    assert_int_equal(connection->opening, 0);
    assert_null(connection->unserved);
    assert_memory_equal(connection->client.address + CLIENT_ADDRESS_BYTES - 4, address, 4);
    assert_int_equal(loop_metric(METRIC_proxy_headers), 1);
    recv(connection->fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
    assert_string_equal(bytes, left);
}

TEST(bytes_after_the_header_stay_in_the_socket)
{
    send_bytes("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\nGET /", HEADER_BYTES + 5);
    expect_begun((const uint8_t[]){192, 0, 2, 7}, "GET /");
    assert_false(connection->client.counted);
    assert_int_equal(loop.context.activity->state, THREAD_STATE_READ);
}

TEST(header_may_arrive_in_parts)
{
    send_bytes(header, CUT);
    expect_waiting(CUT);
    send_bytes(header + CUT, CUT);
    expect_waiting(2 * CUT);
    proxy_protocol.ready(connection->fd, EV_READ, connection); /* nothing new */
    expect_waiting(2 * CUT);
    send_bytes(header + 2 * CUT, HEADER_BYTES - 2 * CUT);
    expect_begun((const uint8_t[]){192, 0, 2, 7}, "");
}

TEST(header_without_a_client_leaves_the_address)
{
    send_bytes("PROXY UNKNOWN\r\n", 15);
    expect_begun((const uint8_t[]){127, 0, 0, 1}, "");
}

TEST(untrusted_peer_is_closed)
{
    static const uint8_t other[CLIENT_ADDRESS_BYTES] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

    close(client);
    assert_true(open_from(other));
    assert_int_equal(loop_metric(METRIC_proxy_failed_untrusted), 1);
    assert_int_equal(loop_metric(METRIC_connections_open), 1); /* the first one */
}

TEST(named_client_is_counted_or_turned_away)
{
    char response[512] = "";

    config.connections_max_per_ip = 1;
    worker.client_limit = client_limit_new(&segment, 0);
    assert_non_null(worker.client_limit);
    send_bytes(header, HEADER_BYTES);
    assert_true(connection->client.counted);
    expect_begun((const uint8_t[]){192, 0, 2, 7}, "");
    close(client);
    for (int tls = 0; tls <= 1; tls++) {
        assert_true(open_from(peer));
        connection = TAILQ_FIRST(&loop.connections[DEADLINE_HEADER]);
        connection->opening |= tls != 0 ? OPENING_TLS : 0;
        send_bytes(header, HEADER_BYTES);
        assert_int_equal(loop_metric(METRIC_connections_closed), tls + 1);
        assert_int_equal(loop_metric(METRIC_connections_rejected), tls + 1);
        response[0] = '\0';
        recv(client, response, sizeof(response), MSG_DONTWAIT);
        assert_int_equal(strncmp(response, "HTTP/1.1 503 ", 13) == 0, tls == 0);
        close(client);
    }
    client = -1;
    assert_int_equal(begun, 1);
}

TEST(header_without_memory_is_closed)
{
    out_of_memory = true;
    send_bytes(header, CUT);
    out_of_memory = false;
    expect_closed(METRIC_proxy_failed_invalid, 0);
}

TEST(other_bytes_are_invalid)
{
    send_bytes("GET / HTTP/1.1\r\n", 16);
    expect_closed(METRIC_proxy_failed_invalid, 1);
}

/* As another worker may have sent it. */
TEST(bytes_read_before_cannot_be_a_whole_header)
{
    assert_true(connection_keep_unserved(connection, header, HEADER_BYTES));
    send_bytes("G", 1);
    expect_closed(METRIC_proxy_failed_invalid, 1);
}

TEST(end_within_the_header_is_invalid)
{
    send_bytes(header, CUT);
    close_client();
    expect_closed(METRIC_proxy_failed_invalid, 1);
}

/* It is a check whether the port is open. */
TEST(end_without_a_byte_is_not_counted)
{
    close_client();
    expect_closed(METRIC_proxy_failed_invalid, 0);
}

TEST(reset_without_a_byte_is_not_counted)
{
    assert_int_equal(write(connection->fd, "x", 1), 1);
    close_client(); /* which has unread bytes: a reset */
    expect_closed(METRIC_proxy_failed_invalid, 0);
}

TEST(timeouts_are_counted)
{
    handshake_protocol.timed_out(connection);
    expect_closed(METRIC_tls_failed_timeout, 1);
    close(client);
    assert_true(open_from(peer));
    proxy_protocol.timed_out(TAILQ_FIRST(&loop.connections[DEADLINE_HEADER]));
    assert_int_equal(loop_metric(METRIC_proxy_failed_timeout), 1);
    assert_int_equal(loop_metric(METRIC_connections_closed), 2);
}

TEST(connection_may_move_before_its_header)
{
    assert_true(connection_is_between_requests(connection));
    assert_null(proxy_protocol.drain); /* another worker can have it */
}
