/*
 * HTTP/2 with prior knowledge, frame by frame: requests, bodies, flow control, priorities, limits,
 * errors, and the ends of connections (RFC 9113, RFC 9218). tests/integration/rfc/ has the semantics
 * that both versions share, and h2spec the errors of syntax.
 */
#include "http2_client.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/clock.h"
#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGE = 300 * 1000 };

/* Settings of a client whose streams can receive nothing. */
static const uint32_t closed_windows[][2] = {{SETTING_INITIAL_WINDOW_SIZE, 0}, {0, 0}};

static char large[LARGE + 1];
static struct http2_frame frame;

static void start(struct server *server, const char *option)
{
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)('a' + (i * 31 + i / 251) % 26);
    server_put_text(server, "/a.txt", "aaaa");
    server_put(server, "/large.txt", large, LARGE); /* sent from the file */
    server_put(server, "/medium.txt", large, 20000);
    server_start(server, "workers.processes=1", "workers.threads=1", option, NULL);
}

/* --- Requests --- */

SERVER_TEST(preface_in_pieces_begins_http2)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    struct http2_client client;
    struct http_client bare;

    start(server, NULL);
    http_open(&bare, server_port(server));
    for (size_t i = 0; i < sizeof(preface) - 1; i++)
        http_say_bytes(&bare, preface + i, 1);
    client = (struct http2_client){.http = bare};
    assert_true(http2_next(&client, &frame));
    assert_int_equal(frame.head.type, FRAME_SETTINGS);
    http2_expect(&client, FRAME_SETTINGS, 0, &frame); /* the acknowledgement */
    http_close(&client.http);
    server_stop(server);
}

SERVER_TEST(other_requests_stay_http1)
{
    struct http_response response;

    start(server, NULL);
    http_request(server_port(server), "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", &response);
    assert_int_equal(response.status, 505);
    http_response_free(&response);
    http_request(server_port(server), "PRINT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                 &response);
    assert_int_equal(response.status, 501);
    http_response_free(&response);
    server_stop(server);
}

SERVER_TEST(switched_off_it_is_rejected)
{
    struct http_response response;

    start(server, "http2.enabled=off");
    http_request(server_port(server), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &response);
    assert_int_equal(response.status, 505);
    http_response_free(&response);
    server_stop(server);
}

/* The line of LOG that contains REQUEST, if it ends with END; else NULL. */
static const char *log_line_ends(const char *log, const char *request, const char *end)
{
    const char *line = strstr(log, request);
    size_t length = line != NULL ? strcspn(line, "\n") : 0;

    return length >= strlen(end) && memcmp(line + length - strlen(end), end, strlen(end)) == 0
               ? line
               : NULL;
}

SERVER_TEST(each_stream_is_a_request_with_a_log_line)
{
    struct http_response response;
    struct http2_client client;
    char *log;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_check(&client, 1, "GET /a.txt", 200, "aaaa");
    http2_check(&client, 3, "HEAD /a.txt", 200, "");
    http2_check(&client, 5, "GET /none", 404, NULL);
    http2_check(&client, 9, "GET /large.txt", 200, large);
    http2_request(&client, 11, FRAME_END_STREAM,
                  "GET /a.txt\nuser-agent: probe\nreferer: there\nrange: bytes=1-2");
    http2_receive(&client, 11, &response);
    assert_int_equal(response.status, 206);
    assert_string_equal(response.body, "aa");
    assert_string_equal(http_field(&response, "content-range"), "bytes 1-2/4");
    http_response_free(&response);
    http2_close(&client);
    server_expect_metric(server, "requests_http2", 5);
    server_expect_metric(server, "connections_http2", 1);
    log = log_with_lines(server, 5);
    assert_non_null(strstr(log, "\"GET /a.txt HTTP/2.0\" 200 4 \"-\" \"-\"\n"));
    assert_non_null(strstr(log, "\"HEAD /a.txt HTTP/2.0\" 200 0 "));
    assert_non_null(strstr(log, "\"GET /large.txt HTTP/2.0\" 200 300000 "));
    assert_non_null(strstr(log, "\"GET /a.txt HTTP/2.0\" 206 2 \"there\" \"probe\"\n"));
    free(log);
    server_stop(server);
}

/* Streams that wait for a window stay open. */
SERVER_TEST(json_log_counts_open_streams)
{
    static const char *const requests[] = {"GET /a.txt", "GET /large.txt", "GET /medium.txt"};
    struct http2_client client;
    char *log;

    start(server, "log.format=json");
    http2_open(&client, server_port(server), closed_windows);
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        http2_request(&client, stream, FRAME_END_STREAM, requests[stream / 2]);
        http2_expect(&client, FRAME_HEADERS, stream, &frame);
    }
    http2_reset(&client, 3);
    http2_request(&client, 7, FRAME_END_STREAM, "HEAD /a.txt");
    http2_expect(&client, FRAME_HEADERS, 7, &frame);
    http2_close(&client);
    log = log_with_lines(server, 4);
    assert_non_null(log_line_ends(log, "GET /a.txt", "\"protocol\":\"HTTP/2.0\",\"streams\":1}"));
    assert_non_null(log_line_ends(log, "GET /large", "\"protocol\":\"HTTP/2.0\",\"streams\":2}"));
    assert_non_null(log_line_ends(log, "GET /medium", "\"protocol\":\"HTTP/2.0\",\"streams\":3}"));
    assert_non_null(log_line_ends(log, "HEAD /a.txt", "\"protocol\":\"HTTP/2.0\",\"streams\":3}"));
    assert_non_null(strstr(log, "\"bytes\":0,"));
    free(log);
    server_stop(server);
}

