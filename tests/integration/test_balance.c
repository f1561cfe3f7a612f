/* Connections follow the threads: how many each has, and that none is lost on the way. */
#include "held_thread.h"
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct test_fixture test_fixture = {server_set_up, server_tear_down};

enum { CLIENTS = 40, THREADS = 4, PAUSE_MS = 10 };

static const char page[] = "<p>a page of the test</p>\n";
static const char request[] = "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n";

/* A server with one worker of one thread, and clients with one connection each. */
struct scene {
    struct server *server;
    struct segment_reader reader;
    struct http_client client[CLIENTS];
};

static void receive_page(struct http_client *client)
{
    http_expect_response(client, 200, page);
}

static void request_from_all(struct scene *scene)
{
    for (int i = 0; i < CLIENTS; i++)
        http_send(&scene->client[i], request);
    for (int i = 0; i < CLIENTS; i++)
        receive_page(&scene->client[i]);
}

/* Number of wake-ups of each thread. */
static void read_wakeups(const struct scene *scene, uint64_t wakeups[THREADS])
{
    for (uint32_t i = 0; i < THREADS; i++)
        wakeups[i] = segment_reader_metric(&scene->reader, segment_thread(&scene->reader.map, i),
                                           METRIC_wakeups);
}

static bool all_woke_up(const struct scene *scene, const uint64_t before[THREADS])
{
    uint64_t now[THREADS];
    bool all = true;

    read_wakeups(scene, now);
    for (uint32_t i = 0; i < THREADS; i++)
        all = all && (now[i] == 0 || now[i] >= before[i] + 2);
    return all;
}

/*
 * While some connections count as active and others no longer, more may move: active ones are spread, too.
 * Each thread counts its active ones once a second, and an idle one wakes up only for that.
 */
static void await_idle(const struct scene *scene)
{
    uint64_t before[THREADS];

    sleep(2); /* a connection is active so long */
    read_wakeups(scene, before);
    WAIT_UNTIL(all_woke_up(scene, before));
    server_expect_metric(scene->server, "connections_active", 0);
}

static void begin(struct scene *scene, void **state, const char *option)
{
    scene->server = *state;
    server_put_text(scene->server, "/page.html", page);
    server_start(scene->server, "workers.processes=1", "workers.threads=1",
                 "workers.heartbeat_timeout=0", option, NULL);
    server_attach(scene->server, &scene->reader);
    for (int i = 0; i < CLIENTS; i++)
        http_open(&scene->client[i], server_port(scene->server));
    request_from_all(scene);
    server_expect_metric(scene->server, "connections_open", CLIENTS);
    await_idle(scene);
}

static void end(struct scene *scene)
{
    for (int i = 0; i < CLIENTS; i++)
        http_close(&scene->client[i]);
    server_expect_metric(scene->server, "connections_open", 0);
    server_expect_metric(scene->server, "connections_accepted", CLIENTS);
    server_expect_metric(scene->server, "connections_closed", CLIENTS);
    segment_detach(&scene->reader);
    server_stop(scene->server);
}

static uint64_t open_in(const struct scene *scene, uint32_t thread)
{
    return segment_reader_metric(&scene->reader, segment_thread(&scene->reader.map, thread),
                                 METRIC_connections_open);
}

/* True if the threads have that many connections, in any order. */
static bool is_spread(const struct scene *scene, uint32_t threads, const uint64_t *expected)
{
    bool found[THREADS] = {false};
    uint32_t matches = 0;

    for (uint32_t i = 0; i < threads; i++)
        for (uint32_t n = 0; n < threads; n++)
            if (!found[n] && open_in(scene, n) == expected[i]) {
                found[n] = true;
                matches++;
                break;
            }
    return matches == threads;
}

/*
 * A worker that is stopped between two of many requests may find more active connections in one thread
 * than in another.
 */
