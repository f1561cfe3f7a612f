/*
 * The models pool and thread: one connection per thread, the connection queue with its policies, and
 * changes of the model under load.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const models[] = {"pool", "thread"};
static const char *const dispatches[] = {"kernel", "master"};

static void start(struct server *server, const char *model, const char *dispatch, const char *rest)
{
    server_put_text(server, "/a", "a");
    server_write_config(server,
                        "[workers]\nprocesses = 1\nmodel = %s\ndispatch = %s\n%s"
                        "[connections]\ndefer_accept = off\n",
                        model, dispatch, rest);
    server_start(server, NULL);
}

static void ask(struct http_client *client)
{
    http_send(client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
}

static void expect_status(struct http_client *client, int status)
{
    http_expect_response(client, status, NULL);
}

static void wait_for_queue(const struct server *server, uint64_t length)
{
    WAIT_UNTIL(server_metric(server, "queue_length") == length);
}

/* The client whose turn it is holds the only thread until it closes. */
SERVER_TEST(thread_serves_one_connection_until_it_closes)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models) * ARRAY_LENGTH(dispatches); i++) {
        struct http_client first, second;

        start(server, models[i / 2], dispatches[i % 2], "threads = 1\n");
        http_open(&first, server_port(server));
        ask(&first);
        expect_status(&first, 200);
        http_open(&second, server_port(server));
        ask(&second);
        wait_for_queue(server, 1);
        ask(&first);
        expect_status(&first, 200);
        http_close(&first);
        expect_status(&second, 200);
        http_close(&second);
        WAIT_UNTIL(server_metric(server, "connections_open") == 0);
        server_expect_metric(server, "queue_taken", 2);
        server_expect_metric(server, "threads_started", i / 2 == 1 ? 2 : 0);
        server_stop(server);
    }
}

/* Thread 0 is the acceptor. */
static bool is_in_state(const struct segment_reader *reader, uint32_t thread,
                        enum thread_state state)
{
    return atomic_load(&segment_thread(&reader->map, thread)->activity.state) == state;
}

SERVER_TEST(state_is_what_the_connection_waits_for)
{
    static char bytes[16 * 1024 * 1024]; /* more than the buffers of a socket */
    struct segment_reader reader;
    struct http_client client;

    server_put(server, "/large", bytes, sizeof(bytes));
    start(server, "pool", "kernel", "threads = 1\n");
    server_attach(server, &reader);
    WAIT_UNTIL(is_in_state(&reader, 1, THREAD_STATE_QUEUE));
    http_open(&client, server_port(server));
    http_send(&client, "GET /a HTTP/1.1\r\n");
    WAIT_UNTIL(is_in_state(&reader, 1, THREAD_STATE_READ));
    http_send(&client, "Host: x\r\n\r\n");
    expect_status(&client, 200);
    WAIT_UNTIL(is_in_state(&reader, 1, THREAD_STATE_KEEPALIVE));
    http_send(&client, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT_UNTIL(is_in_state(&reader, 1, THREAD_STATE_WRITE));
    http_close(&client);
    segment_detach(&reader);
    server_stop(server);
}

/* Its request and its end have arrived when a thread takes it. */
SERVER_TEST(client_that_left_the_queue_harms_nobody)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client holder, gone, last;

        start(server, models[i], "kernel", "threads = 1\n");
        http_open(&holder, server_port(server));
        ask(&holder);
        expect_status(&holder, 200);
        http_open(&gone, server_port(server));
        ask(&gone);
        wait_for_queue(server, 1);
        http_close(&gone);
        http_open(&last, server_port(server));
        ask(&last);
        wait_for_queue(server, 2);
        http_close(&holder);
        expect_status(&last, 200);
        http_close(&last);
        server_expect_metric(server, "workers_died", 0);
        free(log_with_lines(server, 3));
        server_stop(server);
    }
}

static void fill_queue(const struct server *server, struct http_client *client, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++) {
        http_open(&client[k], server_port(server));
        ask(&client[k]);
        WAIT_UNTIL(server_metric(server, "queue_length") + server_metric(server, "queue_dropped") ==
                   k + 1);
    }
}

