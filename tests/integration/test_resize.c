/*
 * Changes of threads and workers under load: each request is answered, counted and logged exactly
 * once.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { WORKERS = 3, LARGE = 8 * 1024 * 1024 };

static const char page[] = "<p>a page of the test</p>\n";

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

static struct load_plan plan_for(const struct server *server, bool each_connects)
{
    return (struct load_plan){.port = server_port(server),
                              .clients = each_connects ? 4 : 8,
                              .each_connects = each_connects,
                              .target = "/page.html",
                              .body = page,
                              .body_length = sizeof(page) - 1};
}

/* The workers' own counts of open connections are all 0. */
static void check_none_open_in_workers(const struct server *server)
{
    struct segment_reader reader;

    server_attach(server, &reader);
    WAIT_UNTIL(segment_connections_open(&reader.map) == 0);
    segment_detach(&reader);
}

static void check_all(const struct server *server, const struct load_result *kept,
                      const struct load_result *connecting)
{
    load_check(kept);
    load_check(connecting);
    log_check_load(server, "/page.html", sizeof(page) - 1, kept->responses + connecting->responses);
    server_expect_metric(server, "log_lines", kept->responses + connecting->responses);
    server_expect_metric(server, "connections_open", 0);
    check_none_open_in_workers(server);
    assert_int_equal(server_metric(server, "connections_accepted"),
                     server_metric(server, "connections_closed"));
    server_expect_metric(server, "workers_died", 0);
    server_expect_metric(server, "dispatch_pending", 0);
}

/* Two loads at once, with keep-alive and with a connection per request, through all steps. */
static void resize_under_load(struct server *server, const char *dispatch, const char *balance)
{
    static const char *const steps[] = {"threads 1", "threads 16", "threads 3",
                                        "workers 1", "workers 4",  "workers 2"};
    struct load_plan kept_plan, connecting_plan;
    struct load_result kept_result, connecting_result;
    struct load *kept, *connecting;

    server_put_text(server, "/page.html", page);
    server_start(server, dispatch, balance, NULL);
    kept_plan = plan_for(server, false);
    connecting_plan = plan_for(server, true);
    kept = load_start(&kept_plan);
    connecting = load_start(&connecting_plan);
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        load_pass(kept, LOAD_STEP);
        load_pass(connecting, LOAD_STEP / 4);
        server_do(server, "%s", steps[i]);
    }
    load_pass(kept, LOAD_STEP);
    load_pass(connecting, LOAD_STEP / 4);
    kept_result = load_finish(kept);
    connecting_result = load_finish(connecting);
    check_all(server, &kept_result, &connecting_result);
    server_stop(server);
}

SERVER_TEST(resize_with_dispatch_kernel_loses_no_request)
{
    resize_under_load(server, "workers.dispatch=kernel", "workers.balance=round-robin");
}

SERVER_TEST(resize_with_round_robin_loses_no_request)
{
    resize_under_load(server, "workers.dispatch=master", "workers.balance=round-robin");
}

SERVER_TEST(resize_with_least_connections_loses_no_request)
{
    resize_under_load(server, "workers.dispatch=master", "workers.balance=least-connections");
}

