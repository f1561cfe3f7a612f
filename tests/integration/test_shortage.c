/*
 * Memory and descriptors run out while the server runs, and come back: the cache shrinks first, then
 * idle connections are closed, then new ones are refused with 503 or wait. Each is counted, a
 * shortage is logged once when it begins and once when it is over, no connection is reset, and
 * afterwards everything is as before.
 */
#include "descriptors.h"
#include "failing_server.h"
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "tests/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    WORKERS = 2,
    CLIENTS = 12,
    DESCRIPTORS_LEFT = 8,
    WAITING_CLIENTS = 40,
};

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

/* prlimit(2) needs the same user as the target process. */
static const char *same_user(void)
{
    return geteuid() == 0 ? "server.user=root" : "server.jail=on";
}

/* Sets the soft limit, which may be raised again. */
static void limit(pid_t pid, __rlimit_resource_t resource, rlim_t most)
{
    struct rlimit now;

    assert_int_equal(prlimit(pid, resource, NULL, &now), 0);
    now.rlim_cur = most < now.rlim_max ? most : now.rlim_max;
    assert_int_equal(prlimit(pid, resource, &now, NULL), 0);
}

static void send_request_with(struct http_client *client, const char *target, const char *fields)
{
    char request[128];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, fields);
    http_send(client, request);
}

static void send_request(struct http_client *client, const char *target)
{
    send_request_with(client, target, "");
}

static void expect(struct http_client *client, int status)
{
    struct http_response response;

    http_receive(client, HTTP_WITH_BODY, &response);
    if (response.status != status)
        fail_msg("status %d", response.status);
    assert_null(http_field(&response, "Connection"));
    http_response_free(&response);
}

static void expect_ok(struct http_client *client)
{
    expect(client, 200);
}

/*
 * A message of each worker with a shortage, and later as many that it is over. A shortage ends after
 * ten seconds without another failure, so that a slow run since SINCE_NS may have several.
 */
static void expect_one_episode_each(const struct segment_reader *segment, const char *begins,
                                    uint64_t since_ns)
{
    uint64_t quiet = (clock_monotonic_ns() - since_ns) / (10 * NS_PER_S);
    int begun = server_count_events(segment, begins);

    assert_in_range(begun, 1, WORKERS * (1 + quiet));
    WAIT_UNTIL(server_count_events(segment, "the shortage is over") == begun);
    assert_int_equal(server_count_events(segment, begins), begun);
}

/* Descriptors */

static void open_and_ask(const struct server *server, struct http_client *client, int count)
{
    for (int i = 0; i < count; i++) {
        http_open(&client[i], server_port(server));
        send_request(&client[i], "/page.html");
        expect_ok(&client[i]);
    }
}

static void close_all(struct http_client *client, int count)
{
    for (int i = 0; i < count; i++)
        http_close(&client[i]);
}

