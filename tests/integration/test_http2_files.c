/*
 * Large files over HTTP/2: a client that reads late while its connection moves, one that leaves,
 * and a file that shrinks.
 */
#include "http2_client.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct http2_frame frame;

/* Opens a connection whose windows hold up nothing. */
static void open_wide(struct http2_client *client, const struct server *server)
{
    static const uint32_t wide[][2] = {{SETTING_INITIAL_WINDOW_SIZE, 1 << 30}, {0, 0}};

    http2_open(client, server_port(server), wide);
    http2_open_window(client, 0, 1 << 30);
}

/* The socket is full, in the middle of a frame, when the connection moves; and again afterwards. */
static void late_reader_gets_all_bytes_after_moves(void **state)
{
    enum { HUGE = 8 * 1024 * 1024, STREAMS = 3 };
    struct server *server = *state;
    char *huge = malloc(HUGE);
    size_t received[STREAMS] = {0};
    struct http2_client client;
    int open = STREAMS;

    assert_non_null(huge);
    for (size_t i = 0; i < HUGE; i++)
        huge[i] = (char)(i % 251 + i / 65521);
    server_put(server, "/huge.bin", huge, HUGE);
    server_start(server, "workers.processes=1", "workers.threads=1", "connections.min_send_rate=0",
                 NULL);
    open_wide(&client, server);
    for (uint32_t i = 0; i < STREAMS; i++)
        http2_request(&client, 2 * i + 1, FRAME_END_STREAM, "GET /huge.bin\npriority: i");
    WAIT_UNTIL(server_metric(server, "connections_busy") == 1);
    server_do(server, "threads 3");
    server_do(server, "threads 1");
    WAIT_UNTIL(server_metric(server, "connections_busy") == 1);
    while (open > 0) {
        size_t of;

        assert_true(http2_next(&client, &frame));
        if (frame.head.type != FRAME_DATA)
            continue;
        of = frame.head.stream / 2;
        assert_in_range(received[of] + frame.head.length, 0, HUGE);
        assert_memory_equal(frame.payload, huge + received[of], frame.head.length);
        received[of] += frame.head.length;
        open -= (frame.head.flags & FRAME_END_STREAM) != 0;
    }
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(received[i], HUGE);
    server_expect_metric(server, "responses_cut_short", 0);
    server_expect_metric(server, "connections_busy", 0);
    http2_close(&client);
    server_stop(server);
    assert_int_equal(log_count_lines(server), STREAMS);
    free(huge);
}

static bool has_open(pid_t pid, const char *name)
{
    char command[100];

    snprintf(command, sizeof(command), "ls -l /proc/%d/fd | grep -q %s", pid, name);
    return system(command) == 0;
}

/* A client that leaves while bytes of a file are unsent. */
static void file_is_closed_with_the_connection(void **state)
{
    enum { HUGE = 32 * 1024 * 1024 };
    struct server *server = *state;
    char *huge = calloc(1, HUGE);
    struct http2_client client;
    pid_t worker = 0;

    assert_non_null(huge);
    server_put(server, "/huge.bin", huge, HUGE);
    server_start(server, "workers.processes=1", "workers.threads=1", "cache.enabled=off", NULL);
    open_wide(&client, server);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /huge.bin");
    WAIT_UNTIL(server_metric(server, "connections_busy") == 1);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    WAIT_UNTIL(has_open(worker, "huge.bin"));
    http2_close(&client);
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "responses_cut_short", 1);
    WAIT_UNTIL(!has_open(worker, "huge.bin"));
    server_stop(server);
    free(huge);
}

/* The first frames of the response are sent before the client opens the windows. */
static void truncated_file_resets_its_stream(void **state)
{
    enum { SIZE = 1024 * 1024 };
    static const uint32_t defaults[][2] = {{0, 0}};
    struct server *server = *state;
    struct http2_client client;
    char path[SCRATCH_PATH_MAX];
    size_t received = 0;

    server_put_text(server, "/a.txt", "aaaa");
    server_put_text(server, "/large.bin", "");
    snprintf(path, sizeof(path), "%s/www/large.bin", server_directory(server));
    assert_int_equal(truncate(path, SIZE), 0);
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    http2_open(&client, server_port(server), defaults);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.bin");
    while (received < 65535) {
        http2_expect(&client, FRAME_DATA, 1, &frame);
        received += frame.head.length;
    }
    assert_int_equal(truncate(path, 1000), 0);
    http2_open_window(&client, 0, SIZE);
    http2_open_window(&client, 1, SIZE);
    http2_expect_reset(&client, 1, HTTP2_INTERNAL_ERROR);
    http2_check(&client, 3, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_expect_metric(server, "responses_cut_short", 1);
    server_stop(server);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, server_set_up, server_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(late_reader_gets_all_bytes_after_moves),
        TEST(file_is_closed_with_the_connection),
        TEST(truncated_file_resets_its_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
