/*
 * Stops, and pauses of the workers: no request that was begun or has arrived is lost, and each stop ends.
 */
#include "held_thread.h"
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LARGE = 24 * 1024 * 1024,
    CLIENTS = 12,
    WAITING = 24,
    WORKERS = 2,
    THREADS = 2 /* of each kind */
};

static const char page[] = "<p>a page of the test</p>\n";

static const char request_of_page[] = "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n";

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

static void begin_stop(const struct server *server)
{
    struct segment_reader reader;

    server_attach(server, &reader);
    server_signal(server_pid(server), SIGTERM);
    WAIT_UNTIL(atomic_load(&segment_master(&reader.map)->stopping) == 1);
    segment_detach(&reader);
}

/* --- Signals and commands --- */

/* A terminal or a kill of the process group signals all processes. Only the master may react. */
SERVER_TEST(stop_signal_to_worker_or_logger_is_ignored)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT};
    pid_t before[WORKERS], after[WORKERS], logger;

    server_put_text(server, "/page.html", page);
    server_start(server, NULL);
    assert_int_equal(server_workers(server, before, WORKERS), WORKERS);
    logger = server_logger(server);
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++) {
        for (int n = 0; n < WORKERS; n++)
            server_signal(before[n], signals[i]);
        server_signal(logger, signals[i]);
        /* When the replies arrive, each worker has run two loop iterations. */
        server_do(server, "threads %d", THREADS + 1);
        server_do(server, "threads %d", THREADS);
        assert_int_equal(server_workers(server, after, WORKERS), WORKERS);
        assert_memory_equal(after, before, sizeof(before));
        http_expect(server_port(server), "/page.html", 200);
        WAIT_UNTIL(log_count_lines(server) == i + 1);
        assert_int_equal(server_logger(server), logger);
    }
    server_expect_metric(server, "workers_died", 0);
    server_stop(server);
}

SERVER_TEST(each_stop_signal_stops)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT};

    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++) {
        struct http_client idle;

        server_start(server, NULL);
        http_open_and_get(&idle, server_port(server), "/page.html");
        server_signal(server_pid(server), signals[i]);
        server_stopped(server);
        http_expect_closed(&idle);
        http_close(&idle);
    }
}

static char *put_large(const struct server *server)
{
    char *bytes = malloc(LARGE);

    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 17 + i / 509);
    server_put(server, "/large.bin", bytes, LARGE);
    return bytes;
}

/* Requests the large file and does not read the response yet. */
static void begin_download(const struct server *server, struct http_client *client)
{
    http_open(client, server_port(server));
    http_send(client, "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    server_expect_metric(server, "connections_busy", 1);
}

SERVER_TEST(change_during_stop_is_rejected)
{
    static const char *const changes[] = {"log-level debug", "cache-size 1M", "cache-policy lru",
                                          "cache-flush",     "cache-purge /", "ratelimit 9",
                                          "threads 1",       "workers 1",     "offload-threads 2",
                                          "drain 0",         "restart 0",     "restart all",
                                          "reload",          "reopen-logs"};
    static const char *const others[] = {"ping",        "status",  "help",     "config",
                                         "post-mortem", "threads", "log-level"};
    struct http_client client;

    free(put_large(server));
    server_start(server, "workers.drain_timeout=1h", "connections.send_timeout=1h", NULL);
    begin_download(server, &client);
    begin_stop(server);
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++)
        server_rejects(server, changes[i], "the server is stopping");
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        server_do(server, "%s", others[i]);
    server_do(server, "stop now");
    server_stopped(server);
    http_close(&client);
}

SERVER_TEST(second_signal_stops_at_once)
{
    struct http_client client;

    free(put_large(server));
    server_start(server, "workers.drain_timeout=1h", "connections.send_timeout=1h", NULL);
    begin_download(server, &client);
    begin_stop(server);
    assert_int_equal(waitpid(server_pid(server), NULL, WNOHANG), 0);
    server_signal(server_pid(server), SIGTERM);
    server_stopped(server);
    http_close(&client);
}

SERVER_TEST(stop_ends_at_drain_timeout)
{
    struct http_client client;

    free(put_large(server));
    server_start(server, "workers.drain_timeout=500ms", NULL);
    begin_download(server, &client);
    server_stop(server);
    http_close(&client);
}

