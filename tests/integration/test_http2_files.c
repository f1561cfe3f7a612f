/*
 * Large files over HTTP/2: a client that reads late while its connection moves, one that leaves, a
 * file that is only on disk, and one that shrinks.
 */
#include "http2_client.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct http2_frame frame;

/* Bytes that show a wrong place. The caller must free them. */
static char *make_bytes(size_t size)
{
    char *bytes = malloc(size);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i % 251 + i / 65521);
    return bytes;
}

/* Opens a connection whose windows hold up nothing. */
static void open_wide(struct http2_client *client, const struct server *server)
{
    static const uint32_t wide[][2] = {{SETTING_INITIAL_WINDOW_SIZE, 1 << 30}, {0, 0}};

    http2_open(client, server_port(server), wide);
    http2_open_window(client, 0, 1 << 30);
}

/* The socket is full, in the middle of a frame, when the connection moves; and again afterwards. */
SERVER_TEST(late_reader_gets_all_bytes_after_moves)
{
    enum { HUGE = 8 * 1024 * 1024, STREAMS = 3 };
    char *huge = make_bytes(HUGE);
    size_t received[STREAMS] = {0};
    struct http2_client client;
    int open = STREAMS;

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
SERVER_TEST(file_is_closed_with_the_connection)
{
    enum { HUGE = 32 * 1024 * 1024 };
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

enum { COLD_BYTES = 4 * 1024 * 1024 };

/* Starts a server that has opened /cold.bin. */
static void start_with_file(struct server *server, const char *bytes)
{
    struct http_client client;
    struct http_response response;

    server_put_text(server, "/a.txt", "aaaa");
    server_put(server, "/cold.bin", bytes, COLD_BYTES);
    server_start(server, "workers.processes=1", "workers.threads=1", "cache.revalidate=1h", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "HEAD /cold.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    http_receive(&client, HTTP_HEAD_ONLY, &response);
    http_response_free(&response);
    http_close(&client);
}

/* Leaves the file only on disk. Returns false if it is still in memory. */
static bool make_cold(const struct server *server)
{
    char path[SCRATCH_PATH_MAX];

    snprintf(path, sizeof(path), "%s/www/cold.bin", server_directory(server));
    return scratch_make_cold(path);
}

/* An offload thread reads it, because a serving thread does not wait for a disk. */
SERVER_TEST(file_that_is_only_on_disk_is_read_by_another_thread)
{
    char *bytes = make_bytes(COLD_BYTES);
    struct http2_client client;
    uint64_t before;
    bool was_cold = false, was_offloaded = false;

    start_with_file(server, bytes);
    before = server_metric(server, "offloaded");
    open_wide(&client, server);
    for (uint32_t i = 0; i < SCRATCH_COLD_TRIES && !was_offloaded; i++) {
        size_t received = 0;

        was_cold = make_cold(server) || was_cold;
        http2_request(&client, 2 * i + 1, FRAME_END_STREAM, "GET /cold.bin");
        while (received < COLD_BYTES) {
            http2_expect(&client, FRAME_DATA, 2 * i + 1, &frame);
            assert_in_range(received + frame.head.length, 0, COLD_BYTES);
            assert_memory_equal(frame.payload, bytes + received, frame.head.length);
            received += frame.head.length;
        }
        was_offloaded = server_metric(server, "offloaded") > before;
    }
    assert_true(was_offloaded || !was_cold);
    http2_close(&client);
    server_stop(server);
    free(bytes);
    if (!was_cold)
        skip();
}

/* Perhaps while an offload thread reads it: the stream exists until that is done. */
SERVER_TEST(stream_may_be_reset_while_its_file_is_read)
{
    enum { TIMES = 20 };
    char *bytes = make_bytes(COLD_BYTES);
    struct http2_client client;
    uint32_t stream = 1;

    start_with_file(server, bytes);
    /* No response ends before its reset: the window of a stream is smaller than the file. */
    http2_open(&client, server_port(server), NULL);
    http2_open_window(&client, 0, 1 << 30);
    for (int i = 0; i < TIMES; i++, stream += 2) {
        make_cold(server);
        http2_request(&client, stream, FRAME_END_STREAM, "GET /cold.bin");
        http2_expect(&client, FRAME_HEADERS, stream, &frame);
        http2_reset(&client, stream);
    }
    http2_request(&client, stream, FRAME_END_STREAM, "GET /a.txt");
    http2_expect(&client, FRAME_DATA, stream, &frame);
    assert_memory_equal(frame.payload, "aaaa", 4);
    server_expect_metric(server, "http2_resets", TIMES);
    http2_close(&client);
    server_expect_metric(server, "http2_streams", 0);
    server_stop(server);
    free(bytes);
}

/* The first frames of the response are sent before the client opens the windows. */
SERVER_TEST(truncated_file_resets_its_stream)
{
    enum { SIZE = 1024 * 1024 };
    static const uint32_t defaults[][2] = {{0, 0}};
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
