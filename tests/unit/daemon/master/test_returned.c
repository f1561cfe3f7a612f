/* What a worker may return as a connection. */
#include "daemon/master/internal.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t loopback[CLIENT_ADDRESS_BYTES] = {0, 0, 0,    0,    0,   0, 0, 0,
                                                       0, 0, 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t other[CLIENT_ADDRESS_BYTES] = {0, 0, 0,    0,    0,  0, 0, 0,
                                                    0, 0, 0xff, 0xff, 10, 1, 2, 3};
static const uint8_t none[CLIENT_ADDRESS_BYTES];

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)address, length), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

/* *CLIENT and *SERVER are the ends of a connection over loopback. */
static void connect_ends(int *client, int *server)
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);

    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*client, (struct sockaddr *)&address, sizeof(address)), 0);
    *server = accept(listener, NULL, NULL);
    assert_true(*server >= 0);
    close(listener);
}

static const struct config_networks nobody;

/* What the master says to a worker that returns FD with ADDRESS. */
static const char *fault_of(int fd, const uint8_t *address, bool *open)
{
    struct message_connection message = {.requests = 0};

    memcpy(message.address, address, sizeof(message.address));
    return dispatch_fault(fd, &message, &nobody, open);
}

static void expect_forged(int fd, const uint8_t *address, const char *words)
{
    bool open = true;
    const char *fault = fault_of(fd, address, &open);

    assert_true(fd >= 0);
    assert_non_null(fault);
    assert_non_null(strstr(fault, words));
    assert_false(open);
    close(fd);
}

static void connection_is_taken_only_with_its_address(void **state)
{
    int client, server;
    bool open = false;

    (void)state;
    connect_ends(&client, &server);
    assert_null(fault_of(server, loopback, &open));
    assert_true(open);
    expect_forged(dup(server), other, "wrong address");
    expect_forged(dup(server), none, "wrong address");
    close(client);
    assert_null(fault_of(server, loopback, &open)); /* half closed: it may have requests */
    assert_true(open);
    close(server);
}

static void proxied_connection_of_trusted_peer_has_any_address(void **state)
{
    struct network item[1];
    const struct config_networks trusted = {item, 1};
    struct message_connection message = {.proxied = 1};
    int client, server;
    bool open = false;

    (void)state;
    memcpy(message.address, other, sizeof(message.address));
    connect_ends(&client, &server);
    assert_int_equal(network_parse("127.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_null(dispatch_fault(server, &message, &trusted, &open));
    assert_true(open);
    assert_int_equal(network_parse("10.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_null(dispatch_fault(server, &message, &trusted, &open)); /* a reload has removed it */
    assert_false(open);
    message.proxied = 0;
    assert_int_equal(network_parse("127.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_non_null(dispatch_fault(server, &message, &trusted, &open));
    assert_false(open);
    close(client);
    close(server);
}

static void connection_over_unix_socket_has_no_address(void **state)
{
    int fds[2];
    bool open = false;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_null(fault_of(fds[0], none, &open));
    assert_true(open);
    expect_forged(fds[0], loopback, "wrong address");
    close(fds[1]);
}

static void connection_reset_by_the_client_is_dropped_without_fault(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    int client, server;
    bool open = true;
    char byte;

    (void)state;
    connect_ends(&client, &server);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(client);
    assert_int_equal(read(server, &byte, 1), -1); /* waits for the reset */
    assert_null(fault_of(server, loopback, &open));
    assert_false(open);
    close(server);
}

static void other_descriptors_are_forged(void **state)
{
    static const char words[] = "not a connection";
    struct sockaddr_in address;
    int pair[2], pipes[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(pipe(pipes), 0);
    expect_forged(pair[0], none, words); /* like the channel itself */
    expect_forged(pair[1], none, words);
    expect_forged(pipes[0], none, words);
    expect_forged(pipes[1], none, words);
    expect_forged(listen_on_loopback(&address), none, words);
    expect_forged(socket(AF_INET, SOCK_DGRAM, 0), none, words);
    expect_forged(open("/dev/null", O_RDONLY), none, words);
    expect_forged(open("/", O_PATH), none, words);
    expect_forged(eventfd(0, 0), none, words);
    expect_forged(memfd_create("memory", 0), none, words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_is_taken_only_with_its_address),
        cmocka_unit_test(proxied_connection_of_trusted_peer_has_any_address),
        cmocka_unit_test(connection_over_unix_socket_has_no_address),
        cmocka_unit_test(connection_reset_by_the_client_is_dropped_without_fault),
        cmocka_unit_test(other_descriptors_are_forged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