static bool has_exited(pid_t pid)
{
    char path[64], state = '\0';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'Z';
}

/* After a reload. The master, which kills late workers, is stopped meanwhile. */
SERVER_TEST(worker_ends_at_drain_timeout_by_itself)
{
    struct http_client client;
    pid_t worker;

    free(put_large(server));
    server_write_config(server, "[workers]\nprocesses = 1\ndrain_timeout = 500ms\n"
                                "reload_timeout = 1s\n[connections]\nsend_timeout = 1h\n");
    server_start(server, NULL);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    begin_download(server, &client);
    server_do(server, "reload");
    WAIT_UNTIL(server_has_printed(server, "reload_timeout is over"));
    server_freeze(server_pid(server));
    WAIT_UNTIL(has_exited(worker));
    server_signal(server_pid(server), SIGCONT);
    http_close(&client);
    server_stop(server);
}

SERVER_TEST(error_log_reports_stop_once)
{
    const char *first;
    char *printed;

    for (int i = 0; i < 5; i++) {
        server_start(server, "workers.processes=4", NULL);
        server_stop(server);
        printed = server_output(server);
        first = strstr(printed, ": stopped\n");
        assert_non_null(first);
        assert_null(strstr(first + 1, ": stopped\n"));
        free(printed);
        server_clear_output(server);
    }
}

/* --- Responses --- */

SERVER_TEST(stop_under_load_loses_no_response)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(dispatches); i++) {
        struct load_plan plan;
        struct load *load;
        struct load_result result;

        server_start(server, dispatches[i / 2], NULL);
        plan = (struct load_plan){.port = server_port(server),
                                  .clients = CLIENTS,
                                  .target = "/page.html",
                                  .body = page,
                                  .body_length = sizeof(page) - 1,
                                  .until_failure = true,
                                  .each_connects = i % 2 == 0};
        load = load_start(&plan);
        load_pass(load, LOAD_STEP);
        server_stop(server);
        result = load_finish(load);
        assert_int_equal(result.wrong, 0);
        assert_int_equal(log_count_lines(server), result.responses);
        assert_int_equal(remove(server_log(server)), 0);
    }
}

SERVER_TEST(stop_waits_for_download_in_progress)
{
    struct http_client client;
    struct http_response response;
    char *bytes = put_large(server);

    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        server_start(server, dispatches[i], NULL);
        begin_download(server, &client);
        begin_stop(server);
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_int_equal(response.body_length, LARGE);
        assert_memory_equal(response.body, bytes, LARGE);
        http_response_free(&response);
        http_expect_closed(&client);
        http_close(&client);
        server_stopped(server);
    }
    free(bytes);
}

/* --- Requests on their way --- */

/* Stops the processes of all workers, so that nothing is read until thaw(). */
static void freeze(const struct server *server, pid_t pids[WORKERS])
{
    assert_int_equal(server_workers(server, pids, WORKERS), WORKERS);
    for (int i = 0; i < WORKERS; i++)
        server_freeze(pids[i]);
}

static void thaw(const pid_t pids[WORKERS])
{
    for (int i = 0; i < WORKERS; i++)
        server_signal(pids[i], SIGCONT);
}

static bool receive_page(struct http_client *client)
{
    struct http_response response;
    bool last;

    http_receive(client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body, page);
    last = http_field(&response, "Connection") != NULL;
    http_response_free(&response);
    return last;
}

/* Each client receives the page and a close; then the server has stopped. */
static void expect_last_pages(struct server *server, struct http_client client[WAITING])
{
    for (int n = 0; n < WAITING; n++) {
        receive_page(&client[n]);
        http_expect_closed(&client[n]);
        http_close(&client[n]);
    }
    server_stopped(server);
}

/* In the accept queues, or on their way from the master to a worker. */
SERVER_TEST(stop_answers_connections_that_wait)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client client[WAITING];
        pid_t workers[WORKERS];

        server_start(server, dispatches[i], "workers.stop_grace=0", NULL);
        freeze(server, workers);
        for (int n = 0; n < WAITING; n++) {
            http_open(&client[n], server_port(server));
            http_send(&client[n], request_of_page);
        }
        begin_stop(server);
        thaw(workers);
        expect_last_pages(server, client);
    }
}