/* A client holds the thread, and two of the others the places of the queue. */
SERVER_TEST(full_queue_drops_by_its_policy)
{
    static const struct {
        const char *policy;
        int status[4]; /* of the waiting clients */
    } cases[] = {
        {"drop-tail", {200, 200, 503, 503}},
        {"drop-head", {503, 503, 200, 200}},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases) * ARRAY_LENGTH(dispatches); i++) {
        const int *status = cases[i / 2].status;
        struct http_client holder, client[4];
        char text[256];

        snprintf(text, sizeof(text), "threads = 1\nconnection_queue = 2\nqueue_full = %s\n",
                 cases[i / 2].policy);
        start(server, "pool", dispatches[i % 2], text);
        http_open(&holder, server_port(server));
        ask(&holder);
        expect_status(&holder, 200);
        fill_queue(server, client, 4);
        for (int k = 0; k < 4; k++)
            if (status[k] == 503) {
                expect_status(&client[k], 503);
                http_expect_closed(&client[k]);
            }
        http_close(&holder);
        for (int k = 0; k < 4; k++) {
            if (status[k] == 200)
                expect_status(&client[k], 200);
            http_close(&client[k]);
        }
        server_expect_metric(server, "queue_dropped", 2);
        server_expect_metric(server, "responses_503", 2);
        free(log_with_lines(server, 5));
        server_stop(server);
    }
}

static json_int_t number_at(const json_t *object, const char *one, const char *member)
{
    return json_integer_value(json_object_get(json_object_get(object, one), member));
}

static json_t *first_worker(const json_t *status)
{
    return json_array_get(json_object_get(json_object_get(status, "workers"), "list"), 0);
}

static bool has_threads(const struct server *server, json_int_t count)
{
    json_t *status = server_control(server, "status");
    bool has = number_at(first_worker(status), "threads", "actual") == count;

    json_decref(status);
    return has;
}

SERVER_TEST(status_counts_the_acceptor_apart)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client client;
        json_t *status, *worker;

        start(server, models[i], "kernel", "threads = 3\n");
        http_open(&client, server_port(server));
        ask(&client);
        expect_status(&client, 200);
        WAIT_UNTIL(has_threads(server, i == 0 ? 3 : 1)); /* each reports itself */
        status = server_control(server, "status");
        worker = first_worker(status);
        assert_string_equal(json_string_value(json_object_get(status, "model")), models[i]);
        assert_string_equal(json_string_value(json_object_get(worker, "model")), models[i]);
        assert_int_equal(number_at(worker, "threads", "wanted"), 3);
        assert_int_equal(json_integer_value(json_object_get(worker, "acceptors")), 1);
        json_decref(status);
        http_close(&client);
        server_stop(server);
    }
}

/* HOLDER has the only thread, and the first two of COUNT clients have the places of the queue. */
static void fill_places(const struct server *server, struct http_client *holder,
                        struct http_client *client, size_t count)
{
    http_open(holder, server_port(server));
    ask(holder);
    expect_status(holder, 200);
    for (size_t k = 0; k < count; k++) {
        http_open(&client[k], server_port(server));
        ask(&client[k]);
        wait_for_queue(server, k < 2 ? k + 1 : 2);
    }
}

/* Nobody is dropped: those for whom the queue has no place wait in the kernel's. */
SERVER_TEST(full_queue_blocks)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client holder, client[6];

        start(server, models[i], "kernel", "threads = 1\nconnection_queue = 2\n");
        fill_places(server, &holder, client, ARRAY_LENGTH(client));
        http_close(&holder);
        for (size_t k = 0; k < ARRAY_LENGTH(client); k++) {
            expect_status(&client[k], 200);
            http_close(&client[k]);
        }
        server_expect_metric(server, "queue_dropped", 0);
        server_stop(server);
    }
}

/* The acceptor waits for a place when its thread ends. Those that it has not accepted are closed. */
SERVER_TEST(stop_with_a_full_queue_serves_it)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client holder, client[3];
        struct segment_reader reader;

        start(server, models[i], "kernel", "threads = 1\nconnection_queue = 2\n");
        server_attach(server, &reader);
        fill_places(server, &holder, client, ARRAY_LENGTH(client));
        WAIT_UNTIL(is_in_state(&reader, 0, THREAD_STATE_BLOCKED));
        segment_detach(&reader);
        server_do(server, "stop");
        for (size_t k = 0; k < 2; k++)
            expect_status(&client[k], 200);
        for (size_t k = 0; k < ARRAY_LENGTH(client); k++)
            http_close(&client[k]);
        http_close(&holder);
        server_stopped(server);
        assert_false(server_has_printed(server, "was killed"));
    }
}

