/*
 * Connections: persistence, order of responses, and close (RFC 9112 section 9).
 */
#include "held_thread.h"
#include "http_client.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GET(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"

enum { LARGE = 2 * 1024 * 1024, PIPELINED = 50 };

static char large[LARGE];

static void put_large(const struct server *server)
{
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 31 + i / 251);
    server_put(server, "/large.bin", large, LARGE);
}

/* --- Keep-alive --- */

SERVER_TEST(keepalive_off_closes_after_each_response)
{
    struct http_client client;
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.keepalive=off", NULL);
    http_open(&client, server_port(server));
    http_send(&client, GET("/a"));
    http_receive(&client, HTTP_WITH_BODY, &response);
    assert_string_equal(http_field(&response, "Connection"), "close");
    http_response_free(&response);
    http_expect_closed(&client);
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(connection_closes_after_keepalive_requests)
{
    struct http_client client;
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.keepalive_requests=3", NULL);
    http_open(&client, server_port(server));
    http_send(&client, GET("/a") GET("/a") GET("/a") GET("/a"));
    http_expect_response(&client, 200, "a");
    http_expect_response(&client, 200, "a");
    http_receive(&client, HTTP_WITH_BODY, &response);
    assert_string_equal(http_field(&response, "Connection"), "close");
    http_response_free(&response);
    http_expect_closed(&client);
    http_close(&client);
    server_stop(server);
}

/*
 * The allowed requests fill one read of the server exactly, so that it has not read the following
 * requests when it closes the connection. If it leaves them unread, the kernel resets the
 * connection before the client has read the responses.
 */
SERVER_TEST(pipeline_beyond_last_allowed_request_is_not_reset)
{
    enum { ALLOWED = 1024, SENT = 2400 };
    static const char request[] =
        "GET /a HTTP/1.1\r\nHost: h\r\nX: 0123456789012345678901234567890\r\n\r\n"; /* 64 bytes */
    struct http_client client;
    struct http_response response;
    size_t length = sizeof(request) - 1;
    char *requests = malloc(SENT * length);
    pid_t worker;

    assert_non_null(requests);
    for (size_t i = 0; i < SENT; i++)
        memcpy(requests + i * length, request, length);
    server_put_text(server, "/a", "a");
    server_start(server, "connections.keepalive_requests=1024", "workers.processes=1", NULL);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    http_open(&client, server_port(server));
    server_expect_metric(server, "connections_open", 1);
    server_signal(worker, SIGSTOP); /* all bytes are in the socket when the server reads */
    http_say_bytes(&client, requests, SENT * length);
    server_signal(worker, SIGCONT);
    for (int i = 1; i <= ALLOWED; i++) {
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_int_equal(response.status, 200);
        assert_int_equal(http_field(&response, "Connection") != NULL, i == ALLOWED);
        http_response_free(&response);
    }
    http_expect_closed(&client);
    http_close(&client);
    free(requests);
    server_expect_metric(server, "requests", ALLOWED);
    server_stop(server);
}

/* --- Order --- */

SERVER_TEST(pipelined_requests_are_answered_in_order)
{
    struct http_client client;
    char requests[PIPELINED * 64] = "", body[16];
    struct http_response response;

    put_large(server);
    for (int i = 0; i < PIPELINED; i++) {
        char path[16];

        snprintf(path, sizeof(path), "/%d", i);
        snprintf(body, sizeof(body), "body %d", i);
        server_put_text(server, path, body);
        sprintf(requests + strlen(requests), GET("%s"),
                i % 10 == 7   ? "/absent"
                : i % 10 == 3 ? "/large.bin"
                              : path);
    }
    server_start(server, NULL);
    http_open(&client, server_port(server));
    http_send(&client, requests);
    for (int i = 0; i < PIPELINED; i++) {
        http_receive(&client, HTTP_WITH_BODY, &response);
        snprintf(body, sizeof(body), "body %d", i);
        assert_int_equal(response.status, i % 10 == 7 ? 404 : 200);
        if (i % 10 == 3) {
            assert_int_equal(response.body_length, LARGE);
            assert_memory_equal(response.body, large, LARGE);
        } else if (i % 10 != 7) {
            assert_string_equal(response.body, body);
        }
        http_response_free(&response);
    }
    http_close(&client);
    server_expect_metric(server, "requests", PIPELINED);
    server_stop(server);
}

SERVER_TEST(half_closed_client_is_answered)
{
    struct http_client client;

    put_large(server);
    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    http_open(&client, server_port(server));
    http_send(&client, GET("/a") GET("/large.bin") GET("/a"));
    shutdown(client.fd, SHUT_WR);
    http_expect_response(&client, 200, "a");
    http_expect_response(&client, 200, NULL);
    http_expect_response(&client, 200, "a");
    http_expect_closed(&client);
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(silent_or_partial_requests_are_harmless)
{
    static const char *const words[] = {"", "G", "GET /a HTTP/1.1\r\nHos", "\r\n"};

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        struct http_client client;

        http_open(&client, server_port(server));
        http_send(&client, words[i]);
        shutdown(client.fd, SHUT_WR);
        http_expect_closed(&client);
        http_close(&client);
    }
    http_expect(server_port(server), "/a", 200);
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "requests", 1);
    server_stop(server);
}