static uint64_t moved_uneven(const struct scene *scene)
{
    return server_metric(scene->server, "connections_moved_uneven");
}

/* After uneven moves of active connections, numbers may differ by less than what makes idle ones move. */
static bool is_settled(const struct scene *scene, uint32_t threads)
{
    enum { MARGIN = 8 };
    uint64_t least = CLIENTS, most = 0, all = 0;

    for (uint32_t i = 0; i < threads; i++) {
        uint64_t open = open_in(scene, i);

        least = open < least ? open : least;
        most = open > most ? open : most;
        all += open;
    }
    return all == CLIENTS && most < least + MARGIN;
}

/* Each thread has looked at its connections meanwhile, and has given none away. */
static void await_settled(const struct scene *scene, uint32_t threads)
{
    uint64_t before[THREADS], uneven;

    do {
        uneven = moved_uneven(scene);
        read_wakeups(scene, before);
        WAIT_UNTIL(all_woke_up(scene, before));
    } while (!is_settled(scene, threads) || moved_uneven(scene) != uneven);
}

TEST(added_threads_take_their_share_of_connections)
{
    static const uint64_t half[] = {CLIENTS / 2, CLIENTS / 2}, quarter[] = {10, 10, 10, 10};
    struct scene scene;
    uint64_t uneven;

    begin(&scene, state, NULL);
    server_do(scene.server, "threads 2");
    WAIT_UNTIL(is_spread(&scene, 2, half));
    server_expect_metric(scene.server, "connections_moved_resize", 20);
    server_expect_metric(scene.server, "connections_moved_uneven", 0);
    request_from_all(&scene);
    await_idle(&scene);
    await_settled(&scene, 2);
    uneven = moved_uneven(&scene);
    server_do(scene.server, "threads 4");
    WAIT_UNTIL(is_spread(&scene, 4, quarter));
    server_expect_metric(scene.server, "connections_moved_resize", 40);
    assert_int_equal(moved_uneven(&scene), uneven);
    request_from_all(&scene);
    WAIT_UNTIL(server_metric(scene.server, "connections_adopted") ==
               server_metric(scene.server, "connections_moved_resize") + moved_uneven(&scene));
    end(&scene);
}

/* The reply comes when the connections have followed. */
TEST(reply_shows_connections_of_each_thread)
{
    struct scene scene;
    json_t *reply;
    int worker, open[2];

    begin(&scene, state, NULL);
    reply = server_control(scene.server, "threads 2");
    assert_int_equal(json_unpack(reply, "{s:[{s:i, s:[i, i]}]}", "connections", "worker", &worker,
                                 "threads", &open[0], &open[1]),
                     0);
    assert_int_equal(worker, 0);
    assert_int_equal(open[0], CLIENTS / 2);
    assert_int_equal(open[1], CLIENTS / 2);
    json_decref(reply);
    end(&scene);
}

TEST(first_half_of_a_request_moves_with_its_connection)
{
    const size_t half = strlen(request) / 2;
    uint64_t received;
    struct scene scene;

    begin(&scene, state, NULL);
    received = server_metric(scene.server, "bytes_received");
    for (int i = 0; i < CLIENTS; i++) {
        http_send(&scene.client[i], request);
        http_say_bytes(&scene.client[i], request, half);
    }
    server_expect_metric(scene.server, "bytes_received",
                         received + CLIENTS * (strlen(request) + half));
    server_do(scene.server, "threads 4");
    WAIT_UNTIL(is_settled(&scene, 4));
    for (int i = 0; i < CLIENTS; i++) {
        http_say_bytes(&scene.client[i], request + half, strlen(request) - half);
        receive_page(&scene.client[i]);
        receive_page(&scene.client[i]);
    }
    end(&scene);
}