/* The order to leave follows connections for which the queue has no place. The thread's own stays idle. */
SERVER_TEST(worker_with_a_full_queue_leaves)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client holder, client[6];

        start(server, models[i], "master", "threads = 1\nconnection_queue = 2\n");
        fill_places(server, &holder, client, ARRAY_LENGTH(client));
        server_do(server, "model events");
        for (size_t k = 0; k < ARRAY_LENGTH(client); k++) {
            expect_status(&client[k], 200);
            http_close(&client[k]);
        }
        ask(&holder);
        expect_status(&holder, 200);
        http_close(&holder);
        server_expect_metric(server, "workers_died", 0);
        server_stop(server);
    }
}

/* The size is known from the cache, from the file system, or not at all. */
SERVER_TEST(smallest_file_is_served_first)
{
    static const char *const targets[] = {"/large", "/middle", "/small", "/absent", "/dir/"};
    static const size_t turns[] = {3, 4, 2, 1, 0};
    static const char bytes[200000] = "";

    server_put(server, "/large", bytes, sizeof(bytes));
    server_put(server, "/middle", bytes, 5000);
    server_put(server, "/dir/index.html", bytes, 100);
    server_put(server, "/small", bytes, 1000);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client holder, client[ARRAY_LENGTH(targets)];
        pid_t worker;

        server_put_text(server, "/a", "a");
        server_write_config(server,
                            "[workers]\nprocesses = 1\nmodel = pool\nthreads = 1\ndispatch = %s\n"
                            "queue_order = sff\n",
                            dispatches[i]);
        server_start(server, NULL);
        http_open(&holder, server_port(server));
        ask(&holder);
        expect_status(&holder, 200);
        assert_int_equal(server_workers(server, &worker, 1), 1);
        for (size_t k = 0; k < ARRAY_LENGTH(targets); k++) {
            char text[64];

            snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[k]);
            server_freeze(worker); /* the request arrives before its connection is accepted */
            http_open(&client[k], server_port(server));
            http_send(&client[k], text);
            server_signal(worker, SIGCONT);
            wait_for_queue(server, k + 1);
        }
        http_close(&holder);
        for (size_t k = 0; k < ARRAY_LENGTH(turns); k++) {
            expect_status(&client[turns[k]], turns[k] == 3 ? 404 : 200);
            http_close(&client[turns[k]]);
        }
        server_stop(server);
    }
}

/* NOTE is at AT of the answer to LINE. */
static void expect_note(const struct server *server, const char *line, size_t at, const char *note)
{
    json_t *answer = server_control(server, "%s", line);

    assert_true(json_is_true(json_object_get(answer, "ok")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(answer, "notes"), at)),
                        note);
    json_decref(answer);
}

#define NOTE_ORDER "workers.queue_order has no effect without workers.model = pool or thread"
#define NOTE_PLACES                                                                                \
    "workers.connection_queue has no effect without workers.model = pool or thread, or "           \
    "workers.dispatch = master"
#define NOTE_BALANCE "workers.balance_connections has no effect without workers.model = events"

SERVER_TEST(command_changes_the_queue)
{
    start(server, "pool", "kernel", "threads = 1\n");
    server_expect_metric(server, "queue_capacity", 1024);
    server_do(server, "queue lifo drop-tail 5");
    WAIT_UNTIL(server_metric(server, "queue_capacity") == 5);
    server_rejects(server, "queue sometimes", "invalid word 'sometimes'");
    server_rejects(server, "queue fifo 0", "invalid word '0'");
    server_rejects(server, "queue fifo sff", "'sff' is a second value of queue_order");
    server_rejects(server, "model fork", "invalid model 'fork' (valid: events, pool, thread)");
    server_rejects(server, "offload-threads 3", "model pool has no offload threads");
    server_rejects(server, "balance on", "model pool moves no connections: set model = events");
    expect_note(server, "model", 0, "model = pool speaks HTTP/1 only: http2.enabled has no effect");
    expect_note(server, "balance", 0, NOTE_BALANCE);
    expect_note(server, "model events", 0, NOTE_PLACES);
    expect_note(server, "queue sff", 1, NOTE_ORDER);
    expect_note(server, "reload", 0,
                "model = pool speaks HTTP/1 only: http2.enabled has no effect");
    expect_note(server, "model thread", 1, "the caches of the new workers are empty");
    server_stop(server);
}