/* Requests a change without waiting for it. */
static void ask_for(const struct server *server, const char *what, int number)
{
    struct control_client client;
    char line[32], why[256];

    snprintf(line, sizeof(line), "%s %d", what, number);
    if (control_connect(&client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING ||
        control_send(&client, line, why, sizeof(why)) != CONTROL_PENDING)
        fail_msg("%s", why);
    control_close(&client);
}

/* False if the control socket is full; any other error fails the test. */
static bool accepts(const struct server *server, const char *line)
{
    json_t *reply = server_control(server, "%s", line);
    const char *error = json_string_value(json_object_get(reply, "error"));
    bool accepted = json_is_true(json_object_get(reply, "ok"));

    if (!accepted && (error == NULL || strcmp(error, "too many control clients") != 0))
        fail_msg("'%s' failed: %s", line, error);
    json_decref(reply);
    return accepted;
}

SERVER_TEST(rapid_resizes_lose_no_request)
{
    struct load_plan kept_plan, connecting_plan;
    struct load_result kept_result, connecting_result;
    struct load *kept, *connecting;
    unsigned seed = 1;

    server_put_text(server, "/page.html", page);
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    kept_plan = plan_for(server, false);
    connecting_plan = plan_for(server, true);
    kept = load_start(&kept_plan);
    connecting = load_start(&connecting_plan);
    for (int i = 0; i < 40; i++) {
        ask_for(server, "threads", 1 + rand_r(&seed) % 6);
        ask_for(server, "workers", 1 + rand_r(&seed) % 4);
        load_pass(connecting, 1);
    }
    WAIT_UNTIL(accepts(server, "threads 2")); /* the replies above may be pending */
    WAIT_UNTIL(accepts(server, "workers 3"));
    load_pass(kept, LOAD_STEP);
    load_pass(connecting, LOAD_STEP / 4);
    kept_result = load_finish(kept);
    connecting_result = load_finish(connecting);
    check_all(server, &kept_result, &connecting_result);
    server_stop(server);
}

/* --- Concurrent changes --- */

static void open_control(const struct server *server, struct control_client *client)
{
    char why[256];

    if (control_connect(client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING)
        fail_msg("%s", why);
}

static void send_number(struct control_client *client, const char *what, int number)
{
    char line[32], why[256];

    snprintf(line, sizeof(line), "%s %d", what, number);
    if (control_send(client, line, why, sizeof(why)) != CONTROL_PENDING)
        fail_msg("'%s': %s", line, why);
}

static void expect_in_force(struct control_client *client, const char *what, int number)
{
    char why[256] = "no reply";
    const char *line = "";
    json_t *response;

    if (control_receive(client, PATIENCE_S * 1000, &line, why, sizeof(why)) != CONTROL_REPLY)
        fail_msg("'%s %d': %s", what, number, why);
    response = json_loads(line, 0, NULL);
    if (!json_is_true(json_object_get(response, "ok")) ||
        json_integer_value(json_object_get(response, "actual")) != number)
        fail_msg("'%s %d' was answered: %s", what, number, line);
    json_decref(response);
}

/* Two control clients each change one number at the same time. */
static void change_both(const struct server *server, struct load *load)
{
    enum { ROUNDS = 30 };
    struct control_client threads, workers;
    unsigned seed = 7;

    open_control(server, &threads);
    open_control(server, &workers);
    for (int i = 0; i < ROUNDS; i++) {
        int thread_count = 1 + rand_r(&seed) % 4, worker_count = 1 + rand_r(&seed) % 4;

        send_number(&threads, "threads", thread_count);
        send_number(&workers, "workers", worker_count);
        expect_in_force(&threads, "threads", thread_count);
        expect_in_force(&workers, "workers", worker_count);
        load_pass(load, 1);
    }
    control_close(&threads);
    control_close(&workers);
}

SERVER_TEST(threads_and_workers_change_concurrently)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct load_plan kept_plan, connecting_plan;
        struct load_result kept_result, connecting_result;
        struct load *kept, *connecting;

        server_start(server, dispatches[i], NULL);
        kept_plan = plan_for(server, false);
        connecting_plan = plan_for(server, true);
        kept = load_start(&kept_plan);
        connecting = load_start(&connecting_plan);
        change_both(server, connecting);
        load_pass(kept, LOAD_STEP);
        kept_result = load_finish(kept);
        connecting_result = load_finish(connecting);
        check_all(server, &kept_result, &connecting_result);
        server_stop(server);
        assert_int_equal(remove(server_log(server)), 0);
    }
}

/* Requests the large file without reading the response; it exceeds the socket buffers. */
static void begin_download(const struct server *server, struct http_client *client)
{
    static const int small = 64 * 1024;

    http_open(client, server_port(server));
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    http_send(client, "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_int_equal(TEMP_FAILURE_RETRY(recv(client->fd, &(char){0}, 1, MSG_PEEK)), 1);
}

static void finish_download(struct http_client *client, const char *bytes)
{
    struct http_response response;

    http_receive(client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.body_length, LARGE);
    assert_memory_equal(response.body, bytes, LARGE);
    http_response_free(&response);
    http_close(client);
}

static json_int_t wanted(const struct server *server, const char *group)
{
    json_t *status = server_control(server, "status");
    json_int_t number =
        json_integer_value(json_object_get(json_object_get(status, group), "wanted"));

    json_decref(status);
    return number;
}

/*
 * "threads 1" moves connections to the remaining thread, and "workers 1" removes its worker as
 * well. The worker is stopped until both commands are sent.
 */
SERVER_TEST(download_outlives_its_thread_and_worker)
{
    enum { DOWNLOADS = 8 };
    char *bytes = malloc(LARGE);

    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 17 + i / 509);
    server_put(server, "/large.bin", bytes, LARGE);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client client[DOWNLOADS];
        pid_t worker[2];

        server_start(server, dispatches[i], "workers.drain_timeout=1h",
                     "connections.send_timeout=1h", NULL);
        for (int n = 0; n < DOWNLOADS; n++)
            begin_download(server, &client[n]);
        assert_int_equal(server_workers(server, worker, 2), 2);
        server_signal(worker[1], SIGSTOP);
        ask_for(server, "threads", 1);
        WAIT_UNTIL(wanted(server, "threads") == 1);
        ask_for(server, "workers", 1);
        WAIT_UNTIL(wanted(server, "workers") == 1);
        server_signal(worker[1], SIGCONT);
        server_do(server, "workers 1"); /* its reply does not wait for the downloads */
        for (int n = 0; n < DOWNLOADS; n++)
            finish_download(&client[n], bytes);
        server_do(server, "workers 1");
        server_expect_metric(server, "requests", DOWNLOADS);
        server_expect_metric(server, "responses_cut_short", 0);
        server_stop(server);
    }
    free(bytes);
}