/* --- Bodies and errors --- */

/*
 * The client sends the whole body before it reads the response. The server stops reading a body
 * over the limit; an immediate close would then reset the connection and lose the response.
 */
SERVER_TEST(response_to_request_with_body_is_not_lost)
{
    static const struct {
        const char *head;
        size_t body; /* bytes sent after the head */
        int status;
    } cases[] = {
        {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", 10, 405},
        {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n", LARGE / 2, 405},
        {"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n", LARGE / 2, 200},
        {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n", LARGE, 413},
        {"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\n", LARGE, 413},
        {"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n", LARGE, 413},
    };

    server_put_text(server, "/a", "a");
    server_put_text(server, "/errors/413.html", "our 413");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_client client;
        struct http_response response;
        bool refused = cases[i].status == 413;

        http_open(&client, server_port(server));
        http_send(&client, cases[i].head);
        http_say_bytes(&client, large, cases[i].body);
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_int_equal(response.status, cases[i].status);
        assert_int_equal(http_field(&response, "Connection") != NULL, refused);
        if (refused)
            assert_string_equal(response.body, "our 413");
        http_response_free(&response);
        if (refused) {
            http_expect_closed(&client);
        } else {
            http_send(&client, GET("/a"));
            http_expect_response(&client, 200, "a");
        }
        http_close(&client);
    }
    server_expect_metric(server, "requests", ARRAY_LENGTH(cases) + 3);
    server_stop(server);
}

/* Many bodies, larger than one read, sent at once: each request must start at the right byte. */
SERVER_TEST(pipelined_requests_with_bodies_are_answered_in_order)
{
    enum { COUNT = 20, BODY = 100 * 1000 };
    static const char *const heads[] = {
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n186a0;x=y\r\n",
    };
    struct http_client client;

    server_put_text(server, "/a", "a");
    put_large(server);
    server_start(server, NULL);
    http_open(&client, server_port(server));
    for (int i = 0; i < COUNT; i++) {
        http_send(&client, heads[i % 2]);
        http_say_bytes(&client, large + i, BODY);
        http_send(&client, i % 2 == 1 ? "\r\n0\r\nTrailer: x\r\n\r\n" GET("/a") : GET("/a"));
    }
    for (int i = 0; i < COUNT; i++) {
        http_expect_response(&client, i % 2 == 0 ? 200 : 405, i % 2 == 0 ? "a" : NULL);
        http_expect_response(&client, 200, "a");
    }
    http_close(&client);
    server_expect_metric(server, "requests", 2 * COUNT);
    server_stop(server);
}

/*
 * The error page may have to be loaded by an offload thread. The error closes the connection, but
 * only after that. A new server has no page in its cache.
 */
SERVER_TEST(error_that_waits_for_its_page_is_sent)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", 405},
        {"GET /absent HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;
        char option[32];

        snprintf(option, sizeof(option), "files.error_pages=/unseen%zu", i);
        server_start(server, option, NULL);
        http_request(server_port(server), cases[i].request, &response);
        assert_int_equal(response.status, cases[i].status);
        http_response_free(&response);
        server_stop(server);
    }
}

/* --- Timeouts --- */

/*
 * Opens a connection and uses it. Returns false, and closes it, if its timeout ended before the
 * request arrived.
 */
static bool is_used_in_time(struct http_client *client, uint16_t port)
{
    http_open(client, port);
    send(client->fd, GET("/a"), strlen(GET("/a")), MSG_NOSIGNAL);
    if (TEMP_FAILURE_RETRY(recv(client->fd, &(char){0}, 1, MSG_PEEK)) == 1)
        return true;
    http_close(client);
    return false;
}

SERVER_TEST(idle_connection_is_closed_at_timeout)
{
    struct http_client fresh, used;
    uint64_t closed = 2;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.keepalive_timeout=1s", NULL);
    http_open(&fresh, server_port(server));
    while (!is_used_in_time(&used, server_port(server)))
        closed++;
    http_expect_response(&used, 200, "a");
    http_expect_closed(&fresh);
    http_expect_closed(&used);
    http_close(&fresh);
    http_close(&used);
    server_expect_metric(server, "connections_timed_out", closed);
    server_expect_metric(server, "requests", 1);
    server_stop(server);
}

/* If the request line is complete, it is logged and decides whether the response has a body. */
SERVER_TEST(slow_head_is_408)
{
    static const struct {
        const char *head, *logged;
        enum http_body body;
    } cases[] = {
        {"GET /a HTTP/1.1\r\nHos", "\"GET /a HTTP/1.1\" 408 ", HTTP_WITH_BODY},
        {"HEAD /b HTTP/1.1\r\n", "\"HEAD /b HTTP/1.1\" 408 0 ", HTTP_HEAD_ONLY},
        {"GET /c HT", "\"-\" 408 ", HTTP_WITH_BODY},
    };

    server_put_text(server, "/a", "a");
    server_start(server, "connections.header_timeout=1s", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_client client;
        struct http_response response;
        char *log;

        http_open(&client, server_port(server));
        http_send(&client, GET("/a"));
        http_send(&client, cases[i].head);
        http_expect_response(&client, 200, "a");
        http_receive(&client, cases[i].body, &response);
        assert_int_equal(response.status, 408);
        assert_string_equal(http_field(&response, "Connection"), "close");
        http_response_free(&response);
        http_expect_closed(&client);
        http_close(&client);
        log = log_with_lines(server, 2 * (i + 1));
        if (strstr(log, cases[i].logged) == NULL)
            fail_msg("not in the log: %s\n%s", cases[i].logged, log);
        free(log);
    }
    server_expect_metric(server, "connections_timed_out", ARRAY_LENGTH(cases));
    server_stop(server);
}

/* The body arrives with the head, so no 100 is needed. */
SERVER_TEST(no_100_if_body_is_already_received)
{
    struct http_client client;

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    http_open(&client, server_port(server));
    http_send(&client,
              "GET /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
              "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: "
              "chunked\r\n\r\n0\r\n\r\n");
    http_expect_response(&client, 200, "a");
    http_expect_response(&client, 405, NULL);
    http_send(&client, GET("/a"));
    http_expect_response(&client, 200, "a");
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(slow_body_is_408)
{
    static const char *const beginnings[] = {
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123456789",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX",
    };
    struct http_client client;
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.body_timeout=1s", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(beginnings); i++) {
        http_open(&client, server_port(server));
        http_send(&client, GET("/a"));
        http_send(&client, beginnings[i]);
        http_expect_response(&client, 200, "a");
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_int_equal(response.status, 408);
        assert_string_equal(http_field(&response, "Connection"), "close");
        http_response_free(&response);
        http_expect_closed(&client);
        http_close(&client);
    }
    server_expect_metric(server, "connections_timed_out", ARRAY_LENGTH(beginnings));
    server_expect_metric(server, "requests", 2 * ARRAY_LENGTH(beginnings));
    server_stop(server);
}

/* Half of each body arrives while one thread has the connection, the rest while another has it. */
SERVER_TEST(body_survives_move_to_another_thread)
{
    enum { CLIENTS = 8 };
    static const char first[] =
        GET("/a") "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\na;x=\"y";
    static const char second[] = "\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n"
                                 "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    struct http_client clients[CLIENTS];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=1", "workers.threads=4", NULL);
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&clients[i], server_port(server));
        http_send(&clients[i], first);
        http_expect_response(&clients[i], 200, "a");
    }
    server_do(server, "threads 1");
    for (int i = 0; i < CLIENTS; i++) /* in the model pool, any of them may have the thread */
        http_send(&clients[i], second);
    for (int i = 0; i < CLIENTS; i++) {
        http_expect_response(&clients[i], 405, NULL);
        http_expect_response(&clients[i], 200, "a");
        http_close(&clients[i]);
    }
    server_expect_metric(server, "requests", 3 * CLIENTS);
    server_stop(server);
}