SERVER_TEST(several_ranges_are_parts)
{
    struct http_response response;
    struct http2_client client;
    const char *first, *second;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt\nrange: bytes=0-9,200000-249999");
    http2_receive(&client, 1, &response);
    assert_int_equal(response.status, 206);
    first = strstr(response.body, "\r\n\r\n");
    assert_memory_equal(first + 4, large, 10);
    second = strstr(first + 4, "\r\n\r\n");
    assert_memory_equal(second + 4, large + 200000, 50000);
    assert_int_equal(response.body_length, atol(http_field(&response, "content-length")));
    http_response_free(&response);
    http2_close(&client);
    server_stop(server);
}

/* The first frame of a header block is followed by one frame for each byte of the rest. */
SERVER_TEST(header_block_may_come_in_pieces)
{
    struct http_response response;
    struct http2_client client;
    char block[256];
    size_t length;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    length = http2_encode(&client, "GET /a.txt", block, sizeof(block));
    http2_send(&client, (struct frame_head){1, FRAME_HEADERS, FRAME_END_STREAM, 1}, block);
    for (size_t i = 1; i < length; i++)
        http2_send(
            &client,
            (struct frame_head){1, FRAME_CONTINUATION, i + 1 == length ? FRAME_END_HEADERS : 0, 1},
            block + i);
    http2_receive(&client, 1, &response);
    assert_string_equal(response.body, "aaaa");
    http_response_free(&response);
    http2_close(&client);
    server_stop(server);
}

