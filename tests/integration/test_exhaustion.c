/*
 * Exhaustion of descriptors and memory: clients wait or get an error, no process crashes or spins,
 * and service resumes when resources return.
 */
#include "descriptors.h"
#include "failing_server.h"
#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_LEFT = 8, CLIENTS = 24 };

/* Descriptors */

static pid_t one_worker(const struct server *server)
{
    pid_t pid = 0;

    assert_int_equal(server_workers(server, &pid, 1), 1);
    return pid;
}

static void leave_descriptors(const struct server *server, int left)
{
    pid_t worker = one_worker(server);
    struct rlimit limit;

    descriptors_settle(server, "/page.html", &worker, 1);
    limit.rlim_cur = limit.rlim_max = descriptors_open(worker) + (rlim_t)left;
    assert_int_equal(prlimit(worker, RLIMIT_NOFILE, &limit, NULL), 0);
}

SERVER_TEST(connections_wait_for_descriptors_without_spinning)
{
    struct http_client client[CLIENTS];
    uint64_t wakeups;

    server_put_text(server, "/page.html", "a page");
    /* prlimit(2) needs the same user as the target process. */
    server_start(server, geteuid() == 0 ? "server.user=root" : "server.jail=on",
                 "workers.processes=1", "workers.threads=1", "connections.header_timeout=1h", NULL);
    leave_descriptors(server, DESCRIPTORS_LEFT);
    for (int i = 0; i < CLIENTS; i++) { /* not idle: a request has begun */
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /page.html HTTP/1.1\r\n");
    }
    WAIT_UNTIL(server_metric(server, "accept_errors") > 0);
    wakeups = server_metric(server, "wakeups");
    sleep(1);
    /* It retries once a second, not thousands of times. */
    assert_true(server_metric(server, "wakeups") - wakeups < 100);
    for (int i = 0; i < CLIENTS; i++) {
        http_send(&client[i], "Host: h\r\nConnection: close\r\n\r\n");
        http_expect_response(&client[i], 200, NULL);
        http_close(&client[i]); /* frees a descriptor for a waiting connection */
    }
    server_stop(server);
}

/* Idle connections of one thread hold the descriptors that the other one needs, too. */
SERVER_TEST(idle_connections_are_closed_when_descriptors_run_out)
{
    struct http_client client[CLIENTS];
    struct segment_reader reader;
    int begun, ended; /* shortages: one is over if no connection was closed for ten seconds */

    server_put_text(server, "/page.html", "a page");
    server_start(server, geteuid() == 0 ? "server.user=root" : "server.jail=on",
                 "workers.processes=1", "workers.threads=2", NULL);
    server_attach(server, &reader);
    leave_descriptors(server, DESCRIPTORS_LEFT);
    for (int i = 0; i < CLIENTS; i++)
        http_open_and_get(&client[i], server_port(server), "/page.html");
    assert_true(server_metric(server, "connections_shed_descriptors") >=
                CLIENTS - DESCRIPTORS_LEFT);
    ended = server_count_events(&reader, "the shortage is over");
    begun = server_count_events(&reader, "out of descriptors");
    assert_true(begun >= 1 && begun >= ended && begun <= ended + 1);
    for (int i = 0; i < CLIENTS; i++)
        http_close(&client[i]);
    segment_detach(&reader);
    server_stop(server);
}

static uint64_t open_in(const struct segment_reader *reader, uint32_t thread)
{
    return segment_reader_metric(reader, segment_thread(&reader->map, thread),
                                 METRIC_connections_open);
}

/* Opens a connection, and closes it unless thread 0 has taken it. */
static bool is_taken_by_first(const struct server *server, const struct segment_reader *reader,
                              struct http_client *client)
{
    http_open_and_get(client, server_port(server), "/page.html");
    if (open_in(reader, 1) == 0)
        return true;
    http_close(client);
    WAIT_UNTIL(open_in(reader, 1) == 0);
    return false;
}