TEST(balance_off_keeps_connections_where_they_are)
{
    static const uint64_t half[] = {CLIENTS / 2, CLIENTS / 2};
    struct scene scene;

    begin(&scene, state, "workers.balance_connections=off");
    server_do(scene.server, "threads 2");
    assert_int_equal(open_in(&scene, 0), CLIENTS);
    assert_int_equal(open_in(&scene, 1), 0);
    request_from_all(&scene);
    server_expect_metric(scene.server, "connections_adopted", 0);
    server_do(scene.server, "balance on");
    WAIT_UNTIL(is_spread(&scene, 2, half));
    request_from_all(&scene);
    end(&scene);
}

/* The connections of an exiting thread go to those with the fewest. */
TEST(connections_of_an_exiting_thread_are_spread)
{
    static const uint64_t quarter[] = {10, 10, 10, 10}, third[] = {14, 13, 13};
    struct scene scene;

    begin(&scene, state, NULL);
    server_do(scene.server, "threads 4");
    WAIT_UNTIL(is_spread(&scene, 4, quarter));
    server_do(scene.server, "balance off");
    server_do(scene.server, "threads 3");
    WAIT_UNTIL(is_spread(&scene, 3, third));
    server_expect_metric(scene.server, "connections_moved_leaving", 10);
    end(&scene);
}

/* Seconds of which the server has recorded a sample. */
static uint64_t seconds_recorded(const struct scene *scene)
{
    return atomic_load(&segment_master(&scene->reader.map)->history_next);
}

/* Sends requests for five seconds. Returns true if each round was quick, so that the load was even. */
static bool load_evenly(struct scene *scene)
{
    uint64_t until = seconds_recorded(scene) + 5, slowest_ns = 0;

    while (seconds_recorded(scene) < until) {
        uint64_t begun_ns = clock_monotonic_ns(), passed_ns;

        request_from_all(scene);
        passed_ns = clock_monotonic_ns() - begun_ns;
        slowest_ns = passed_ns > slowest_ns ? passed_ns : slowest_ns;
        usleep(PAUSE_MS * 1000);
    }
    return slowest_ns < NS_PER_S / 2;
}

/*
 * Without a change, even load moves nothing. It is not even while a thread or the test gets no
 * processor time: what moves then, or in the five seconds after it, does not count.
 */
TEST(even_load_moves_no_connection)
{
    static const uint64_t quarter[] = {10, 10, 10, 10};
    struct scene scene;
    uint64_t before, after;
    bool even = true, was_even;

    begin(&scene, state, NULL);
    server_do(scene.server, "threads 4");
    WAIT_UNTIL(is_spread(&scene, 4, quarter));
    server_expect_metric(scene.server, "connections_adopted", 30);
    do {
        was_even = even;
        before = server_metric(scene.server, "connections_adopted");
        even = load_evenly(&scene);
        after = server_metric(scene.server, "connections_adopted");
    } while (after != before && !(even && was_even));
    assert_int_equal(after, before);
    end(&scene);
}

/* Number of connections that worker SLOT has open. */
static uint64_t open_in_worker(const struct scene *scene, uint32_t slot)
{
    return atomic_load(&segment_worker(&scene->reader.map, slot)->connections_open);
}

static void added_worker_takes_its_share(struct scene *scene, void **state, const char *dispatch)
{
    begin(scene, state, dispatch);
    server_do(scene->server, "workers 2");
    WAIT_UNTIL(open_in_worker(scene, 0) == CLIENTS / 2 && open_in_worker(scene, 1) == CLIENTS / 2);
    server_expect_metric(scene->server, "connections_moved_resize", CLIENTS / 2);
    server_expect_metric(scene->server, "connections_adopted", CLIENTS / 2);
    request_from_all(scene);
    server_do(scene->server, "workers 1");
    WAIT_UNTIL(open_in_worker(scene, 0) == CLIENTS);
    request_from_all(scene);
    end(scene);
}

TEST(added_worker_takes_its_share_with_dispatch_kernel)
{
    struct scene scene;

    added_worker_takes_its_share(&scene, state, "workers.dispatch=kernel");
}