/* A client that allows no dynamic table is told that there is none. */
SERVER_TEST(smaller_table_is_acknowledged_in_a_block)
{
    static const uint32_t no_table[][2] = {{SETTING_HEADER_TABLE_SIZE, 0}, {0, 0}};
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), no_table);
    nghttp2_hd_inflate_change_table_size(client.inflater, 0); /* it then requires the update */
    http2_check(&client, 1, "GET /a.txt", 200, "aaaa");
    http2_check(&client, 3, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(oversized_requests_are_rejected_on_their_stream)
{
    static char path[10000], field[30000], request[50000];
    struct http2_client client;

    start(server, NULL);
    memset(path, 'p', sizeof(path) - 1);
    memset(field, 'f', sizeof(field) - 1);
    http2_open(&client, server_port(server), NULL);
    snprintf(request, sizeof(request), "GET /%s", path);
    http2_check(&client, 1, request, 414, NULL);
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt"); /* the stream between them */
    http2_expect(&client, FRAME_DATA, 3, &frame);
    snprintf(request, sizeof(request), "GET /\nx: %s\ny: %s", field, path);
    {
        static char block[60000];
        size_t length = http2_encode(&client, request, block, sizeof(block));
        size_t half = length / 2;

        assert_true(half <= FRAME_PAYLOAD_MAX);
        http2_send(&client, (struct frame_head){(uint32_t)half, FRAME_HEADERS, FRAME_END_STREAM, 5},
                   block);
        http2_send(&client,
                   (struct frame_head){(uint32_t)(length - half), FRAME_CONTINUATION,
                                       FRAME_END_HEADERS, 5},
                   block + half);
    }
    http2_expect(&client, FRAME_HEADERS, 5, &frame);
    assert_int_equal(http2_status(&client, &frame), 431);
    http2_expect(&client, FRAME_DATA, 5, &frame);
    http2_check(&client, 7, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_stop(server);
}

/* --- Bodies of requests --- */

static void send_data(struct http2_client *client, uint32_t stream, const char *text, bool last)
{
    http2_send(client,
               (struct frame_head){(uint32_t)strlen(text), FRAME_DATA, last ? FRAME_END_STREAM : 0,
                                   stream},
               text);
}

static void expect_status(struct http2_client *client, uint32_t stream, int status)
{
    http2_expect(client, FRAME_HEADERS, stream, &frame);
    assert_int_equal(http2_status(client, &frame), status);
}

SERVER_TEST(body_is_read_before_the_response)
{
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, 0, "POST /a.txt\ncontent-length: 10");
    send_data(&client, 1, "01234", false);
    http2_check(&client, 3, "GET /a.txt", 200, "aaaa"); /* nothing on stream 1 before it */
    send_data(&client, 1, "56789", true);
    expect_status(&client, 1, 405);
    http2_request(&client, 5, 0, "GET /a.txt"); /* of unknown length, with trailers */
    send_data(&client, 5, "x", false);
    http2_send(&client,
               (struct frame_head){4, FRAME_HEADERS, FRAME_END_STREAM | FRAME_END_HEADERS, 5},
               "\x00\x01x\x00");
    expect_status(&client, 5, 200);
    http2_close(&client);
    server_stop(server);
}

/* More than the windows of stream and connection; the server opens them again. */
SERVER_TEST(long_body_needs_windows)
{
    enum { PIECE = 16000, ALL = 400000 };
    static char zeros[PIECE];
    struct http2_client client;
    int64_t stream_window = 65535, window = 65535;
    long sent = 0;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, 0, "GET /a.txt");
    while (sent < ALL) {
        if (stream_window >= PIECE && window >= PIECE) {
            http2_send(&client, (struct frame_head){PIECE, FRAME_DATA, 0, 1}, zeros);
            stream_window -= PIECE;
            window -= PIECE;
            sent += PIECE;
            continue;
        }
        assert_true(http2_next(&client, &frame));
        if (frame.head.type == FRAME_WINDOW_UPDATE && frame.head.stream == 1)
            stream_window += frame_read_31(frame.payload);
        else if (frame.head.type == FRAME_WINDOW_UPDATE)
            window += frame_read_31(frame.payload);
        else
            assert_int_equal(frame.head.type, FRAME_SETTINGS);
    }
    send_data(&client, 1, "", true);
    expect_status(&client, 1, 200);
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(body_over_the_limit_is_413)
{
    struct http2_client client;

    start(server, "limits.body_bytes=10");
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, 0, "POST /a.txt\ncontent-length: 11");
    expect_status(&client, 1, 413);
    http2_expect_reset(&client, 1, HTTP2_NO_ERROR);
    http2_request(&client, 3, 0, "POST /a.txt");
    send_data(&client, 3, "0123456789", false);
    send_data(&client, 3, "0", false);
    expect_status(&client, 3, 413);
    http2_expect_reset(&client, 3, HTTP2_NO_ERROR);
    send_data(&client, 3, "on its way", true); /* ignored */
    http2_check(&client, 5, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(body_of_another_length_is_malformed)
{
    static const struct {
        const char *request, *body;
    } cases[] = {
        {"POST /a.txt\ncontent-length: 3", "01"},
        {"POST /a.txt\ncontent-length: 3", "0123"},
        {"POST /a.txt\ncontent-length: 0", "0"},
    };
    struct http2_client client;
    uint32_t stream = 1;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++, stream += 2) {
        http2_request(&client, stream, 0, cases[i].request);
        send_data(&client, stream, cases[i].body, true);
        http2_expect_reset(&client, stream, HTTP2_PROTOCOL_ERROR);
    }
    http2_check(&client, stream, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(continue_is_sent_if_expected)
{
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, 0, "GET /a.txt\ncontent-length: 2\nexpect: 100-continue");
    expect_status(&client, 1, 100);
    send_data(&client, 1, "ab", true);
    expect_status(&client, 1, 200);
    http2_request(&client, 3, 0, "POST /a.txt\ncontent-length: 2\nexpect: 100-continue");
    expect_status(&client, 3, 405); /* the body is not wanted */
    http2_expect_reset(&client, 3, HTTP2_NO_ERROR);
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(slow_body_is_408)
{
    struct http2_client client;

    start(server, "connections.body_timeout=1s");
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, 0, "GET /a.txt\ncontent-length: 2");
    expect_status(&client, 1, 408);
    http2_expect_reset(&client, 1, HTTP2_NO_ERROR);
    http2_check(&client, 3, "GET /a.txt", 200, "aaaa");
    http2_close(&client);
    server_stop(server);
}

/* --- Flow control --- */

/* Reads DATA of STREAM up to LENGTH bytes from OFFSET of the large file; nothing else may come. */
static void expect_data(struct http2_client *client, uint32_t stream, size_t offset, size_t length)
{
    while (length > 0) {
        http2_expect(client, FRAME_DATA, stream, &frame);
        assert_true(frame.head.length <= length);
        assert_memory_equal(frame.payload, large + offset, frame.head.length);
        offset += frame.head.length;
        length -= frame.head.length;
    }
}

/* Checks that the server has sent everything that it may: the answer to a PING comes next. */
static void expect_no_data(struct http2_client *client)
{
    http2_ping(client, 0, "nothing?");
    do {
        assert_true(http2_next(client, &frame));
        assert_int_not_equal(frame.head.type, FRAME_DATA);
    } while (frame.head.type != FRAME_PING);
}

SERVER_TEST(data_stays_within_the_windows)
{
    static const char *const targets[] = {"GET /large.txt", "GET /medium.txt"};
    struct http2_client client;

    start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
        http2_open(&client, server_port(server), closed_windows);
        http2_request(&client, 1, FRAME_END_STREAM, targets[i]);
        http2_expect(&client, FRAME_HEADERS, 1, &frame);
        expect_no_data(&client);
        http2_open_window(&client, 1, 1);
        expect_data(&client, 1, 0, 1);
        expect_no_data(&client);
        http2_open_window(&client, 1, 9999);
        expect_data(&client, 1, 1, 9999);
        expect_no_data(&client);
        http2_set(&client, SETTING_INITIAL_WINDOW_SIZE, 5000); /* of open streams, too */
        expect_data(&client, 1, 10000, 5000);
        http2_set(&client, SETTING_INITIAL_WINDOW_SIZE, 1000); /* it is now -4000 */
        http2_open_window(&client, 1, 4000);
        expect_no_data(&client);
        http2_open_window(&client, 1, 10);
        expect_data(&client, 1, 15000, 10);
        expect_no_data(&client);
        http2_close(&client);
    }
    server_stop(server);
}

/* 65535 bytes for all streams together, until the client opens the window of the connection. */
SERVER_TEST(data_stays_within_the_window_of_the_connection)
{
    static const uint32_t open_windows[][2] = {{SETTING_INITIAL_WINDOW_SIZE, 1 << 20}, {0, 0}};
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), open_windows);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    expect_data(&client, 1, 0, 65535);
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt");
    expect_no_data(&client);
    http2_open_window(&client, 0, 1 << 20);
    expect_data(&client, 1, 65535, LARGE - 65535);
    http2_expect(&client, FRAME_DATA, 3, &frame);
    assert_memory_equal(frame.payload, "aaaa", 4);
    http2_close(&client);
    server_stop(server);
}