/* Close and reset: neither gets an response or a line in the error log. */
SERVER_TEST(disconnect_within_body_is_harmless)
{
    static const struct linger reset = {.l_onoff = 1};
    struct http_client client;
    char *before, *after;

    server_put_text(server, "/a", "a");
    server_start(server, "log.level=warn", NULL);
    before = server_output(server);
    for (int i = 0; i < 2; i++) {
        http_open(&client, server_port(server));
        http_send(&client,
                  GET("/a") "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
        http_expect_response(&client, 200, "a");
        if (i == 1)
            setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        http_close(&client);
    }
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "connections_reset", 1);
    server_expect_metric(server, "requests", 2);
    after = server_output(server);
    assert_string_equal(after, before);
    free(before);
    free(after);
    server_stop(server);
}

/*
 * A server ignores empty lines before a request (RFC 9112 section 2.2): they do not start the
 * header timeout. A head that begins after such lines must not time out early. One thread serves
 * all connections.
 */
SERVER_TEST(empty_lines_do_not_start_header_timeout)
{
    static const char *const words[] = {"\r\n", "\r\n\r\n", GET("/a") "\r\n"};
    struct http_client idle[ARRAY_LENGTH(words)], late;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.header_timeout=1s", "connections.keepalive_timeout=1h",
                 "workers.processes=1", "workers.threads=1", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        http_open(&idle[i], server_port(server));
        http_send(&idle[i], GET("/a"));
        http_expect_response(&idle[i], 200, "a");
        http_send(&idle[i], words[i]);
        if (words[i][0] == 'G')
            http_expect_response(&idle[i], 200, "a");
    }
    http_open(&late, server_port(server));
    http_send(&late, GET("/a"));
    http_expect_response(&late, 200, "a");
    http_send(&late, "GET /a");
    http_expect_response(&late, 408, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        http_send(&idle[i], GET("/a"));
        http_expect_response(&idle[i], 200, "a");
        http_close(&idle[i]);
    }
    http_close(&late);
    server_expect_metric(server, "connections_timed_out", 1);
    server_stop(server);
}

