/*
 * The control client with a socket of the test. One thread has both ends, because a UNIX socket
 * connects and buffers without accept().
 */
#include "common/control_client.h"
#include "common/instance.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64], path[INSTANCE_PATH_MAX], why[256];
static int listener = -1, server = -1;
static struct control_client client;

static int listen_at_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 ? listen(listener, 4)
                                                                             : -1;
}

static int open_socket(void **state)
{
    (void)state;
    why[0] = '\0';
    client.fd = -1;
    snprintf(folder, sizeof(folder), "/tmp/test-control-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/control.sock", folder);
    return listen_at_path();
}

static int close_socket(void **state)
{
    (void)state;
    control_close(&client);
    if (server >= 0)
        close(server);
    if (listener >= 0)
        close(listener);
    server = listener = -1;
    unlink(path);
    return rmdir(folder);
}

static int connect_both(void **state)
{
    if (open_socket(state) != 0)
        return -1;
    if (control_connect(&client, path, why, sizeof(why)) != CONTROL_PENDING)
        return -1;
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return server >= 0 ? 0 : -1;
}

const struct test_fixture test_fixture = {connect_both, close_socket};

static void answer(const char *text)
{
    assert_int_equal(send(server, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static enum control_result receive(const char **line)
{
    return control_receive(&client, 0, line, why, sizeof(why));
}

static void assert_received(const char *expected)
{
    char text[CONTROL_LINE_MAX + 1] = "";

    assert_int_equal(recv(server, text, sizeof(text) - 1, 0), strlen(expected));
    assert_string_equal(text, expected);
}

TEST(command_gets_reply)
{
    const char *line;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(control_send(&client, "threads 8", why, sizeof(why)), CONTROL_PENDING);
        assert_received("threads 8\n");
        assert_int_equal(receive(&line), CONTROL_PENDING);
        answer("{\"ok\":true}\n");
        assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_REPLY);
        assert_string_equal(line, "{\"ok\":true}");
    }
}

TEST(reply_in_pieces_is_joined)
{
    const char *line;

    assert_int_equal(control_send(&client, "ping", why, sizeof(why)), CONTROL_PENDING);
    answer("{\"ok\"");
    assert_int_equal(receive(&line), CONTROL_PENDING);
    answer(":true}");
    assert_int_equal(receive(&line), CONTROL_PENDING);
    answer("\n");
    assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_REPLY);
    assert_string_equal(line, "{\"ok\":true}");
}

/* A long reply is received; one that never ends fails. */
TEST(long_reply_is_received_endless_one_fails)
{
    enum { PIECE = 8192 };
    char piece[PIECE + 1];
    const char *line;
    size_t sent = 0;
    enum control_result result;

    memset(piece, 'x', PIECE);
    piece[PIECE] = '\0';
    assert_int_equal(control_send(&client, "status", why, sizeof(why)), CONTROL_PENDING);
    while (sent < CONTROL_REPLY_MAX / 2) {
        answer(piece);
        sent += PIECE;
        assert_int_equal(receive(&line), CONTROL_PENDING);
    }
    answer("\n");
    assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_REPLY);
    assert_int_equal(strlen(line), sent);

    assert_int_equal(control_send(&client, "status", why, sizeof(why)), CONTROL_PENDING);
    sent = 0;
    do {
        answer(piece);
        sent += PIECE;
        result = receive(&line);
    } while (result == CONTROL_PENDING && sent < 2 * CONTROL_REPLY_MAX);
    assert_int_equal(result, CONTROL_FAILED);
    assert_non_null(strstr(why, "longer"));
}

TEST(closed_connection_fails)
{
    const char *line;

    assert_int_equal(control_send(&client, "ping", why, sizeof(why)), CONTROL_PENDING);
    answer("{\"half\"");
    close(server);
    server = -1;
    assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_FAILED);
    assert_non_null(strstr(why, "closed"));
    assert_int_equal(control_send(&client, "ping", why, sizeof(why)), CONTROL_PENDING);
    assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_FAILED);
}

/* The server refuses a client before it has read a command. */
TEST(refusal_is_received)
{
    const char *line;

    answer("{\"ok\":false}\n");
    close(server);
    server = -1;
    assert_int_equal(control_send(&client, "ping", why, sizeof(why)), CONTROL_PENDING);
    assert_int_equal(control_receive(&client, 30000, &line, why, sizeof(why)), CONTROL_REPLY);
    assert_string_equal(line, "{\"ok\":false}");
}

TEST(invalid_line_is_not_sent)
{
    char line[CONTROL_LINE_MAX + 10];

    assert_int_equal(control_send(&client, "ping\nstop", why, sizeof(why)), CONTROL_FAILED);
    memset(line, 'a', sizeof(line));
    line[CONTROL_LINE_MAX - 1] = '\0'; /* one too long for newline and NUL */
    assert_int_equal(control_send(&client, line, why, sizeof(why)), CONTROL_FAILED);
    line[CONTROL_LINE_MAX - 2] = '\0';
    assert_int_equal(control_send(&client, line, why, sizeof(why)), CONTROL_PENDING);
}

TEST_WITH(missing_server_is_reported, open_socket, close_socket)
{
    close(listener);
    listener = -1;
    assert_int_equal(control_connect(&client, path, why, sizeof(why)), CONTROL_NO_DAEMON);
    assert_non_null(strstr(why, path));
    assert_int_equal(client.fd, -1);
    assert_int_equal(control_connect(&client, "/nowhere/at/all.sock", why, sizeof(why)),
                     CONTROL_NO_DAEMON);
}

enum { OTHER_USER = 65534 };

/* Root has every permission, so it plays another user. */
TEST_WITH(missing_permission_is_denied, open_socket, close_socket)
{
    bool root = geteuid() == 0;
    enum control_result result;

    assert_int_equal(chmod(path, 0), 0);
    if (root)
        assert_int_equal(seteuid(OTHER_USER), 0);
    result = control_connect(&client, path, why, sizeof(why));
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(result, CONTROL_DENIED);
    assert_non_null(strstr(why, "cannot connect to the control socket"));
    assert_non_null(strstr(why, root ? "Permission denied (needs root)" : "Permission denied ("));
    assert_int_equal(client.fd, -1);
}

/* Only root can play the other user. */
TEST_WITH(server_of_another_user_is_denied, open_socket, close_socket)
{
    if (geteuid() != 0)
        skip();
    close(listener);
    unlink(path);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(seteuid(OTHER_USER), 0); /* listen() records the user */
    assert_int_equal(listen_at_path(), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(control_connect(&client, path, why, sizeof(why)), CONTROL_DENIED);
    assert_non_null(strstr(why, path));
    assert_non_null(strstr(why, "(uid 65534), not to root, this user or the system service"));
    assert_int_equal(client.fd, -1);
}

TEST_WITH(long_path_is_rejected, open_socket, close_socket)
{
    char longer[INSTANCE_PATH_MAX + 1];

    memset(longer, '/', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(control_connect(&client, longer, why, sizeof(why)), CONTROL_NO_DAEMON);
    assert_non_null(strstr(why, "longer than"));
}

TEST(closing_twice_is_harmless)
{
    control_close(&client);
    control_close(&client);
    assert_int_equal(client.fd, -1);
}