/* --- Priorities --- */

/*
 * Opens streams 1, 3, ... for the large file with these values of Priority, then the windows, but
 * that of the connection to BYTES.
 */
static void open_streams(struct http2_client *client, const struct server *server,
                         const char *const *priorities, size_t count)
{
    char request[100];

    http2_open(client, server_port(server), closed_windows);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(request, sizeof(request), "GET /large.txt\npriority: %s", priorities[i]);
        http2_request(client, 2 * i + 1, FRAME_END_STREAM, request);
        http2_expect(client, FRAME_HEADERS, 2 * i + 1, &frame);
    }
}

static void open_windows(struct http2_client *client)
{
    http2_set(client, SETTING_INITIAL_WINDOW_SIZE, 1 << 20);
}

SERVER_TEST(streams_are_served_by_urgency)
{
    static const char *const priorities[] = {"u=5", "u=1", "u=3", "u=7"};
    static const uint32_t order[] = {7, 3, 5, 1};
    struct http2_client client;

    start(server, NULL);
    open_streams(&client, server, priorities, ARRAY_LENGTH(priorities));
    http2_send(&client, (struct frame_head){7, FRAME_PRIORITY_UPDATE, 0, 0}, "\0\0\0\x07u=0");
    expect_no_data(&client);
    http2_open_window(&client, 0, 1 << 24);
    open_windows(&client);
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++)
        for (size_t got = 0; got < LARGE; got += frame.head.length) {
            do
                assert_true(http2_next(&client, &frame));
            while (frame.head.type != FRAME_DATA);
            assert_int_equal(frame.head.stream, order[i]);
        }
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(incremental_streams_take_turns)
{
    static const char *const priorities[] = {"u=3, i", "u=3, i", "u=3, i"};
    struct http2_client client;
    size_t got[3] = {0}, all = 0;

    start(server, NULL);
    open_streams(&client, server, priorities, ARRAY_LENGTH(priorities));
    http2_open_window(&client, 0, 1 << 24);
    open_windows(&client);
    while (all < 3 * LARGE) {
        size_t most = 0, least = SIZE_MAX;

        http2_next(&client, &frame);
        if (frame.head.type != FRAME_DATA)
            continue;
        got[frame.head.stream / 2] += frame.head.length;
        all += frame.head.length;
        for (size_t i = 0; i < 3; i++) {
            most = got[i] > most ? got[i] : most;
            least = got[i] < least ? got[i] : least;
        }
        assert_true(most - least <= 2 * FRAME_PAYLOAD_MAX);
    }
    http2_close(&client);
    server_stop(server);
}

