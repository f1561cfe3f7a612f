/*
 * Binary upgrade under load, UNIX sockets, and the service manager: socket activation and
 * notifications.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"
#include "tests/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void start_load(const struct server *server, struct load **load, bool each_connects)
{
    *load = load_start(&(struct load_plan){.port = server_port(server),
                                           .clients = 4,
                                           .each_connects = each_connects,
                                           .target = "/a",
                                           .body = "a",
                                           .body_length = 1});
}

static void upgrade_under_load(struct server *server, const char *dispatch, bool each_connects)
{
    struct segment_reader reader;
    struct load_result result;
    struct load *load;

    server_put_text(server, "/a", "a");
    server_start(server, dispatch, "workers.drain_timeout=1h", NULL);
    start_load(server, &load, each_connects);
    for (int i = 0; i < 3; i++) {
        load_pass(load, LOAD_STEP / 5);
        server_signal(server_pid(server), SIGUSR2);
        server_succeeded(server);
    }
    load_pass(load, LOAD_STEP / 5);
    server_attach(server, &reader);
    assert_int_equal(reader.map.header.master_pid, server_pid(server));
    segment_detach(&reader);
    result = load_finish(load);
    load_check(&result);
    server_do(server, "stop");
    server_stopped(server);
    assert_int_equal(log_count_lines(server), result.responses);
}

SERVER_TEST(upgrade_loses_no_request)
{
    upgrade_under_load(server, "workers.dispatch=kernel", false);
}

SERVER_TEST(upgrade_loses_no_connection)
{
    upgrade_under_load(server, "workers.dispatch=kernel", true);
}

SERVER_TEST(upgrade_with_dispatch_master_loses_no_request)
{
    upgrade_under_load(server, "workers.dispatch=master", true);
}

/* Sends a request. Returns true if the response closes the connection. */
static bool is_last_response(struct http_client *client)
{
    struct http_response response;
    const char *connection;
    bool last;

    http_send(client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_receive(client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.status, 200);
    connection = http_field(&response, "Connection");
    last = connection != NULL;
    if (last)
        assert_string_equal(connection, "close");
    http_response_free(&response);
    return last;
}

/* An idle connection is not closed at once: its next response is its last. */
SERVER_TEST(idle_connection_gets_one_more_response)
{
    struct http_client client;
    struct http_response response;
    pid_t before;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.drain_timeout=1h", "connections.keepalive_timeout=1h", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_receive(&client, HTTP_WITH_BODY, &response);
    assert_null(http_field(&response, "Connection"));
    http_response_free(&response);
    before = server_pid(server);
    server_signal(before, SIGUSR2);
    WAIT_UNTIL(server_has_printed(server, "this one shuts down"));
    WAIT_UNTIL(is_last_response(&client)); /* its worker may not have received the command yet */
    http_expect_closed(&client);
    http_close(&client);
    server_succeeded(server);
    server_stop(server);
}

static void set_program(const char *path, const char *target)
{
    char beside[SCRATCH_PATH_MAX + 8];

    snprintf(beside, sizeof(beside), "%s.next", path);
    assert_int_equal(symlink(target, beside), 0);
    assert_int_equal(rename(beside, path), 0);
}

SERVER_TEST(broken_binary_changes_nothing)
{
    char program[SCRATCH_PATH_MAX + 16], broken[SCRATCH_PATH_MAX + 16];
    struct load_result result;
    struct load *load;
    pid_t before;

    snprintf(program, sizeof(program), "%s/program", server_directory(server));
    snprintf(broken, sizeof(broken), "%s/broken", server_directory(server));
    scratch_write(broken, "#!/bin/sh\nexit 3\n", 17);
    assert_int_equal(chmod(broken, 0755), 0);
    set_program(program, WEBSERVERD_BINARY);
    server_use_program(server, program);
    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    before = server_pid(server);
    start_load(server, &load, true);
    set_program(program, broken);
    server_signal(before, SIGUSR2);
    WAIT_UNTIL(
        server_has_printed(server, "ended with status 3 before it served; this one continues"));
    set_program(program, "/nowhere/webserverd");
    server_rejects(server, "upgrade", "/program: No such file or directory");
    WAIT_UNTIL(
        server_has_printed(server, "ended with status 1 before it served; this one continues"));
    load_pass(load, LOAD_STEP / 10);
    server_do(server, "threads 3");
    assert_int_equal(server_pid(server), before);
    set_program(program, WEBSERVERD_BINARY);
    server_signal(before, SIGUSR2);
    server_succeeded(server);
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
}

/* The new master detects the bad configuration; the old one keeps serving. */
SERVER_TEST(failed_upgrade_leaves_nothing_behind)
{
    char path[SCRATCH_PATH_MAX + 80];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 2\n");
    server_start(server, NULL);
    server_write_config(server, "[workers]\nprocesses = many\n");
    server_rejects(server, "upgrade", "'many' is not a whole number");
    WAIT_UNTIL(server_has_printed(server, "upgrade failed: ") &&
               server_has_printed(server, "before it served; this one continues"));
    http_expect(server_port(server), "/a", 200);
    snprintf(path, sizeof(path), "%s.new", server_socket(server));
    assert_int_not_equal(access(path, F_OK), 0);
    server_write_config(server, "[workers]\nprocesses = 3\nmax_threads = 32\n");
    server_do(server, "upgrade"); /* also keys that a reload cannot change */
    server_succeeded(server);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

/* The new master cannot replace the old control socket. */
SERVER_TEST(failed_succession_is_an_error)
{
    char aside[SCRATCH_PATH_MAX + 80];

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    snprintf(aside, sizeof(aside), "%s.aside", server_socket(server));
    assert_int_equal(rename(server_socket(server), aside), 0);
    assert_int_equal(mkdir(server_socket(server), 0700), 0);
    server_signal(server_pid(server), SIGUSR2);
    WAIT_UNTIL(
        server_has_printed(server, "ended with status 1 before it served; this one continues"));
    assert_true(server_has_printed(server, "cannot take over from the old master: "));
    assert_int_equal(rmdir(server_socket(server)), 0);
    assert_int_equal(rename(aside, server_socket(server)), 0);
    http_expect(server_port(server), "/a", 200);
    server_do(server, "ping");
    server_signal(server_pid(server), SIGUSR2);
    server_succeeded(server);
    server_stop(server);
}

/* --- A stop during an upgrade --- */

static bool new_master_serves(const struct server *server)
{
    return server_has_printed(server, "serves: this one shuts down");
}

/* No new master is left to stop: it stops, too, or was never started. */
static bool upgrade_is_over(const struct server *server)
{
    return server_has_printed(server, "stops, too") ||
           server_has_printed(server, "upgrade rejected: the server is stopping");
}

/*
 * The new master may be anywhere in its start. If it serves already, only the old one is stopped,
 * which retires anyway.
 */
SERVER_TEST(stop_during_upgrade_stops_both_masters)
{
    enum { STOPS = 8, STEP_US = 2500 };
    static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

    for (int i = 0; i < 2 * STOPS; i++) {
        server_start(server, dispatches[i % 2], NULL);
        server_signal(server_pid(server), SIGUSR2);
        usleep((useconds_t)(i / 2 * STEP_US));
        server_signal(server_pid(server), SIGTERM);
        WAIT_UNTIL(upgrade_is_over(server) || new_master_serves(server));
        if (new_master_serves(server)) {
            server_succeeded(server);
            server_signal(server_pid(server), SIGTERM);
        }
        server_stopped(server);
        server_all_gone(server);
        server_clear_output(server);
    }
}

SERVER_TEST(stop_command_during_upgrade_stops_both_masters)
{
    json_t *reply;

    server_start(server, NULL);
    server_signal(server_pid(server), SIGUSR2);
    WAIT_UNTIL(server_has_printed(server, "upgrade: starting"));
    reply = server_control(server, "stop");
    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    server_all_gone(server);
    server_check_nothing_left(server);
}

/* An idle connection keeps the old master until the stop. */
SERVER_TEST(stop_of_new_master_stops_the_retiring_one)
{
    struct http_client client;
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.drain_timeout=1h", "connections.keepalive_timeout=1h", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_receive(&client, HTTP_WITH_BODY, &response);
    http_response_free(&response);
    server_signal(server_pid(server), SIGUSR2);
    WAIT_UNTIL(server_has_printed(server, "this one shuts down"));
    server_do(server, "stop");
    server_all_gone(server);
    server_check_nothing_left(server);
    http_close(&client);
}

/* Users of other servers send SIGUSR2, then SIGQUIT to the old master. */
SERVER_TEST(stop_of_retiring_master_is_not_a_second_stop)
{
    enum { LARGE = 64 * 1024 * 1024 };
    struct http_client client;
    struct http_response response;
    char *bytes = calloc(1, LARGE);
    pid_t before;

    assert_non_null(bytes);
    server_put(server, "/large", bytes, LARGE);
    server_start(server, "workers.drain_timeout=1h", "connections.send_timeout=1h", NULL);
    before = server_pid(server);
    http_open(&client, server_port(server));
    http_send(&client, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    server_expect_metric(server, "connections_busy", 1);
    server_signal(before, SIGUSR2);
    WAIT_UNTIL(server_has_printed(server, "this one shuts down"));
    server_signal(before, SIGQUIT);
    WAIT_UNTIL(server_count_printed(server, "stopping: finishing open requests") == 2);
    http_receive(&client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.body_length, LARGE);
    http_response_free(&response);
    http_close(&client);
    server_succeeded(server);
    server_stop(server);
    free(bytes);
}

/* --- UNIX sockets --- */

/* The new master reads the configuration from a FIFO, so that its start takes as long as the test wants. */
SERVER_TEST(reload_during_upgrade_is_in_force_after_it)
{
    static const char before[] = "[workers]\nprocesses = 1\n",
                      after[] = "[workers]\nprocesses = 3\n";
    char config[SCRATCH_PATH_MAX];
    pid_t workers[8];
    FILE *start;

    server_write_config(server, before);
    server_start(server, NULL);
    snprintf(config, sizeof(config), "%s", server_config_path(server));
    assert_int_equal(unlink(config), 0);
    assert_int_equal(mkfifo(config, 0600), 0);
    server_signal(server_pid(server), SIGUSR2);
    start = fopen(config, "w");
    assert_non_null(start);
    server_write_config(server, after);
    server_signal(server_pid(server), SIGHUP);
    WAIT_UNTIL(server_has_printed(server, "reload, by SIGHUP"));
    fprintf(start, "[server]\nroot = www\nlisten = 127.0.0.1:0\n%s", before);
    fclose(start);
    server_succeeded(server);
    WAIT_UNTIL(server_has_printed(server, "reload, requested from the old master"));
    WAIT_UNTIL(server_has_printed(server, "configuration reloaded, generation 2"));
    WAIT_UNTIL(server_workers(server, workers, 8) == 3);
    server_stop(server);
}

static void expect_over_unix(const char *path)
{
    static const char request[] = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[4096];
    size_t length = 0;
    ssize_t got;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
    while ((got = recv(fd, text + length, sizeof(text) - 1 - length, 0)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    assert_non_null(strstr(text, "HTTP/1.1 200 "));
    close(fd);
}

/*
 * The socket file exists while the server listens, through reload and upgrade; a stale one is
 * replaced.
 */
SERVER_TEST(unix_socket_is_served)
{
    char path[SCRATCH_PATH_MAX + 16], listening[2 * SCRATCH_PATH_MAX];

    snprintf(path, sizeof(path), "%s/site.sock", server_directory(server));
    snprintf(listening, sizeof(listening), "server.listen=127.0.0.1:0 unix:%s", path);
    server_put_text(server, "/a", "a");
    server_start(server, listening, NULL);
    expect_over_unix(path);
    http_expect(server_port(server), "/a", 200);
    server_do(server, "reload");
    expect_over_unix(path);
    server_signal(server_pid(server), SIGUSR2);
    server_succeeded(server);
    expect_over_unix(path);
    server_signal(server_pid(server), SIGKILL);
    server_all_gone(server);
    assert_int_equal(access(path, F_OK), 0);
    server_start(server, listening, NULL);
    expect_over_unix(path);
    server_stop(server);
    assert_int_not_equal(access(path, F_OK), 0);
}

SERVER_TEST(reload_adds_and_removes_unix_socket)
{
    char path[SCRATCH_PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/site.sock", server_directory(server));
    server_put_text(server, "/a", "a");
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0\n");
    server_start(server, NULL);
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0 unix:%s\n", path);
    server_do(server, "reload");
    expect_over_unix(path);
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0 unix:%s/www\n",
                        server_directory(server));
    server_rejects(server, "reload", "the file exists and is not a socket");
    expect_over_unix(path);
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0\n");
    server_do(server, "reload");
    assert_int_not_equal(access(path, F_OK), 0);
    server_stop(server);
}

/* --- The service manager --- */

static int listen_somewhere(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Inherited sockets replace server.listen and survive reload and upgrade. */
SERVER_TEST(inherited_sockets_are_served)
{
    enum { HANDED = 9 }; /* a descriptor number that the shell can name */
    static const char *const shell[] = {
        "/bin/sh", "-c", "exec 3<&9; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh", NULL};
    static const char *const options[] = {"workers.processes=2", NULL};
    struct load_result result;
    struct load *load;
    uint16_t port;
    int fd = listen_somewhere(&port);

    assert_int_equal(dup2(fd, HANDED), HANDED);
    server_put_text(server, "/a", "a");
    server_start_under(server, shell, options);
    assert_int_equal(server_port(server), port);
    start_load(server, &load, true);
    load_pass(load, LOAD_STEP / 10);
    server_do(server, "reload");
    server_do(server, "workers 3");
    load_pass(load, LOAD_STEP / 10);
    server_signal(server_pid(server), SIGUSR2);
    server_succeeded(server);
    load_pass(load, LOAD_STEP / 10);
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
    close(HANDED);
    close(fd);
}

/* Waits for a notification that contains WORDS; none before it contains BARRED, if not NULL. */
static void expect_notice_before(int fd, const char *words, const char *barred)
{
    char text[1024];

    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&wait, 1, PATIENCE_S * 1000) != 1)
            fail_msg("was not told: %s", words);
        got = recv(fd, text, sizeof(text) - 1, 0);
        assert_true(got > 0);
        text[got] = '\0';
        if (strstr(text, words) != NULL)
            return;
        if (barred != NULL && strstr(text, barred) != NULL)
            fail_msg("too early: %s", text);
    }
}

static void expect_notice(int fd, const char *words)
{
    expect_notice_before(fd, words, NULL);
}

SERVER_TEST(service_manager_is_notified)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    char words[64];

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", server_directory(server));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    setenv("WATCHDOG_USEC", "10000000", 1);
    server_start(server, NULL);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    expect_notice(fd, "READY=1");
    expect_notice(fd, "WATCHDOG=1");
    server_do(server, "reload");
    expect_notice(fd, "RELOADING=1");
    expect_notice(fd, "READY=1");
    server_signal(server_pid(server), SIGUSR2);
    server_succeeded(server);
    snprintf(words, sizeof(words), "MAINPID=%d", server_pid(server));
    expect_notice_before(fd, words, "READY=1");
    expect_notice(fd, "WATCHDOG=1");
    server_do(server, "stop");
    expect_notice(fd, "STOPPING=1");
    server_stopped(server);
    close(fd);
}