/* --- Rejected changes --- */

/* Listen sockets opened for threads that never start would keep clients waiting. */
SERVER_TEST(rejected_resize_loses_no_request)
{
    enum { REQUESTS = 200 };
    static const char *const few_descriptors[] = {"sh", "-c", "ulimit -n 80 && exec \"$@\"", "sh",
                                                  NULL};
    const char *const no_options[] = {NULL};

    server_put_text(server, "/page.html", page);
    server_start_under(server, few_descriptors, no_options);
    server_rejects(server, "threads 60", "raise the limit");
    for (int i = 0; i < REQUESTS; i++)
        http_expect(server_port(server), "/page.html", 200);
    assert_int_equal(wanted(server, "threads"), 2);
    server_do(server, "threads 3");
    http_expect(server_port(server), "/page.html", 200);
    server_expect_metric(server, "requests", REQUESTS + 1);
    server_stop(server);
}

/* --- Distribution of connections --- */

/* Opens a connection and waits until it is counted in the expected worker. */
static void arrive(const struct server *server, struct http_client *client, uint64_t open)
{
    struct http_response response;

    http_open(client, server_port(server));
    http_send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); /* else accept() is deferred */
    http_receive(client, HTTP_WITH_BODY, &response);
    http_response_free(&response);
    server_expect_metric(server, "connections_open", open);
}

static void expect_open(const struct segment_reader *reader, uint32_t each)
{
    for (uint32_t slot = 0; slot < WORKERS; slot++)
        WAIT_UNTIL(atomic_load(&segment_worker(&reader->map, slot)->connections_open) == each);
}

static void expect_received(const struct segment_reader *reader, const uint64_t *counts)
{
    for (uint32_t slot = 0; slot < WORKERS; slot++)
        assert_int_equal(segment_reader_metric(reader, segment_worker(&reader->map, slot),
                                               METRIC_connections_received),
                         counts[slot]);
}

/*
 * Nine connections, three per worker. Then the connections of one worker close, and three new ones
 * arrive.
 */
SERVER_TEST(connections_follow_round_robin_or_least_connections)
{
    static const struct {
        const char *balance;
        uint64_t received[WORKERS]; /* expected afterwards */
    } cases[] = {{"workers.balance=round-robin", {4, 4, 4}},
                 /* what worker 0 claims gives it no more than an equal share */
                 {"workers.balance=least-connections", {4, 4, 4}}};
    static const uint64_t even[WORKERS] = {3, 3, 3};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_client client[3 * WORKERS];
        struct segment_reader reader;

        server_start(server, "workers.dispatch=master", cases[i].balance, "workers.processes=3",
                     "workers.balance_connections=off", NULL);
        server_attach(server, &reader);
        for (uint64_t n = 0; n < 3 * WORKERS; n++)
            arrive(server, &client[n], n + 1);
        expect_received(&reader, even);
        expect_open(&reader, 3);
        for (int n = 0; n < 3 * WORKERS; n += WORKERS) /* all connections of worker 0 */
            http_close(&client[n]);
        server_expect_metric(server, "connections_open", 6);
        WAIT_UNTIL(atomic_load(&segment_worker(&reader.map, 0)->connections_open) == 0);
        for (uint64_t n = 0; n < 3; n++)
            arrive(server, &client[n * WORKERS], 6 + n + 1);
        expect_received(&reader, cases[i].received);
        for (int n = 0; n < 3 * WORKERS; n++)
            http_close(&client[n]);
        segment_detach(&reader);
        server_stop(server);
    }
}

/* Number of serving threads with that scheduling policy. */
static long threads_scheduled(const struct server *server, int policy)
{
    char path[64], name[16];
    pid_t worker;
    struct dirent *task;
    long count = 0;
    DIR *tasks;

    assert_int_equal(server_workers(server, &worker, 1), 1);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)worker);
    assert_non_null(tasks = opendir(path));
    while ((task = readdir(tasks)) != NULL) {
        pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
        FILE *comm;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)worker, (int)thread);
        if (thread == 0 || (comm = fopen(path, "r")) == NULL)
            continue;
        if (fgets(name, sizeof(name), comm) != NULL && strcmp(name, "serving\n") == 0 &&
            sched_getscheduler(thread) == policy)
            count++;
        fclose(comm);
    }
    closedir(tasks);
    return count;
}

SERVER_TEST(threads_over_core_count_use_sched_batch)
{
    cpu_set_t cores;
    int crowd;

    assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
    crowd = CPU_COUNT(&cores) + 1;
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    WAIT_UNTIL(threads_scheduled(server, SCHED_OTHER) == 1);
    server_do(server, "threads %d", crowd);
    WAIT_UNTIL(threads_scheduled(server, SCHED_BATCH) == crowd);
    server_do(server, "threads 1");
    WAIT_UNTIL(threads_scheduled(server, SCHED_OTHER) == 1 &&
               threads_scheduled(server, SCHED_BATCH) == 0);
    server_stop(server);
}