/* More than the log rings have space for; the logger takes nothing meanwhile. */
SERVER_TEST(held_streams_that_end_together_are_all_logged)
{
    enum { CLIENTS = 20, STREAMS = 100, LINES = CLIENTS * STREAMS + 1 };
    struct http2_client clients[CLIENTS];
    pid_t logger;

    server_put_text(server, "/a.txt", "aaaa");
    server_start(server, "log.ring=64K", "log.wait_timeout=1h", "workers.processes=1",
                 "workers.threads=1", "workers.heartbeat_timeout=0", NULL);
    http_expect(server_port(server), "/a.txt",
                200); /* cached: each stream has its response at once */
    for (int i = 0; i < CLIENTS; i++) {
        http2_open(&clients[i], server_port(server), closed_windows);
        for (uint32_t stream = 0; stream < STREAMS; stream++)
            http2_request(&clients[i], 2 * stream + 1, FRAME_END_STREAM, "GET /a.txt");
    }
    WAIT_UNTIL(server_metric(server, "http2_streams") == CLIENTS * STREAMS);
    logger = server_logger(server);
    server_signal(logger, SIGSTOP);
    for (int i = 0; i < CLIENTS; i++)
        http2_close(&clients[i]);
    WAIT_UNTIL(server_metric(server, "http2_streams") == 0);
    server_expect_metric(server, "log_dropped", 0);
    server_signal(logger, SIGCONT);
    WAIT_UNTIL(log_count_lines(server) >= LINES);
    server_stop(server);
    assert_int_equal(log_count_lines(server), LINES);
}

/* --- Limits --- */

SERVER_TEST(streams_over_the_limit_are_refused)
{
    struct http2_client client;

    start(server, "http2.max_concurrent_streams=2");
    http_expect(server_port(server), "/a.txt", 200); /* it is then in the cache */
    http2_open(&client, server_port(server), closed_windows);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /a.txt\nx: y");
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt\nx: y");
    http2_request(&client, 5, FRAME_END_STREAM, "GET /a.txt\nkept: in the table");
    http2_expect_reset(&client, 5, HTTP2_REFUSED_STREAM);
    http2_reset(&client, 1);
    http2_request(&client, 7, FRAME_END_STREAM, "GET /a.txt\nkept: in the table");
    expect_status(&client, 7, 200);
    http2_close(&client);
    server_expect_metric(server, "http2_refused", 1);
    server_expect_metric(server, "http2_resets", 1);
    server_stop(server);
}

/* Sends one frame, or what belongs together, of a flood. Other kinds: tests/unit/daemon/http2/test_frames.c */
typedef void flood_step(struct http2_client *client, uint32_t number);

static void reset_stream(struct http2_client *client, uint32_t number)
{
    http2_request(client, 2 * number + 1, FRAME_END_STREAM, "GET /a.txt");
    http2_reset(client, 2 * number + 1);
}

static void send_empty_data(struct http2_client *client, uint32_t number)
{
    if (number == 0)
        http2_request(client, 1, 0, "POST /a.txt");
    http2_send(client, (struct frame_head){0, FRAME_DATA, 0, 1}, "");
}

static void send_malformed(struct http2_client *client, uint32_t number)
{
    http2_send(
        client,
        (struct frame_head){1, FRAME_HEADERS, FRAME_END_STREAM | FRAME_END_HEADERS, 2 * number + 1},
        "\x82");
}

/* True if the server has ended the connection. Keeps frames for later. */
static bool has_ended(const struct http2_client *client)
{
    char byte[4096];
    ssize_t got;

    while ((got = recv(client->http.fd, byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK)) > 0) {
        const char *goaway = memmem(byte, (size_t)got, "\0\0\x08\x07\0\0\0\0\0", 9);

        if (goaway != NULL)
            return true;
        if (recv(client->http.fd, byte, (size_t)got, MSG_DONTWAIT) != got)
            return true;
    }
    return got == 0 || errno == ECONNRESET;
}

/*
 * The limits are per second, so a flood goes on until it is too much; a machine that is slow for a
 * moment makes it longer.
 */