/* The timeout covers the whole head; further bytes do not extend it. */
SERVER_TEST(slow_bytes_do_not_extend_header_timeout)
{
    struct http_client client;

    server_start(server, "connections.header_timeout=1s", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "GET / HTTP/1.1\r\nX: ");
    WAIT_UNTIL(send(client.fd, "x", 1, MSG_NOSIGNAL) != 1 ||
               recv(client.fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
    http_expect_response(&client, 408, NULL);
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(client_that_does_not_read_is_closed_at_timeout)
{
    enum { RESPONSES = 16 }; /* larger than the socket buffers */
    struct http_client client;

    put_large(server);
    server_start(server, "connections.send_timeout=1s", NULL);
    http_open(&client, server_port(server));
    for (int i = 0; i < RESPONSES; i++)
        http_send(&client, GET("/large.bin"));
    server_expect_metric(server, "connections_timed_out", 1);
    http_read_to_end(&client);
    http_close(&client);
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "responses_cut_short", 1);
    assert_true(server_metric(server, "requests") < RESPONSES);
    server_stop(server);
}

/*
 * Reads responses slowly, but more than nothing in each send_timeout, until the server closes the
 * connection. Returns whether it was closed as too slow: if this process had no time to read, it was
 * closed because the client read nothing.
 */
static bool is_closed_as_too_slow(const struct server *server, uint64_t tries)
{
    enum { RESPONSES = 16, STEP_BYTES = 8 * 1024, STEP_MS = 10 };
    static char bytes[STEP_BYTES];
    struct http_client client;
    bool too_slow;

    http_open(&client, server_port(server));
    for (int i = 0; i < RESPONSES; i++)
        http_send(&client, GET("/large.bin"));
    while (server_metric(server, "connections_timed_out") < tries &&
           TEMP_FAILURE_RETRY(recv(client.fd, bytes, sizeof(bytes), 0)) > 0)
        usleep(STEP_MS * 1000);
    server_expect_metric(server, "connections_open", 0);
    too_slow = server_metric(server, "connections_too_slow") == 1;
    http_close(&client);
    return too_slow;
}

SERVER_TEST(client_that_reads_too_slowly_is_closed)
{
    uint64_t tries = 0;

    put_large(server);
    server_start(server, "connections.send_timeout=1s", "connections.min_send_rate=1G", NULL);
    WAIT_UNTIL(is_closed_as_too_slow(server, ++tries));
    server_expect_metric(server, "connections_timed_out", tries);
    server_stop(server);
}

SERVER_TEST(disconnect_within_response_is_harmless)
{
    const struct linger reset = {.l_onoff = 1};

    put_large(server);
    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    for (int i = 0; i < 8; i++) {
        struct http_client client;

        http_open(&client, server_port(server));
        http_send(&client, GET("/large.bin") GET("/large.bin") GET("/large.bin") GET("/large.bin"));
        assert_int_equal(TEMP_FAILURE_RETRY(recv(client.fd, &(char){0}, 1, 0)), 1);
        setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        http_close(&client);
    }
    http_expect(server_port(server), "/a", 200);
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "connections_busy", 0);
    server_stop(server);
}

enum { WAITING = 6 };

/*
 * Connects clients that send a request to a worker whose only thread is stopped, and may have one new
 * connection in its mailbox. Returns the thread.
 */
static pid_t connect_to_a_full_mailbox(struct server *server, struct http_client *clients,
                                       pid_t *worker)
{
    pid_t thread;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.dispatch=master", "workers.processes=1", "workers.threads=1",
                 "workers.connection_queue=1", "workers.heartbeat_timeout=0", NULL);
    assert_int_equal(server_workers(server, worker, 1), 1);
    thread = held_thread_find(*worker);
    if (!held_thread_stop(thread))
        skip();
    for (int i = 0; i < WAITING; i++) {
        http_open(&clients[i], server_port(server));
        http_send(&clients[i], GET("/a"));
    }
    server_expect_metric(server, "connections_dispatched", WAITING);
    return thread;
}

static void expect_all_responses(struct server *server, struct http_client *clients)
{
    for (int i = 0; i < WAITING; i++) {
        http_expect_response(&clients[i], 200, "a");
        http_close(&clients[i]);
    }
    server_expect_metric(server, "requests", WAITING);
    server_stop(server);
}

SERVER_TEST(connections_wait_for_room_in_the_mailbox)
{
    struct http_client clients[WAITING];
    pid_t worker, thread = connect_to_a_full_mailbox(server, clients, &worker);
    json_t *answer = server_control(server, "queue 3");

    if (strcmp(json_string_value(json_object_get(answer, "model")), "events") == 0)
        WAIT_UNTIL(server_metric(server, "connections_queued") == 3);
    json_decref(answer);
    held_thread_release(thread);
    expect_all_responses(server, clients);
}

SERVER_TEST(connections_that_wait_are_not_lost_in_a_reload)
{
    struct http_client clients[WAITING];
    pid_t worker, other, thread = connect_to_a_full_mailbox(server, clients, &worker);

    server_signal(server_pid(server), SIGHUP);
    WAIT_UNTIL(server_workers(server, &other, 1) == 1 && other != worker);
    held_thread_release(thread);
    expect_all_responses(server, clients);
}
