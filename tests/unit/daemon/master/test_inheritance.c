/*
 * A new master reads exactly what the old one exported.
 */
#include "daemon/master/inheritance.h"

#include "common/macros.h"
#include "tests/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char variable[] = "WEBSERVERD_UPGRADE";

static int listening_socket(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static bool is_inheritable(int fd)
{
    return (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
}

TEST(successor_reads_what_was_exported)
{
    struct inherited_socket sockets[] = {
        {.fd = listening_socket(), .text = "127.0.0.1:80"},
        {.fd = listening_socket(), .tls = true, .text = "*:443"},
        {.fd = listening_socket(), .tls = true, .shared = true, .text = "unix:/run/tls"},
        {.fd = listening_socket(), .shared = true, .text = "unix:/run/x"},
        {.fd = listening_socket(), .shared = true, .activated = true, .text = ""},
        {.fd = listening_socket(), .proxy = true, .text = "127.0.0.1:81"},
        {.fd = listening_socket(), .proxy = true, .tls = true, .text = "[::1]:82"},
        {.fd = listening_socket(), .metrics = true, .text = "127.0.0.1:9180"},
    };
    struct inheritance inheritance, legacy;
    int link[2], lock = open("/dev/null", O_RDWR | O_CLOEXEC);
    int tickets = open("/dev/null", O_RDWR | O_CLOEXEC);
    int limits = open("/dev/null", O_RDWR | O_CLOEXEC);
    char why[128];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link), 0);
    legacy = (struct inheritance){.link = link[1],
                                  .lock_fd = lock,
                                  .tickets = tickets,
                                  .limits = limits,
                                  .socket = sockets,
                                  .count = ARRAY_LENGTH(sockets)};
    assert_int_equal(inheritance_export(&legacy), 0);
    assert_true(is_inheritable(link[1]));
    assert_true(is_inheritable(lock));
    assert_true(is_inheritable(tickets));
    assert_true(is_inheritable(limits));
    assert_true(inheritance_is_upgrade());
    assert_int_equal(inheritance_read(&inheritance, why, sizeof(why)), 0);
    assert_false(inheritance_is_upgrade());
    assert_int_equal(inheritance.link, link[1]);
    assert_true(inheritance.pending);
    assert_int_equal(inheritance.lock_fd, lock);
    assert_false(is_inheritable(lock));
    assert_int_equal(inheritance.tickets, tickets);
    assert_false(is_inheritable(tickets));
    assert_int_equal(inheritance.limits, limits);
    assert_false(is_inheritable(limits));
    assert_int_equal(inheritance.count, ARRAY_LENGTH(sockets));
    for (size_t i = 0; i < ARRAY_LENGTH(sockets); i++) {
        assert_int_equal(inheritance.socket[i].fd, sockets[i].fd);
        assert_int_equal(inheritance.socket[i].shared, sockets[i].shared);
        assert_int_equal(inheritance.socket[i].activated, sockets[i].activated);
        assert_int_equal(inheritance.socket[i].tls, sockets[i].tls);
        assert_int_equal(inheritance.socket[i].proxy, sockets[i].proxy);
        assert_int_equal(inheritance.socket[i].metrics, sockets[i].metrics);
        assert_string_equal(inheritance.socket[i].text, sockets[i].text);
        assert_false(is_inheritable(sockets[i].fd));
    }
    inheritance_free(&inheritance); /* closes all but the old master's end of the link */
    close(link[0]);
}

TEST(old_master_is_told_what_this_one_does)
{
    struct inheritance inheritance = {.lock_fd = -1, .tickets = -1, .limits = -1, .pending = true};
    char bytes[8];
    int link[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link), 0);
    inheritance.link = link[1];
    inheritance_report_ready(&inheritance);
    assert_false(inheritance.pending);
    inheritance_report_stop(&inheritance);
    assert_int_equal(recv(link[0], bytes, sizeof(bytes), 0), 2);
    assert_int_equal(bytes[0], INHERITANCE_READY);
    assert_int_equal(bytes[1], INHERITANCE_STOP);
    inheritance_free(&inheritance);
    assert_int_equal(recv(link[0], bytes, sizeof(bytes), 0), 0);
    inheritance_report_stop(&inheritance); /* there is no link */
    close(link[0]);
}

TEST(invalid_variable_is_an_error)
{
    char not_listening[32];
    const char *const cases[] = {
        "",           "x", "1000", "1000 1001 y", "1000 1001 5", "1000 1001 1002#", "1000 1001 #",
        not_listening};
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(not_listening, sizeof(not_listening), "1000 1001 %d=127.0.0.1:80", fd);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct inheritance inheritance;
        char why[128] = "";

        setenv(variable, cases[i], 1);
        assert_int_equal(inheritance_read(&inheritance, why, sizeof(why)), -1);
        assert_true(why[0] != '\0');
        assert_false(inheritance_is_upgrade());
        inheritance_free(&inheritance);
    }
    close(fd);
}

TEST(sockets_for_another_process_are_ignored)
{
    struct inheritance inheritance;
    char why[128];

    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(inheritance_read(&inheritance, why, sizeof(why)), 0);
    assert_int_equal(inheritance.link, -1);
    assert_int_equal(inheritance.count, 0);
    inheritance_free(&inheritance);
}
