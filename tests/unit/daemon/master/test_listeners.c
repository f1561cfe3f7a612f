#include "common/macros.h"
#include "daemon/config/load.h"
#include "daemon/master/listeners.h"
#include "tests/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct config config;

static int set_up(void **state)
{
    static const char *const overrides[] = {"server.listen=127.0.0.1:0 127.0.0.2:0",
                                            "server.root=/"};

    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};

    (void)state;
    return config_load(&config, &sources, stderr);
}

static int tear_down(void **state)
{
    (void)state;
    config_free(&config);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct listeners *open_rows(uint32_t rows)
{
    char why[256];
    struct listeners *listeners = listeners_open(&config, rows, NULL, why, sizeof(why));

    if (listeners == NULL)
        fail_msg("%s", why);
    return listeners;
}

static in_port_t port_of(int fd)
{
    struct sockaddr_in address = {0};
    socklen_t length = sizeof(address);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return address.sin_port;
}

TEST(sockets_of_an_address_share_its_port)
{
    struct listeners *listeners = open_rows(3);

    assert_int_equal(listeners_count(listeners), 6);
    for (uint32_t i = 2; i < 6; i++)
        assert_int_equal(port_of(listeners_fd(listeners, i)),
                         port_of(listeners_fd(listeners, i % 2)));
    listeners_close(listeners);
}

TEST(row_has_one_socket_of_each_address)
{
    struct listeners *listeners = open_rows(3);

    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(listeners_row(listeners, i), i / 2);
    listeners_close(listeners);
}

TEST(grow_keeps_open_sockets)
{
    struct listeners *listeners = open_rows(1);
    int first = listeners_fd(listeners, 0);

    assert_int_equal(listeners_grow(listeners, 40), 0);
    assert_int_equal(listeners_count(listeners), 80);
    assert_int_equal(listeners_fd(listeners, 0), first);
    assert_int_equal(listeners_grow(listeners, 2), 0); /* never shrinks */
    assert_int_equal(listeners_count(listeners), 80);
    listeners_close(listeners);
}

static bool is_deferred(int fd)
{
    int seconds = 0;
    socklen_t length = sizeof(seconds);

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &length), 0);
    return seconds > 0;
}

TEST(defer_accept_follows_configuration)
{
    struct listeners *listeners = open_rows(1);

    assert_true(is_deferred(listeners_fd(listeners, 0)));
    listeners_close(listeners);
    config.connections_defer_accept = false;
    listeners = open_rows(1);
    assert_false(is_deferred(listeners_fd(listeners, 0)));
    listeners_close(listeners);
    config.connections_defer_accept = true;
}

TEST(accept_queues_are_counted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct listeners *listeners;
    int client[3];

    config.connections_defer_accept = false;
    listeners = open_rows(2);
    assert_int_equal(listeners_waiting(listeners), 0);
    address.sin_port = port_of(listeners_fd(listeners, 0));
    for (int i = 0; i < 3; i++) {
        client[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(client[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    assert_int_equal(listeners_waiting(listeners), 3);
    for (int i = 0; i < 3; i++)
        close(client[i]);
    listeners_close(listeners);
    assert_int_equal(listeners_waiting(NULL), 0);
    config.connections_defer_accept = true;
}

/* Connections would wait in the queue of a socket that nobody accepts from. */
TEST(failed_grow_closes_its_sockets)
{
    struct listeners *listeners = open_rows(2);
    struct rlimit before, few;
    int next = dup(0);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)next + 5;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(listeners_grow(listeners, 100), -1);
    assert_int_equal(errno, EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(listeners_count(listeners), 4);
    assert_int_equal(dup(0), next); /* the sockets opened before the failure are closed */
    close(next);
    assert_int_equal(listeners_grow(listeners, 3), 0);
    assert_int_equal(listeners_count(listeners), 6);
    listeners_close(listeners);
}

TEST(port_in_use_is_named_in_the_error)
{
    struct listeners *first = open_rows(1), *second;
    struct config same = config;
    char why[256];

    listeners_describe(first, why, sizeof(why));
    ((struct sockaddr_in *)&same.server_listen.item[0].address)->sin_port =
        port_of(listeners_fd(first, 0));
    second = listeners_open(&same, 1, NULL, why, sizeof(why));
    assert_null(second);
    assert_non_null(strstr(why, "cannot listen on 127.0.0.1"));
    assert_non_null(strstr(why, strerror(EADDRINUSE)));
    listeners_close(first);
}