/* All descriptors belong to idle connections of one thread when the other one needs one. */
SERVER_TEST(idle_connections_of_another_thread_are_closed)
{
    struct http_client client[CLIENTS];
    struct segment_reader reader;
    int opened = 0;

    server_put_text(server, "/page.html", "a page");
    server_start(server, geteuid() == 0 ? "server.user=root" : "server.jail=on",
                 "workers.processes=1", "workers.threads=2", "workers.balance_connections=off",
                 NULL);
    server_attach(server, &reader);
    leave_descriptors(server, DESCRIPTORS_LEFT);
    while (opened < DESCRIPTORS_LEFT)
        opened += is_taken_by_first(server, &reader, &client[opened]) ? 1 : 0;
    while (open_in(&reader, 1) == 0) { /* the kernel chooses the thread */
        assert_true(opened < CLIENTS);
        http_open_and_get(&client[opened++], server_port(server), "/page.html");
    }
    assert_true(server_metric(server, "connections_shed_descriptors") > 0);
    for (int i = 0; i < opened; i++)
        http_close(&client[i]);
    segment_detach(&reader);
    server_stop(server);
}

/*
 * The master passes a worker only as many connections as it has descriptors for; the others wait.
 */
SERVER_TEST(connections_wait_for_descriptors_of_a_worker)
{
    enum { MORE_THAN_FIT = 200 };
    static const char *const few_descriptors[] = {"sh", "-c", "ulimit -n 128 && exec \"$@\"", "sh",
                                                  NULL};
    static const char *const options[] = {"workers.dispatch=master", "workers.processes=1",
                                          "workers.threads=1", NULL};
    struct http_client client[MORE_THAN_FIT];

    server_put_text(server, "/page.html", "a page");
    server_start_under(server, few_descriptors, options);
    for (int i = 0; i < MORE_THAN_FIT; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    WAIT_UNTIL(server_has_printed(server, "no free descriptor for another connection"));
    assert_true(server_metric(server, "dispatch_pending") > 0);
    for (int i = 0; i < MORE_THAN_FIT; i++) {
        http_expect_response(&client[i], 200, NULL);
        http_close(&client[i]); /* frees a descriptor for a waiting connection */
    }
    server_expect_metric(server, "requests", MORE_THAN_FIT);
    server_stop(server);
}

/* Memory. Not with a sanitizer, whose allocator the preloaded one would replace. */

#ifndef TEST_SANITIZER

enum { ROUNDS = 12, REQUESTS = 60 };

/* Sends a request and ignores the response. Returns the status, or 0 for none. */
static int try(const struct server *server, const char *request)
{
    struct http_client client;
    char response[256];
    ssize_t length;
    int status = 0;

    http_open(&client, server_port(server));
    http_send(&client, request);
    length = TEMP_FAILURE_RETRY(recv(client.fd, response, sizeof(response) - 1, 0));
    response[length > 0 ? length : 0] = '\0';
    sscanf(response, "HTTP/1.1 %d", &status);
    http_close(&client);
    return status;
}

static void ask_for_everything(const struct server *server, unsigned round)
{
    static const struct {
        const char *begins, *fields;
    } forms[] = {
        {"GET /file-", ""},
        {"GET /file-", "Accept-Encoding: gzip\r\n"},
        {"GET /file-", "Range: bytes=1-2,5-9\r\n"},
        {"GET /none-", ""},
        {"GET /folder?", ""},
        {"GET /folder/?", ""},
        {"GET /folder/?", "Accept: application/json\r\n"},
        {"OPTIONS /file-", ""},
        {"DELETE /file-", "Content-Length: 0\r\n"},
        {"GET /large?", "Range: bytes=5-\r\n"},
        {"GET /arithmetic/square?work=1ms&n=", ""},
    };

    for (unsigned i = 0; i < REQUESTS; i++) {
        char request[256];
        int status;

        snprintf(request, sizeof(request), "%s%u HTTP/1.1\r\nHost: h\r\n%s\r\n",
                 forms[i % ARRAY_LENGTH(forms)].begins, i % 20 + round * 20,
                 forms[i % ARRAY_LENGTH(forms)].fields);
        status = try(server, request);
        if (status != 0 && status != 200 && status != 204 && status != 206 && status != 301 &&
            status != 404 && status != 405 && status != 500 && status != 503)
            fail_msg("status %d to: %s", status, request);
    }
}

static void put_files(const struct server *server)
{
    static const char large[4 * 1024 * 1024]; /* larger than the cache */
    char text[4096];

    memset(text, 'x', sizeof(text));
    server_put_links(server, "/file-", ROUNDS * 20, text, sizeof(text));
    server_put_text(server, "/folder/inside", "x");
    server_put(server, "/large", large, sizeof(large));
}

/* The cache would need twice the memory that is left. With one arena, malloc() reserves no more. */
SERVER_TEST(cache_shrinks_when_memory_runs_out)
{
    static const char *const one_arena[] = {"env", "MALLOC_ARENA_MAX=1", NULL};
    const char *const options[] = {geteuid() == 0 ? "server.user=root" : "server.jail=on",
                                   "workers.processes=1", "workers.threads=2", "cache.size=1G",
                                   NULL};
    enum { FILES = 1000, MEMORY_LEFT = 16 * 1024 * 1024 };
    static const char bytes[32 * 1024];
    struct segment_reader reader;
    uint64_t limited_ns = 0, quiet;
    int failed = 0;
    struct rlimit limit;
    char text[64];
    pid_t worker;

    server_put_links(server, "/file-", FILES, bytes, sizeof(bytes));
    server_start_under(server, one_arena, options);
    server_attach(server, &reader);
    worker = one_worker(server);
    for (int i = 0; i < FILES; i++) {
        if (i == FILES / 10) { /* all threads have begun to use memory */
            limited_ns = clock_monotonic_ns();
            limit.rlim_cur = limit.rlim_max = server_address_space(worker) + MEMORY_LEFT;
            assert_int_equal(prlimit(worker, RLIMIT_AS, &limit, NULL), 0);
        }
        snprintf(text, sizeof(text), "GET /file-%d HTTP/1.1\r\nHost: h\r\n\r\n", i);
        failed += try(server, text) != 200;
    }
    assert_true(server_metric(server, "cache_shed") > 0);
    assert_in_range(failed, 0, FILES / 10); /* without room for new files most would fail */
    /* A shortage ends after ten seconds without another failure. */
    quiet = (clock_monotonic_ns() - limited_ns) / (10 * NS_PER_S);
    assert_in_range(server_count_events(&reader, "out of memory"), 1, 1 + quiet);
    assert_int_equal(server_metric(server, "workers_died"), 0);
    segment_detach(&reader);
    server_stop(server);
}

/* Each place fails once. */

enum { PASSES_MOST = 100, PLACES_LEAST = 100, FAILURES_A_ROUND = 1000 };

/* Not during the start: libseccomp frees memory twice if an allocation fails. */
SERVER_TEST(random_allocation_failures_kill_no_process)
{
    enum { ONE_IN = 20, FAILURES_LEAST = 100 };
    static const char *const options[] = {"files.autoindex=on", "arithmetic.enabled=on",
                                          "workers.processes=2", NULL};
    struct failing_places *places;

    put_files(server);
    places = failing_server_start(server, 0, options);
    atomic_store(&places->one_in, ONE_IN);
    for (unsigned round = 0; round < ROUNDS; round++)
        ask_for_everything(server, round);
    atomic_store(&places->one_in, 0);
    assert_true(atomic_load(&places->failed) > FAILURES_LEAST);
    assert_int_equal(server_metric(server, "workers_died"), 0);
    server_stop(server);
    failing_server_end(places);
}

/* A response without memory for a part must fail, not omit that part. */
static void check_whole(const char *status)
{
    json_t *response = json_loads(status, 0, NULL);
    const json_t *workers = json_object_get(response, "workers");

    if (response == NULL ||
        (json_is_true(json_object_get(response, "ok")) &&
         (json_object_size(json_object_get(response, "metrics")) != METRIC_COUNT ||
          json_array_size(json_object_get(response, "listening")) != 1 ||
          json_array_size(json_object_get(workers, "list")) !=
              (size_t)json_integer_value(json_object_get(workers, "actual"))))) {
        fprintf(stderr, "%s\n", status);
        fail_msg("status lacks something");
    }
    json_decref(response);
}

/* Sends a control line. The server replies or closes the connection. */
static void command(const struct server *server, const char *line)
{
    enum control_result came = CONTROL_FAILED;
    struct control_client client;
    const char *reply;
    char why[256];

    if (control_connect(&client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING)
        return;
    if (control_send(&client, line, why, sizeof(why)) == CONTROL_PENDING)
        came = control_receive(&client, PATIENCE_S * 1000, &reply, why, sizeof(why));
    if (came == CONTROL_PENDING)
        fail_msg("neither a reply to '%s' nor the end of the connection came", line);
    if (came == CONTROL_REPLY && strcmp(line, "status") == 0)
        check_whole(reply);
    control_close(&client);
}

/* The pause between restarts grows; allocate its memory now. */
static void command_everything(const struct server *server, struct failing_places *places)
{
    static const struct {
        const char *line;
        bool starts;
    } commands[] = {
        {"status", false},          {"threads 3", false},     {"threads 2", false},
        {"workers 2", true},        {"workers 1", false},     {"offload-threads 2", false},
        {"cache-flush", false},     {"cache-size 1M", false}, {"cache-policy lru", false},
        {"cache-purge /f*", false}, {"reopen-logs", false},   {"config", false},
        {"reload", true},           {"restart all", true},    {"log-level debug", false},
        {"log-level info", false},  {"ratelimit on", false},  {"ratelimit off", false},
        {"nonsense", false},        {"post-mortem", false},   {"cache-policy sieve", false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
        atomic_store(&places->more, commands[i].starts ? 0 : FAILURES_A_ROUND);
        command(server, commands[i].line);
    }
}

SERVER_TEST(every_allocation_may_fail_once)
{
    static const char *const options[] = {"files.autoindex=on", "arithmetic.enabled=on", NULL};
    struct failing_places *places;
    uint32_t before, pass = 0;
    char *printed;

    put_files(server);
    places = failing_server_start(server, 1000, options);
    do {
        before = atomic_load(&places->failed);
        atomic_store(&places->more, FAILURES_A_ROUND);
        ask_for_everything(server, pass % ROUNDS);
        command_everything(server, places);
        atomic_store(&places->more, 0);
        http_expect(server_port(server), "/file-0", 200);
    } while (atomic_load(&places->failed) > before && ++pass < PASSES_MOST);
    assert_true(atomic_load(&places->failed) > PLACES_LEAST);
    printed = server_output(server);
    if (strstr(printed, "signal") != NULL)
        fail_msg("a process crashed:\n%s", printed);
    free(printed);
    server_stop(server);
    failing_server_end(places);
}

/*
 * Without memory for a job, the serving thread reads the file itself. The file is larger than the socket
 * buffers, so that some of it is not sent yet when it leaves the page cache.
 */
SERVER_TEST(file_that_is_only_on_disk_is_sent_without_memory)
{
    enum { BYTES = 16 * 1024 * 1024, RECEIVE_BUFFER = 64 * 1024 };
    static const char *const options[] = {"workers.processes=1", "workers.threads=1", NULL};
    static const int small = RECEIVE_BUFFER;
    char path[SCRATCH_PATH_MAX + 16], *bytes = calloc(1, BYTES);
    struct http_response response;
    struct failing_places *places;
    struct http_client client;
    bool cold;

    assert_non_null(bytes);
    server_put(server, "/large.bin", bytes, BYTES);
    places = failing_server_start(server, 0, options);
    http_open(&client, server_port(server));
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    http_send(&client, "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    server_expect_metric(server, "connections_busy", 1);
    atomic_store(&places->all_of, one_worker(server));
    snprintf(path, sizeof(path), "%s/www/large.bin", server_directory(server));
    cold = scratch_make_cold(path);
    http_receive(&client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.body_length, BYTES);
    assert_memory_equal(response.body, bytes, BYTES);
    atomic_store(&places->all_of, 0);
    http_response_free(&response);
    http_close(&client);
    server_stop(server);
    failing_server_end(places);
    free(bytes);
    if (!cold)
        skip();
}

#endif