SERVER_TEST(stop_answers_requests_that_have_arrived)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client client[WAITING];
        pid_t workers[WORKERS];

        server_start(server, dispatches[i], "workers.stop_grace=0", NULL);
        for (int n = 0; n < WAITING; n++)
            http_open_and_get(&client[n], server_port(server), "/page.html");
        freeze(server, workers);
        for (int n = 0; n < WAITING; n++)
            http_send(&client[n], request_of_page);
        begin_stop(server);
        thaw(workers);
        expect_last_pages(server, client);
    }
}

/*
 * A thread is to give connections to another worker, but can do so only after the stop has begun. In
 * the second run it can do so only after the other worker has exited.
 */
SERVER_TEST(stop_answers_connections_that_change_the_worker)
{
    server_put_text(server, "/page.html", page);
    for (int late = 0; late < 2; late++) {
        struct http_client client[WAITING];
        struct control_client control;
        pid_t giver, thread;

        server_start(server, "workers.processes=1", "workers.threads=1", "workers.stop_grace=0",
                     NULL);
        for (int n = 0; n < WAITING; n++)
            http_open_and_get(&client[n], server_port(server), "/page.html");
        assert_int_equal(server_workers(server, &giver, 1), 1);
        thread = held_thread_find(giver);
        if (!held_thread_stop(thread))
            skip();
        server_begin(server, &control, "workers 2");
        WAIT_UNTIL(server_count_printed(server, "worker 1 serves") == 1);
        let_others_act();
        for (int n = 0; n < WAITING; n++)
            http_send(&client[n], request_of_page);
        begin_stop(server);
        let_others_act();
        if (late)
            WAIT_UNTIL(server_count_printed(server, "exited") == 1);
        held_thread_release(thread);
        expect_last_pages(server, client);
        control_close(&control);
        server_clear_output(server);
    }
}

SERVER_TEST(stop_answers_requests_within_its_grace)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client idle, other;

        server_start(server, dispatches[i], "workers.stop_grace=1h", NULL);
        http_open_and_get(&idle, server_port(server), "/page.html");
        http_open_and_get(&other, server_port(server), "/page.html");
        begin_stop(server);
        do
            http_send(&idle, request_of_page);
        while (!receive_page(&idle)); /* its thread may not know of the stop yet */
        http_expect_closed(&idle);
        http_close(&idle);
        assert_true(http_is_open(&other));
        server_signal(server_pid(server), SIGTERM);
        server_stopped(server);
        http_close(&other);
    }
}

/* --- Pauses --- */

/* Begins requests and stops the workers. Returns false if a timeout ended before that. */
static bool stops_within_requests(const struct server *server, struct http_client *client,
                                  pid_t *workers)
{
    static const char first[] = "GET /page.html HTTP/1.1\r\n";

    for (int n = 0; n < WAITING; n++) {
        http_open(&client[n], server_port(server));
        http_send(&client[n], first);
    }
    server_expect_metric(server, "bytes_received", WAITING * (sizeof(first) - 1));
    freeze(server, workers);
    return server_metric(server, "connections_timed_out") == 0;
}

static void close_all(struct http_client *client)
{
    for (int n = 0; n < WAITING; n++)
        http_close(&client[n]);
}

/* The timeout ends while the workers are stopped, but the rest of the request arrives before. */
SERVER_TEST(request_that_arrived_in_a_stall_is_answered)
{
    static const char rest[] = "Host: h\r\n\r\n";

    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client client[WAITING];
        pid_t workers[WORKERS];

        server_start(server, dispatches[i], "connections.header_timeout=2s", NULL);
        while (!stops_within_requests(server, client, workers)) {
            thaw(workers);
            close_all(client);
            server_stop(server);
            server_start(server, dispatches[i], "connections.header_timeout=2s", NULL);
        }
        for (int n = 0; n < WAITING; n++)
            http_send(&client[n], rest);
        sleep(4); /* until the timeout has passed */
        thaw(workers);
        for (int n = 0; n < WAITING; n++)
            receive_page(&client[n]);
        close_all(client);
        server_stop(server);
    }
}