static json_int_t threads_after(const struct server *server, const char *line)
{
    json_t *answer = server_control(server, "%s", line);
    json_int_t wanted = json_integer_value(json_object_get(answer, "wanted"));

    assert_true(json_is_true(json_object_get(answer, "ok")));
    json_decref(answer);
    return wanted;
}

SERVER_TEST(command_model_applies_auto_threads)
{
    start(server, "pool", "kernel", "max_threads = 20\n");
    assert_int_equal(threads_after(server, "model"), 16);
    assert_int_equal(threads_after(server, "model thread"), 19);
    assert_in_range(threads_after(server, "model events"), 1, 20);
    assert_int_equal(threads_after(server, "model pool"), 16);
    assert_int_equal(threads_after(server, "threads 3"), 3);
    assert_int_equal(threads_after(server, "model thread"), 3);
    server_stop(server);
}

/* Each request is answered and logged once, whatever changes meanwhile. */
SERVER_TEST(changes_lose_no_request)
{
    static const char *const steps[] = {
        "model thread", "threads 9",  "model events", "model pool", "threads 12",
        "queue lifo 3", "workers 2",  "restart all",  "threads 7",  "model thread",
        "reload",       "model pool", "queue fifo 9", "workers 1",  "model events"};

    for (size_t i = 0; i < ARRAY_LENGTH(dispatches) * 2; i++) {
        const struct load_plan plan = {.port = 0,
                                       .clients = 4,
                                       .each_connects = i >= 2,
                                       .target = "/a",
                                       .body = "a",
                                       .body_length = 1};
        struct load_plan own = plan;
        struct load_result result;
        struct load *load;

        unlink(server_log(server));
        start(server, "pool", dispatches[i % 2], "threads = 8\n");
        own.port = server_port(server);
        load = load_start(&own);
        load_pass(load, 10);
        for (size_t k = 0; k < ARRAY_LENGTH(steps); k++) {
            server_do(server, "%s", steps[k]);
            load_pass(load, 10);
        }
        result = load_finish(load);
        load_check(&result);
        log_check_load(server, "/a", 1, result.responses);
        server_stop(server);
    }
}

/* In the model thread, a thread starts for each while others end. */
SERVER_TEST(stop_serves_what_waits)
{
    for (size_t i = 0; i < ARRAY_LENGTH(models); i++) {
        struct http_client holder, client[3];

        unlink(server_log(server));
        start(server, models[i], "kernel", "threads = 1\n");
        http_open(&holder, server_port(server));
        ask(&holder);
        expect_status(&holder, 200);
        for (size_t k = 0; k < ARRAY_LENGTH(client); k++) {
            http_open(&client[k], server_port(server));
            ask(&client[k]);
            wait_for_queue(server, k + 1);
        }
        server_do(server, "stop");
        for (size_t k = 0; k < ARRAY_LENGTH(client); k++) {
            expect_status(&client[k], 200);
            http_close(&client[k]);
        }
        http_close(&holder);
        server_stopped(server);
        free(log_with_lines(server, 4));
    }
}

SERVER_TEST(impossible_settings_are_errors)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[workers]\nmodel = fork\n", "events, pool, thread"},
        {"[workers]\nmodel = pool\nthreads = 8\nmax_threads = 8\n",
         "model = pool: its acceptor needs a place"},
        {"[workers]\nqueue_full = drop\n", "block, drop-tail, drop-head, drop-random"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        static const char *const none[] = {NULL};
        char *printed;

        server_write_config(server, "%s", cases[i].text);
        assert_int_not_equal(server_start_rejected(server, &printed, none), 0);
        assert_non_null(strstr(printed, cases[i].words));
        free(printed);
    }
}