static void limit_descriptors(const struct server *server, const pid_t *worker)
{
    descriptors_settle(server, "/page.html", worker, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        limit(worker[i], RLIMIT_NOFILE, descriptors_open(worker[i]) + DESCRIPTORS_LEFT);
}

SERVER_TEST(server_works_with_few_descriptors_and_with_more_again)
{
    server_put_text(server, "/page.html", "a page");
    for (size_t n = 0; n < ARRAY_LENGTH(dispatches); n++) {
        struct http_client few[WAITING_CLIENTS], more[WAITING_CLIENTS];
        struct segment_reader segment;
        pid_t worker[WORKERS];
        uint64_t shed, limited_ns;

        server_start(server, same_user(), dispatches[n], "workers.processes=2",
                     "workers.balance_connections=off", "connections.keepalive_timeout=1h", NULL);
        server_attach(server, &segment);
        assert_int_equal(server_workers(server, worker, WORKERS), WORKERS);
        limited_ns = clock_monotonic_ns();
        limit_descriptors(server, worker);
        open_and_ask(server, few, WAITING_CLIENTS);
        shed = server_metric(server, "connections_shed_descriptors");
        if (shed < WAITING_CLIENTS - WORKERS * DESCRIPTORS_LEFT)
            fail_msg("only %" PRIu64 " connections were closed", shed);
        for (int i = 0; i < WORKERS; i++)
            limit(worker[i], RLIMIT_NOFILE, RLIM_INFINITY);
        open_and_ask(server, more, WAITING_CLIENTS);
        for (int i = 0; i < WAITING_CLIENTS; i++) { /* all of them are still open */
            send_request(&more[i], "/page.html");
            expect_ok(&more[i]);
        }
        assert_int_equal(server_metric(server, "connections_shed_descriptors"), shed);
        expect_one_episode_each(&segment, "out of descriptors", limited_ns);
        close_all(few, WAITING_CLIENTS);
        close_all(more, WAITING_CLIENTS);
        segment_detach(&segment);
        server_stop(server);
    }
}

/* It has arrived, but its thread needs a mailbox and an event loop. */
SERVER_TEST(connection_without_a_thread_gets_one_later)
{
    struct http_client client;
    struct segment_reader segment;
    pid_t worker;

    server_put_text(server, "/page.html", "a page");
    server_start(server, same_user(), "workers.processes=1", "workers.model=thread", NULL);
    server_attach(server, &segment);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    limit(worker, RLIMIT_NOFILE, descriptors_open(worker) + 2);
    http_open(&client, server_port(server));
    send_request(&client, "/page.html");
    WAIT_UNTIL(server_count_events(&segment, "not every connection has a thread") == 1);
    server_expect_metric(server, "queue_length", 1);
    limit(worker, RLIMIT_NOFILE, RLIM_INFINITY);
    expect_ok(&client);
    assert_int_equal(server_count_events(&segment, "cannot start serving thread"), 1);
    http_close(&client);
    segment_detach(&segment);
    server_stop(server);
}

/* Memory. Not with a sanitizer, which needs terabytes of address space and its own allocator. */

#ifndef TEST_SANITIZER

enum { FILES = 300, FILE_BYTES = 32 * 1024, MEMORY_LEFT = 3 * 1024 * 1024, ROUNDS = 2 };

static void put_files(const struct server *server)
{
    static const char bytes[FILE_BYTES];

    server_put_links(server, "/file-", FILES, bytes, sizeof(bytes));
}

/* The cache takes in the whole file. */
static bool wants_one_byte(int i, int n)
{
    return (i + n) % 4 != 0;
}

/*
 * Each client requests each file, all clients at a time: a quarter of the requests the whole file, the
 * others, which cost less, one byte.
 */
static void ask_for_files(struct http_client *client, int files)
{
    char target[32];

    for (int i = 0; i < files; i++) {
        for (int n = 0; n < CLIENTS; n++) {
            snprintf(target, sizeof(target), "/file-%d", (i + n * FILES / CLIENTS) % FILES);
            send_request_with(&client[n], target,
                              wants_one_byte(i, n) ? "Range: bytes=0-0\r\n" : "");
        }
        for (int n = 0; n < CLIENTS; n++)
            expect(&client[n], wants_one_byte(i, n) ? 206 : 200);
    }
}

/* The files need three times the memory that a worker has left. With one arena, malloc() reserves no
 * more. */
SERVER_TEST(every_request_is_answered_from_a_cache_that_shrinks)
{
    static const char *const one_arena[] = {"env", "MALLOC_ARENA_MAX=1", NULL};

    put_files(server);
    for (size_t n = 0; n < ARRAY_LENGTH(dispatches); n++) {
        const char *const options[] = {same_user(),         dispatches[n],   "workers.processes=2",
                                       "workers.threads=4", "cache.size=1G", NULL};
        struct http_client client[CLIENTS];
        struct segment_reader segment;
        pid_t worker[WORKERS];
        uint64_t shed, limited_ns;

        server_start_under(server, one_arena, options);
        server_attach(server, &segment);
        assert_int_equal(server_workers(server, worker, WORKERS), WORKERS);
        for (int i = 0; i < CLIENTS; i++)
            http_open(&client[i], server_port(server));
        ask_for_files(client, FILES / 100); /* all threads have begun to use memory */
        limited_ns = clock_monotonic_ns();
        for (int i = 0; i < WORKERS; i++)
            limit(worker[i], RLIMIT_AS, server_address_space(worker[i]) + MEMORY_LEFT);
        for (int round = 0; round < ROUNDS; round++)
            ask_for_files(client, FILES);
        shed = server_metric(server, "cache_shed");
        assert_true(shed > 0);
        assert_true(server_metric(server, "cache_entries") < FILES);
        for (int i = 0; i < WORKERS; i++)
            limit(worker[i], RLIMIT_AS, RLIM_INFINITY);
        ask_for_files(client, FILES);
        assert_true(server_metric(server, "cache_entries") >= FILES);
        assert_int_equal(server_metric(server, "cache_shed"), shed);
        assert_int_equal(server_metric(server, "connections_closed"), 0);
        assert_int_equal(server_metric(server, "workers_died"), 0);
        expect_one_episode_each(&segment, "out of memory", limited_ns);
        close_all(client, CLIENTS);
        segment_detach(&segment);
        server_stop(server);
    }
}

static bool has_connections(const struct segment_reader *segment, uint32_t thread)
{
    return segment_reader_metric(segment, segment_thread(&segment->map, thread),
                                 METRIC_connections_open) > 0;
}

/* Opens connections until both threads have one. Returns their number; the last is alone. */
static int open_on_both_threads(const struct server *server, const struct segment_reader *segment,
                                struct http_client *client)
{
    int count = 0;

    while (!has_connections(segment, 0) || !has_connections(segment, 1)) {
        assert_in_range(count, 0, WAITING_CLIENTS - 1);
        open_and_ask(server, &client[count++], 1);
    }
    return count;
}

/* One thread uses the whole cache and then rests, while the other has no memory left. */
SERVER_TEST(threads_at_rest_release_what_the_cache_evicts)
{
    static char large[1024 * 1024];
    static const char *const one_arena[] = {"env", "MALLOC_ARENA_MAX=1", NULL};
    const char *const options[] = {same_user(),
                                   "workers.processes=1",
                                   "workers.threads=2",
                                   "workers.balance_connections=off",
                                   "cache.size=1G",
                                   "cache.max_copy=1M",
                                   NULL};
    struct http_client client[WAITING_CLIENTS];
    struct segment_reader segment;
    pid_t worker;
    char target[32];
    int clients;

    put_files(server);
    server_put(server, "/large", large, sizeof(large));
    server_put_text(server, "/page.html", "a page");
    server_start_under(server, one_arena, options);
    server_attach(server, &segment);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    clients = open_on_both_threads(server, &segment, client);
    for (int i = 0; i < FILES; i++) {
        snprintf(target, sizeof(target), "/file-%d", i);
        send_request(&client[0], target);
        expect_ok(&client[0]);
    }
    limit(worker, RLIMIT_AS, server_address_space(worker));
    send_request(&client[clients - 1], "/large");
    expect_ok(&client[clients - 1]);
    assert_true(server_metric(server, "cache_shed") > 0);
    assert_int_equal(server_metric(server, "connections_closed"), 0);
    close_all(client, clients);
    segment_detach(&segment);
    server_stop(server);
}

static int status_of_new_connection(const struct server *server)
{
    struct http_response response;
    int status;

    http_request(server_port(server), "GET /file-1 HTTP/1.1\r\nHost: h\r\n\r\n", &response);
    status = response.status;
    http_response_free(&response);
    return status;
}

/*
 * The next connection is refused. With dispatch = master, where a worker takes a connection only if it has
 * memory for it, the one after it waits.
 */
static uint64_t refuse_connections(const struct server *server, bool waits)
{
    struct http_client client;
    uint64_t refused = 0;

    do {
        assert_int_equal(status_of_new_connection(server), 503);
        refused++;
    } while (!waits && server_metric(server, "connections_shed_memory") < CLIENTS);
    if (waits) {
        http_open(&client, server_port(server));
        WAIT_UNTIL(server_metric(server, "connections_shed_memory") == CLIENTS);
        http_close(&client);
    }
    return refused;
}

/* Nothing that is freed helps, so that one measure follows the other. */
SERVER_TEST(without_any_memory_connections_are_closed_then_refused)
{
    put_files(server);
    for (size_t n = 0; n < ARRAY_LENGTH(dispatches); n++) {
        const char *const options[] = {dispatches[n], "workers.processes=1", "workers.threads=2",
                                       NULL};
        struct failing_places *places = failing_server_start(server, 1000, options);
        struct http_client client[CLIENTS];
        struct segment_reader segment;
        uint64_t refused, answers, limited_ns;
        pid_t worker;

        server_attach(server, &segment);
        assert_int_equal(server_workers(server, &worker, 1), 1);
        for (int i = 0; i < CLIENTS; i++)
            http_open(&client[i], server_port(server));
        ask_for_files(client, 20);
        limited_ns = clock_monotonic_ns();
        atomic_store(&places->all_of, worker);
        answers = refuse_connections(server, n == 1);
        assert_true(server_metric(server, "cache_shed") > 0);
        assert_int_equal(server_metric(server, "cache_entries"), 0);
        refused = server_metric(server, "connections_refused");
        assert_in_range(refused, 1, answers);
        for (int i = 0; i < CLIENTS; i++)
            http_expect_closed(&client[i]);
        atomic_store(&places->all_of, 0);
        close_all(client, CLIENTS);
        for (int i = 0; i < CLIENTS; i++)
            http_open(&client[i], server_port(server));
        ask_for_files(client, 20);
        assert_true(server_metric(server, "cache_entries") > 0);
        assert_int_equal(server_metric(server, "connections_refused"), refused);
        assert_int_equal(server_metric(server, "connections_shed_memory"), CLIENTS);
        expect_one_episode_each(&segment, "out of memory", limited_ns);
        close_all(client, CLIENTS);
        segment_detach(&segment);
        server_stop(server);
        failing_server_end(places);
    }
}

/* The worker keeps the threads that it has, and starts others at the next command. */
SERVER_TEST(threads_that_cannot_start_are_logged)
{
    static const char *const options[] = {"workers.processes=1", "workers.threads=1", NULL};
    struct failing_places *places;
    struct control_client control;
    pid_t worker;

    put_files(server);
    places = failing_server_start(server, 1000, options);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    atomic_store(&places->all_of, worker);
    server_begin(server, &control, "threads 3");
    WAIT_UNTIL(server_has_printed(server, "cannot start serving thread 1: Cannot allocate memory"));
    atomic_store(&places->all_of, 0);
    server_do(server, "threads 2");
    assert_int_equal(server_count_printed(server, "cannot start serving thread"), 1);
    assert_int_equal(status_of_new_connection(server), 200);
    control_close(&control);
    server_stop(server);
    failing_server_end(places);
}

#endif
