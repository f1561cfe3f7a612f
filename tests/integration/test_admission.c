/*
 * Admission: the rate limit by client address, shared by all workers; the maximum of connections in
 * total and per address; keep-alive limits.
 */
#include "http_client.h"
#include "server.h"

#include "common/macros.h"
#include "common/segment_reader.h"

#include "patience.h"
#include "tests/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct test_fixture test_fixture = {server_set_up, server_tear_down};

static int status_of(const struct server *server, const char *request, char *retry, size_t size)
{
    struct http_response response;
    int status;

    http_request(server_port(server), request, &response);
    status = response.status;
    if (retry != NULL)
        snprintf(retry, size, "%s",
                 http_field(&response, "Retry-After") != NULL ? http_field(&response, "Retry-After")
                                                              : "none");
    http_response_free(&response);
    return status;
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"
#define BEGUN       "GET /a HTTP/1.1\r\n"

/* The test is too short for a refill, because the rate is one per second. */
SERVER_TEST(client_over_rate_limit_gets_429)
{
    char retry[32];
    int limited = 0;

    server_put_text(server, "/a", "a");
    server_put_text(server, "/errors/429.html", "slower, please");
    server_start(server, "workers.processes=2", "workers.threads=2", "ratelimit.enabled=on",
                 "ratelimit.requests_per_second=1", "ratelimit.burst=20", NULL);
    for (int i = 0; i < 60; i++) {
        int status = status_of(server, i % 3 == 0 ? GET("/a") : GET("/none"), retry, sizeof(retry));

        if (status == 429) {
            limited++;
            assert_string_equal(retry, "1");
        } else {
            assert_int_equal(status, i % 3 == 0 ? 200 : 404);
        }
    }
    assert_in_range(limited, 1, 40); /* a burst of 20, and one more per elapsed second */
    server_expect_metric(server, "requests_limited", (uint64_t)limited);
    server_stop(server);
}

/* More requests pass if the test takes longer than a second. */
SERVER_TEST(rate_limit_sends_error_page_and_keeps_connection)
{
    struct http_client client;
    struct http_response response;
    int limited = 0;

    server_put_text(server, "/errors/429.html", "slower, please");
    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", NULL);
    http_open(&client, server_port(server));
    http_send(&client, GET("/"));
    http_expect_response(&client, 403, NULL);
    while (limited < 3) {
        http_send(&client, GET("/"));
        http_receive(&client, HTTP_WITH_BODY, &response);
        if (response.status != 403) {
            assert_int_equal(response.status, 429);
            assert_string_equal(response.body, "slower, please");
            limited++;
        }
        assert_null(http_field(&response, "Connection"));
        http_response_free(&response);
    }
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(exempt_client_has_no_rate_limit)
{
    server_put_text(server, "/a", "a");
    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", "ratelimit.exempt=192.0.2.0/24 127.0.0.0/8", NULL);
    for (int i = 0; i < 30; i++)
        assert_int_equal(status_of(server, GET("/a"), NULL, 0), 200);
    assert_int_equal(server_metric(server, "requests_limited"), 0);
    server_stop(server);
}

SERVER_TEST(rate_limited_clients_are_published)
{
    struct segment_reader reader;
    uint64_t rejected = 0;

    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", NULL);
    while (status_of(server, GET("/"), NULL, 0) != 429)
        continue;
    server_attach(server, &reader);
    assert_int_equal(segment_rate(&reader.map)->burst, 1);
    for (uint32_t i = 0; i < segment_count(&reader.map, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++) {
            const struct segment_rate_entry *entry =
                &segment_rate_bucket(&reader.map, i)->entry[way];

            if (entry->key == UINT64_C(0xffff7f000001))
                rejected += entry->rejected;
        }
    assert_true(rejected >= 1);
    segment_detach(&reader);
    server_stop(server);
}

/* Opens connections and sends one request on each. */
static void open_many(const struct server *server, struct http_client *clients, int count)
{
    for (int i = 0; i < count; i++) {
        http_open(&clients[i], server_port(server));
        http_send(&clients[i], GET("/a"));
        http_expect_response(&clients[i], 200, NULL);
    }
}

/* True if the connection has bytes or EOF to read. */
static bool has_something(const struct http_client *client)
{
    struct pollfd wait = {.fd = client->fd, .events = POLLIN};

    return poll(&wait, 1, 0) != 0;
}

/* Begins another request on each connection, so that it is not idle. */
static void make_busy(const struct server *server, struct http_client *clients, int count)
{
    uint64_t received = server_metric(server, "bytes_received");

    for (int i = 0; i < count; i++)
        http_send(&clients[i], BEGUN);
    server_expect_metric(server, "bytes_received", received + (uint64_t)count * strlen(BEGUN));
}

static void try_most(struct server *server, const char *dispatch)
{
    struct http_client clients[6];

    server_put_text(server, "/a", "a");
    server_start(server, "connections.max=5", "connections.header_timeout=1h",
                 "workers.processes=1", "workers.threads=2", dispatch, NULL);
    open_many(server, clients, 5);
    make_busy(server, clients, 5);
    http_open(&clients[5], server_port(server)); /* in the accept queue */
    http_send(&clients[5], GET("/a") BEGUN);     /* a late order to close idle ones finds none */
    if (strstr(dispatch, "kernel") != NULL)
        WAIT_UNTIL(server_metric(server, "accept_pauses") > 0);
    assert_false(has_something(&clients[5]));
    server_expect_metric(server, "connections_open", 5);
    http_close(&clients[2]);
    http_expect_response(&clients[5], 200, NULL);
    assert_int_equal(server_metric(server, "connections_shed_max"), 0);
    for (int i = 0; i < 6; i++)
        if (i != 2)
            http_close(&clients[i]);
    server_stop(server);
}

SERVER_TEST(connections_over_the_maximum_wait)
{
    try_most(server, "workers.dispatch=kernel");
}

SERVER_TEST(connections_over_the_maximum_wait_with_dispatch_master)
{
    try_most(server, "workers.dispatch=master");
}

/* Two more connections than allowed; all others are idle. */
static void try_idle(struct server *server, const char *dispatch, const char *processes)
{
    enum { MAX = 6, MORE = 2 };
    struct http_client clients[MAX + MORE];
    struct segment_reader reader;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.max=6", processes, "workers.threads=2", dispatch, NULL);
    server_attach(server, &reader);
    open_many(server, clients, MAX + MORE);
    /* Two workers may close one for the same new connection. */
    WAIT_UNTIL(server_metric(server, "connections_shed_max") >= MORE);
    WAIT_UNTIL(server_metric(server, "connections_open") <= MAX);
    assert_true(server_metric(server, "connections_shed_max") <= 2 * MORE);
    assert_in_range(server_count_events(&reader, "connections.max is reached"), 1, 3);
    for (int i = 0; i < MAX + MORE; i++)
        http_close(&clients[i]);
    segment_detach(&reader);
    server_stop(server);
}

SERVER_TEST(idle_connections_are_closed_for_new_ones_at_the_maximum)
{
    try_idle(server, "workers.dispatch=kernel", "workers.processes=1");
}

SERVER_TEST(idle_connections_of_all_workers_are_closed_at_the_maximum)
{
    try_idle(server, "workers.dispatch=kernel", "workers.processes=3");
}

SERVER_TEST(idle_connections_are_closed_at_the_maximum_with_dispatch_master)
{
    try_idle(server, "workers.dispatch=master", "workers.processes=3");
}

static void an_address_has_so_many_connections(void **state, const char *dispatch)
{
    struct server *server = *state;
    struct http_client clients[4];
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.max_per_ip=4", "workers.processes=1", "workers.threads=2",
                 "headers.X-All=yes", "headers.Cache-Control=max-age=300", dispatch, NULL);
    open_many(server, clients, 4);
    http_request(server_port(server), GET("/a"), &response);
    assert_int_equal(response.status, 503);
    assert_string_equal(http_field(&response, "Retry-After"), "1");
    assert_string_equal(http_field(&response, "Connection"), "close");
    assert_string_equal(http_field(&response, "X-All"), "yes");
    assert_string_equal(http_field(&response, "Cache-Control"), "no-store");
    http_response_free(&response);
    server_expect_metric(server, "connections_rejected", 1);
    http_close(&clients[1]);
    WAIT_UNTIL(status_of(server, GET("/a"), NULL, 0) == 200); /* wait until the server notices */
    for (int i = 0; i < 4; i++)
        if (i != 1)
            http_close(&clients[i]);
    server_stop(server);
}

TEST(connections_over_max_per_ip_get_503)
{
    an_address_has_so_many_connections(state, "workers.dispatch=kernel");
}

TEST(connections_over_max_per_ip_get_503_with_dispatch_master)
{
    an_address_has_so_many_connections(state, "workers.dispatch=master");
}

/* A connection that moves to another worker stays counted and is not rejected. */
SERVER_TEST(connection_count_moves_with_connections)
{
    struct http_client clients[6];

    server_put_text(server, "/a", "a");
    server_start(server, "connections.max_per_ip=6", "workers.processes=3", NULL);
    open_many(server, clients, 6);
    server_do(server, "workers 1");
    server_expect_metric(server, "connections_open", 6);
    for (int i = 0; i < 6; i++) {
        http_send(&clients[i], GET("/a"));
        http_expect_response(&clients[i], 200, NULL);
    }
    assert_int_equal(status_of(server, GET("/a"), NULL, 0), 503);
    for (int i = 0; i < 6; i++)
        http_close(&clients[i]);
    server_stop(server);
}

/* Sends another request on an open connection. Returns true if the response closes it. */
static bool is_its_last(struct http_client *client)
{
    struct http_response response;
    bool last;

    http_send(client, GET("/a"));
    http_receive(client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.status, 200);
    last = http_field(&response, "Connection") != NULL;
    http_response_free(&response);
    return last;
}

/* A reload closes no connection at once. Excess connections close after their next response. */
SERVER_TEST(lower_max_per_ip_applies_to_open_connections)
{
    enum { OPEN = 6, MOST = 2 };
    struct http_client clients[OPEN];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[connections]\nmax = %d\n", 2 * OPEN);
    server_start(server, "workers.processes=1", NULL);
    open_many(server, clients, OPEN);
    server_write_config(server, "[connections]\nmax_per_ip = %d\n", MOST);
    server_do(server, "reload");
    server_expect_metric(server, "connections_open", OPEN);
    for (int i = 0; i < OPEN - MOST; i++) {
        assert_true(is_its_last(&clients[i]));
        http_close(&clients[i]);
        server_expect_metric(server, "connections_open", (uint64_t)(OPEN - 1 - i));
    }
    for (int round = 0; round < 2; round++)
        for (int i = OPEN - MOST; i < OPEN; i++)
            assert_false(is_its_last(&clients[i]));
    for (int i = OPEN - MOST; i < OPEN; i++)
        http_close(&clients[i]);
    server_stop(server);
}

/* After a reload with a lower maximum, idle connections are closed. */
SERVER_TEST(lower_max_closes_idle_connections)
{
    enum { OPEN = 6, MOST = 2 };
    struct http_client clients[OPEN];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[connections]\nmax = %d\n", 2 * OPEN);
    server_start(server, NULL);
    open_many(server, clients, OPEN);
    server_write_config(server, "[connections]\nmax = %d\n", MOST);
    server_do(server, "reload");
    server_expect_metric(server, "connections_shed_max", OPEN - MOST);
    server_expect_metric(server, "connections_open", MOST);
    for (int i = 0; i < OPEN; i++)
        http_close(&clients[i]);
    server_stop(server);
}

/* Connections of a killed worker are no longer counted. */
SERVER_TEST(killed_worker_releases_its_connection_counts)
{
    struct http_client clients[3];
    pid_t worker;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.max_per_ip=3", "workers.processes=1", NULL);
    open_many(server, clients, 3);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    server_signal(worker, SIGKILL);
    for (int i = 0; i < 3; i++)
        http_read_to_end(&clients[i]);
    WAIT_UNTIL(status_of(server, GET("/a"), NULL, 0) == 200);
    for (int i = 0; i < 3; i++)
        http_close(&clients[i]);
    server_stop(server);
}

SERVER_TEST(connections_stay_open_up_to_keepalive_max_open)
{
    struct http_client clients[3], last;
    struct http_response response;

    server_put_text(server, "/a", "a");
    server_start(server, "connections.keepalive_max_open=3", NULL);
    open_many(server, clients, 3);
    http_open(&last, server_port(server));
    http_send(&last, GET("/a"));
    http_receive(&last, HTTP_WITH_BODY, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_field(&response, "Connection"), "close");
    http_response_free(&response);
    http_expect_closed(&last);
    http_close(&last);
    server_expect_metric(server, "connections_open", 3);
    http_send(&clients[0], GET("/a"));
    http_receive(&clients[0], HTTP_WITH_BODY, &response);
    assert_null(http_field(&response, "Connection"));
    http_response_free(&response);
    for (int i = 0; i < 3; i++)
        http_close(&clients[i]);
    server_stop(server);
}