SERVER_TEST(floods_end_the_connection)
{
    enum { STEPS_AT_ONCE = 60 };
    static const struct {
        const char *metric;
        flood_step *step;
    } floods[] = {
        {"http2_floods_resets", reset_stream},
        {"http2_floods_empty", send_empty_data},
        {"http2_floods_errors", send_malformed},
    };

    start(server, NULL);
    http_expect(server_port(server), "/a.txt", 200); /* it is then in the cache */
    for (size_t i = 0; i < ARRAY_LENGTH(floods); i++) {
        uint64_t before = server_metric(server, floods[i].metric);
        struct http2_client client;

        http2_open(&client, server_port(server), closed_windows);
        signal(SIGPIPE, SIG_IGN);
        for (uint32_t number = 0; !has_ended(&client);)
            for (int step = 0; step < STEPS_AT_ONCE && !has_ended(&client); step++)
                floods[i].step(&client, number++);
        http2_close(&client);
        server_expect_metric(server, floods[i].metric, before + 1);
    }
    server_expect_metric(server, "http2_errors", ARRAY_LENGTH(floods));
    server_stop(server);
}

/* Stream 3 is answered, and streams 1 and 3 are reset, 1 perhaps before 3 is answered. */
static void expect_both_stalled(struct http2_client *client)
{
    bool answered = false, reset[2] = {false, false};

    while (!answered || !reset[0] || !reset[1]) {
        uint32_t stream;

        assert_true(http2_next(client, &frame));
        stream = frame.head.stream;
        if (frame.head.type == FRAME_HEADERS && stream == 3)
            answered = true;
        if (frame.head.type != FRAME_RST_STREAM)
            continue;
        assert_true(stream == 1 || (stream == 3 && answered));
        assert_int_equal(frame_read_32(frame.payload), HTTP2_CANCEL);
        reset[stream / 2] = true;
    }
}

/* A client that never opens its windows loses its streams, and keeps its connection. */
SERVER_TEST(closed_window_meets_send_timeout)
{
    struct http2_client client;
    char *log;

    start(server, "connections.send_timeout=1s");
    http2_open(&client, server_port(server), closed_windows);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt");
    expect_both_stalled(&client);
    http2_check(&client, 5, "HEAD /a.txt", 200, NULL);
    server_expect_metric(server, "http2_stalled", 2);
    server_expect_metric(server, "responses_cut_short", 2);
    http2_close(&client);
    log = log_with_lines(server, 3);
    assert_non_null(strstr(log, "\"GET /large.txt HTTP/2.0\" 200 0 "));
    free(log);
    server_stop(server);
}

/* --- Errors --- */

SERVER_TEST(reset_response_is_logged_with_its_bytes)
{
    struct http2_client client;
    char *log;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    expect_data(&client, 1, 0, 65535);
    http2_reset(&client, 1);
    http2_open_window(&client, 0, 1 << 20);
    http2_open_window(&client, 1, 1 << 20); /* of a closed stream: ignored */
    http2_check(&client, 3, "GET /a.txt", 200, "aaaa");
    log = log_with_lines(server, 2);
    assert_non_null(strstr(log, "\"GET /large.txt HTTP/2.0\" 200 65535 "));
    free(log);
    server_expect_metric(server, "responses_cut_short", 1);
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(connection_errors_have_their_code)
{
    static const struct {
        struct frame_head head;
        const char *payload;
        enum http2_error error;
    } cases[] = {
        {{0, FRAME_DATA, 0, 1}, "", HTTP2_PROTOCOL_ERROR}, /* idle */
        {{0, FRAME_HEADERS, FRAME_END_HEADERS, 2}, "", HTTP2_PROTOCOL_ERROR},
        {{1, FRAME_HEADERS, FRAME_END_HEADERS, 1}, "\x80", HTTP2_COMPRESSION_ERROR},
        {{0, FRAME_CONTINUATION, FRAME_END_HEADERS, 1}, "", HTTP2_PROTOCOL_ERROR},
        {{5, FRAME_SETTINGS, 0, 0}, "abcde", HTTP2_FRAME_SIZE_ERROR},
        {{4, FRAME_WINDOW_UPDATE, 0, 0}, "\x7f\xff\xff\xff", HTTP2_FLOW_CONTROL_ERROR},
        {{FRAME_PAYLOAD_MAX + 1, FRAME_DATA, 0, 1}, NULL, HTTP2_FRAME_SIZE_ERROR},
    };
    static const char zeros[FRAME_PAYLOAD_MAX + 1];

    start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http2_client client;
        bool ended = false;

        http2_open(&client, server_port(server), NULL);
        http2_send(&client, cases[i].head, cases[i].payload != NULL ? cases[i].payload : zeros);
        while (!ended && http2_next(&client, &frame)) {
            ended = frame.head.type == FRAME_GOAWAY;
            if (ended && frame_read_32(frame.payload + 4) != cases[i].error)
                fail_msg("case %zu: error %u", i, frame_read_32(frame.payload + 4));
        }
        if (!ended)
            fail_msg("case %zu: no GOAWAY", i);
        http2_close(&client);
    }
    server_stop(server);
}

/* A header block of 4 bytes: the field x with an empty value. */
#define TRAILERS "\x00\x01x\x00"