TEST(added_worker_takes_its_share_with_dispatch_master)
{
    struct scene scene;

    added_worker_takes_its_share(&scene, state, "workers.dispatch=master");
}

/* The looks for uneven load follow each other whether or not the connections have arrived. */
TEST(connections_on_their_way_are_not_moved_again)
{
    struct scene scene;
    pid_t workers[2], thread;
    uint64_t until;

    begin(&scene, state, "workers.balance_connections=off");
    server_do(scene.server, "workers 2");
    assert_int_equal(server_workers(scene.server, workers, 2), 2);
    thread = held_thread_find(workers[1]);
    if (!held_thread_stop(thread))
        skip();
    request_from_all(&scene);
    await_idle(&scene);
    server_do(scene.server, "balance on");
    WAIT_UNTIL(open_in_worker(&scene, 0) <= CLIENTS / 2);
    until = seconds_recorded(&scene) + 2;
    WAIT_UNTIL(seconds_recorded(&scene) >= until);
    held_thread_release(thread);
    WAIT_UNTIL(open_in_worker(&scene, 0) == CLIENTS / 2 &&
               open_in_worker(&scene, 1) == CLIENTS / 2);
    server_expect_metric(scene.server, "connections_moved_uneven", CLIENTS / 2);
    request_from_all(&scene);
    end(&scene);
}

TEST(balance_off_keeps_connections_in_their_worker)
{
    struct scene scene;

    begin(&scene, state, "workers.balance_connections=off");
    server_do(scene.server, "workers 2");
    request_from_all(&scene);
    assert_int_equal(open_in_worker(&scene, 0), CLIENTS);
    server_do(scene.server, "balance on");
    WAIT_UNTIL(open_in_worker(&scene, 0) == CLIENTS / 2 &&
               open_in_worker(&scene, 1) == CLIENTS / 2);
    request_from_all(&scene);
    end(&scene);
}

/* Balancing is turned off while a worker that was added waits for its connections. */
SERVER_TEST(workers_settle_although_balance_is_turned_off)
{
    server_put_text(server, "/page.html", page);
    server_start(server, "workers.processes=1", NULL);
    for (int i = 0; i < 10; i++) {
        server_do(server, "balance on");
        server_do(server, "balance off");
        server_do(server, "workers %d", 1 + i % 3);
        server_do(server, "balance on");
        server_do(server, "workers %d", 1 + (i + 1) % 3);
    }
    http_expect(server_port(server), "/page.html", 200);
    server_stop(server);
}

/* Threads come and go while their numbers are being evened out. */
SERVER_TEST(growing_and_shrinking_under_load_loses_no_request)
{
    struct load_plan plan;
    struct load_result result;
    struct load *load;

    server_put_text(server, "/page.html", page);
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    plan = (struct load_plan){.port = server_port(server),
                              .clients = 16,
                              .target = "/page.html",
                              .body = page,
                              .body_length = sizeof(page) - 1};
    load = load_start(&plan);
    server_expect_metric(server, "connections_open", plan.clients);
    for (int i = 0; i < 10; i++) {
        uint64_t moved = server_metric(server, "connections_moved_resize");

        server_do(server, "threads 8");
        WAIT_UNTIL(server_metric(server, "connections_moved_resize") >= moved + 7);
        load_pass(load, LOAD_STEP / 10);
        server_do(server, "threads 1");
        load_pass(load, LOAD_STEP / 10);
    }
    result = load_finish(load);
    load_check(&result);
    log_check_load(server, "/page.html", sizeof(page) - 1, result.responses);
    assert_int_equal(server_metric(server, "connections_adopted"),
                     server_metric(server, "connections_moved_resize") +
                         server_metric(server, "connections_moved_leaving") +
                         server_metric(server, "connections_moved_uneven"));
    server_expect_metric(server, "connections_open", 0);
    server_stop(server);
}