enum { ENDS = FRAME_END_STREAM | FRAME_END_HEADERS };

static void send_block(struct http2_client *client, uint32_t stream, int flags, const char *block,
                       size_t length)
{
    http2_send(client, (struct frame_head){(uint32_t)length, FRAME_HEADERS, (uint8_t)flags, stream},
               block);
}

SERVER_TEST(errors_of_a_stream_reset_it)
{
    struct http2_client client;
    char block[64] = "\0\0\0\x01\x10"; /* a priority: it depends on stream 1 */
    size_t length;

    start(server, NULL);
    http2_open(&client, server_port(server), closed_windows);
    length = http2_encode(&client, "GET /a.txt", block + FRAME_PRIORITY_BYTES,
                          sizeof(block) - FRAME_PRIORITY_BYTES);
    send_block(&client, 1, ENDS | FRAME_HAS_PRIORITY, block, FRAME_PRIORITY_BYTES + length);
    http2_expect_reset(&client, 1, HTTP2_PROTOCOL_ERROR);
    send_block(&client, 1, ENDS, TRAILERS, 4); /* on its way when the stream was reset */
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt");
    expect_status(&client, 3, 200);
    send_block(&client, 3, ENDS, TRAILERS, 4); /* after its end */
    http2_expect_reset(&client, 3, HTTP2_STREAM_CLOSED);
    http2_request(&client, 5, 0, "POST /a.txt\ncontent-length: 2");
    send_block(&client, 5, FRAME_END_HEADERS, TRAILERS, 4); /* without an end */
    http2_expect_reset(&client, 5, HTTP2_PROTOCOL_ERROR);
    http2_request(&client, 7, 0, "POST /a.txt\ncontent-length: 2");
    send_block(&client, 7, ENDS, "\x00\x01X\x00", 4); /* a capital letter */
    http2_expect_reset(&client, 7, HTTP2_PROTOCOL_ERROR);
    http2_request(&client, 9, FRAME_END_STREAM, "GET /missing");
    expect_status(&client, 9, 404);
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(header_block_of_a_past_stream_is_a_connection_error)
{
    static const struct {
        uint32_t stream;
        enum http2_error error;
    } cases[] = {
        {5, HTTP2_STREAM_CLOSED}, {3, HTTP2_PROTOCOL_ERROR}, /* skipped */
    };

    start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http2_client client;

        http2_open(&client, server_port(server), NULL);
        http2_check(&client, 5, "GET /a.txt", 200, "aaaa");
        send_block(&client, cases[i].stream, ENDS, TRAILERS, 4);
        http2_expect_goaway(&client, 5, cases[i].error);
        http2_close(&client);
    }
    server_stop(server);
}

/* Each block is decoded, because later ones depend on it. */
SERVER_TEST(invalid_block_is_a_connection_error_on_any_stream)
{
    struct http2_client client;

    start(server, "http2.max_concurrent_streams=1");
    for (uint32_t stream = 1; stream <= 3; stream += 2) { /* an open one, and one over the limit */
        http2_open(&client, server_port(server), closed_windows);
        http2_request(&client, 1, FRAME_END_STREAM, "GET /a.txt");
        expect_status(&client, 1, 200);
        send_block(&client, stream, ENDS, "\x80", 1);
        http2_expect_goaway(&client, stream, HTTP2_COMPRESSION_ERROR);
        http2_close(&client);
    }
    server_stop(server);
}

/* --- The end of a connection --- */

SERVER_TEST(reload_drains_connections)
{
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    expect_data(&client, 1, 0, 65535);
    server_do(server, "reload");
    http2_expect_goaway(&client, INT32_MAX, HTTP2_NO_ERROR);
    http2_expect(&client, FRAME_PING, 0, &frame);
    http2_request(&client, 3, FRAME_END_STREAM, "HEAD /a.txt"); /* on its way at that time */
    http2_expect(&client, FRAME_HEADERS, 3, &frame);
    http2_ping(&client, FRAME_ACK, "draining");
    http2_expect_goaway(&client, 3, HTTP2_NO_ERROR);
    http2_request(&client, 5, FRAME_END_STREAM, "GET /a.txt"); /* not served */
    http2_open_window(&client, 0, 1 << 20);
    http2_open_window(&client, 1, 1 << 20);
    expect_data(&client, 1, 65535, LARGE - 65535);
    http2_expect_end(&client, HTTP2_NO_ERROR);
    http2_close(&client);
    server_stop(server);
    assert_int_equal(log_count_lines(server), 2);
}

/* The client has opened a stream before it got the last GOAWAY: the open streams are finished all the same. */
SERVER_TEST(frames_of_an_unserved_stream_are_ignored)
{
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    expect_data(&client, 1, 0, 65535);
    server_do(server, "reload");
    http2_expect_goaway(&client, INT32_MAX, HTTP2_NO_ERROR);
    http2_ping(&client, FRAME_ACK, "draining");
    http2_expect_goaway(&client, 1, HTTP2_NO_ERROR);
    http2_request(&client, 3, 0, "POST /a.txt");
    http2_open_window(&client, 3, 1000);
    http2_send(&client, (struct frame_head){4, FRAME_DATA, 0, 3}, "data");
    http2_request(&client, 3, FRAME_END_STREAM, "trailer x\na: b");
    http2_request(&client, 5, FRAME_END_STREAM, "GET /a.txt");
    http2_reset(&client, 5);
    http2_open_window(&client, 0, 1 << 20);
    http2_open_window(&client, 1, 1 << 20);
    expect_data(&client, 1, 65535, LARGE - 65535);
    http2_expect_end(&client, HTTP2_NO_ERROR);
    http2_close(&client);
    server_stop(server);
    assert_int_equal(log_count_lines(server), 1);
}

/*
 * Returns false if the timeout ended before the request arrived: the GOAWAY then names no stream, or the connection
 * was reset.
 */
static bool is_answered_then_ended(const struct server *server)
{
    struct http2_client client;
    bool answered = false, named = false;

    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /a.txt");
    while (http2_next(&client, &frame)) {
        answered = answered || frame.head.type == FRAME_HEADERS;
        if (frame.head.type != FRAME_GOAWAY)
            continue;
        named = frame_read_31(frame.payload) == 1;
        assert_int_equal(frame_read_32(frame.payload + 4), HTTP2_NO_ERROR);
    }
    http2_close(&client);
    assert_int_equal(named, answered);
    return answered;
}

SERVER_TEST(idle_connection_gets_goaway)
{
    start(server, "connections.keepalive_timeout=1s");
    WAIT_UNTIL(is_answered_then_ended(server));
    server_stop(server);
}

SERVER_TEST(last_keepalive_request_announces_the_end)
{
    struct http2_client client;

    start(server, "connections.keepalive_requests=2");
    http2_open(&client, server_port(server), NULL);
    http2_check(&client, 1, "GET /a.txt", 200, "aaaa");
    http2_request(&client, 3, FRAME_END_STREAM, "GET /a.txt");
    http2_expect_goaway(&client, INT32_MAX, HTTP2_NO_ERROR);
    http2_ping(&client, FRAME_ACK, "draining");
    http2_expect_goaway(&client, 3, HTTP2_NO_ERROR);
    http2_expect_end(&client, HTTP2_NO_ERROR);
    http2_close(&client);
    server_stop(server);
}

SERVER_TEST(goaway_of_the_client_ends_after_open_streams)
{
    struct http2_client client;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    http2_send(&client, (struct frame_head){8, FRAME_GOAWAY, 0, 0}, "\0\0\0\0\0\0\0\0");
    expect_data(&client, 1, 0, 65535);
    http2_open_window(&client, 0, 1 << 20);
    http2_open_window(&client, 1, 1 << 20);
    expect_data(&client, 1, 65535, LARGE - 65535);
    http2_expect_end(&client, HTTP2_NO_ERROR);
    http2_close(&client);
    server_stop(server);
}

/* Open streams move between the threads of a worker. */
SERVER_TEST(resize_keeps_open_streams)
{
    struct http2_client client;
    size_t sent = 65535;

    start(server, NULL);
    http2_open(&client, server_port(server), NULL);
    http2_request(&client, 1, FRAME_END_STREAM, "GET /large.txt");
    http2_request(&client, 3, 0, "POST /a.txt\ncontent-length: 2");
    expect_data(&client, 1, 0, sent);
    for (int threads = 2; threads <= 4; threads++) {
        server_do(server, "threads %d", threads);
        server_do(server, "threads 1");
        WAIT_UNTIL(server_metric(server, "connections_open") == 1);
        server_expect_metric(server, "http2_open", 1);
        server_expect_metric(server, "http2_streams", 2);
        http2_open_window(&client, 0, 50000);
        http2_open_window(&client, 1, 50000);
        expect_data(&client, 1, sent, 50000);
        sent += 50000;
    }
    send_data(&client, 3, "ab", true);
    http2_open_window(&client, 0, 50000);
    expect_status(&client, 3, 405);
    http2_expect(&client, FRAME_DATA, 3, &frame);
    server_expect_metric(server, "http2_streams", 1);
    http2_close(&client);
    server_expect_metric(server, "responses_cut_short", 1);
    server_expect_metric(server, "http2_open", 0);
    server_expect_metric(server, "http2_streams", 0);
    server_stop(server);
    assert_int_equal(log_count_lines(server), 2);
}
