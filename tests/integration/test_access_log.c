/*
 * The access log: one complete line for each response, and no client can forge a line.
 */
#include "http2_client.h"
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG_LINE = 3000, LARGE = 8 * 1024 * 1024 };

static const char page[] = "<p>a page of the test</p>\n";

static struct load_plan plan_for(const struct server *server)
{
    return (struct load_plan){.port = server_port(server),
                              .clients = 4,
                              .target = "/page.html",
                              .body = page,
                              .body_length = sizeof(page) - 1};
}

SERVER_TEST(response_is_one_line_in_combined_format)
{
    static const struct {
        const char *request, *line; /* after the time */
    } cases[] = {
        {"GET /page.html?q=1 HTTP/1.1\r\nHost: h\r\nReferer: http://r/x\r\nUser-Agent: a/1 "
         "b\r\n\r\n",
         "\"GET /page\\.html\\?q=1 HTTP/1\\.1\" 200 26 \"http://r/x\" \"a/1 b\""},
        {"GET /page.html HTTP/1.0\r\n\r\n", "\"GET /page\\.html HTTP/1\\.0\" 200 26 \"-\" \"-\""},
        {"HEAD /page.html HTTP/1.1\r\nHost: h\r\n\r\n",
         "\"HEAD /page\\.html HTTP/1\\.1\" 200 0 \"-\" \"-\""},
        {"GET /absent HTTP/1.1\r\nHost: h\r\n\r\n",
         "\"GET /absent HTTP/1\\.1\" 404 [1-9][0-9]* \"-\" \"-\""},
        {"GET /page.html HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
         "\"GET /page\\.html HTTP/1\\.1\" 304 0 \"-\" \"-\""},
        {"GET /folder HTTP/1.1\r\nHost: h\r\n\r\n",
         "\"GET /folder HTTP/1\\.1\" 301 198 \"-\" \"-\""},
        {"GET / HTTP/1.1\r\n\r\n", "\"GET / HTTP/1\\.1\" 400 [1-9][0-9]* \"-\" \"-\""},
        {"nonsense\r\n\r\n", "\"nonsense\" 400 [1-9][0-9]* \"-\" \"-\""},
    };

    server_put_text(server, "/page.html", page);
    server_put_text(server, "/folder/file", "x");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;
        char pattern[512], *text;

        unlink(server_log(server));
        server_start(server, NULL);
        http_request(server_port(server), cases[i].request, &response);
        http_response_free(&response);
        text = log_with_lines(server, 1);
        snprintf(pattern, sizeof(pattern), "%s%s%s$", LOG_LINE_START, LOG_LINE_TIME, cases[i].line);
        log_check_lines(text, 1, pattern);
        free(text);
        server_stop(server);
    }
}

SERVER_TEST(aborted_response_is_logged_with_bytes_sent)
{
    enum { LENGTH = 32 * 1024 * 1024 }; /* larger than the socket buffers */
    struct http_client client;
    char *bytes = calloc(1, LENGTH), *text;
    const struct linger reset = {.l_onoff = 1};
    unsigned long sent;

    server_put(server, "/large.bin", bytes, LENGTH);
    server_start(server, NULL);
    http_open(&client, server_port(server));
    http_send(&client, "GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    server_expect_metric(server, "connections_busy", 1);
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    http_close(&client);
    text = log_with_lines(server, 1);
    assert_int_equal(sscanf(text, "%*[^\"]\"%*[^\"]\" 200 %lu ", &sent), 1);
    assert_in_range(sent, 1, LENGTH - 1);
    free(text);
    free(bytes);
    server_stop(server);
}

SERVER_TEST(log_off_creates_no_file)
{
    struct stat status;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.access=off", NULL);
    http_expect(server_port(server), "/page.html", 200);
    server_expect_metric(server, "requests", 1);
    server_expect_metric(server, "log_lines", 0);
    server_stop(server);
    assert_int_not_equal(stat(server_log(server), &status), 0);
}

/*
 * The start fails if a log cannot be opened: otherwise the server would block once the rings are
 * full.
 */
SERVER_TEST(start_fails_if_log_cannot_be_opened)
{
    static const struct {
        const char *key, *words, *below; /* path: the server's directory and BELOW */
        int error;
    } cases[] = {
        {"log.access", "cannot open the access log ", "/absent/access.log", ENOENT},
        {"log.access", "cannot open the access log ", "/www", EISDIR},
        {"log.access", "cannot open the access log ", "/www/page.html/access.log", ENOTDIR},
        {"log.error", "cannot open the error log ", "/absent/error.log", ENOENT},
    };

    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char option[SCRATCH_PATH_MAX + 64], *printed;
        const char *const options[] = {option, NULL};

        snprintf(option, sizeof(option), "%s=%s%s", cases[i].key, server_directory(server),
                 cases[i].below);
        assert_int_equal(server_start_rejected(server, &printed, options), 1);
        if (strstr(printed, cases[i].words) == NULL ||
            strstr(printed, strchr(option, '/')) == NULL ||
            strstr(printed, strerror(cases[i].error)) == NULL ||
            strstr(printed, cases[i].key) == NULL)
            fail_msg("case %zu failed with: %s", i, printed);
        free(printed);
        server_check_nothing_left(server);
    }
}

/* --- Failures of the logger --- */

static const char line_of_the_load[] =
    LOG_LINE_START LOG_LINE_TIME "\"GET /page\\.html HTTP/1\\.1\" 200 26 \"-\" \"-\"$";

static bool there_is_another_logger(const struct server *server, pid_t before)
{
    pid_t now = server_logger(server);

    return now != 0 && now != before;
}

SERVER_TEST(killed_logger_neither_loses_nor_repeats_lines)
{
    struct load_plan plan;
    struct load_result result;
    struct load *load;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.ring=64K", NULL);
    plan = plan_for(server);
    load = load_start(&plan);
    for (int i = 0; i < 5; i++) {
        pid_t logger = server_logger(server);

        load_pass(load, LOAD_STEP);
        server_signal(logger, SIGKILL);
        WAIT_UNTIL(there_is_another_logger(server, logger));
    }
    load_pass(load, LOAD_STEP);
    result = load_finish(load);
    load_check(&result);
    log_check_load(server, plan.target, plan.body_length, result.responses);
    server_expect_metric(server, "log_lines", result.responses);
    server_stop(server);
}

static bool some_thread_waits_for_the_log(const struct segment_reader *reader)
{
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_THREADS); i++) {
        struct activity_copy copy;

        if (segment_thread_reserved(&reader->map, i) &&
            segment_read_activity(&segment_thread(&reader->map, i)->activity, &copy) &&
            copy.state == THREAD_STATE_LOG)
            return true;
    }
    return false;
}

SERVER_TEST(threads_wait_for_a_stopped_logger_and_resume)
{
    struct segment_reader reader;
    struct load_plan plan;
    struct load_result result;
    struct load *load;
    pid_t logger;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.ring=64K", "log.when_full=wait", NULL);
    server_attach(server, &reader);
    logger = server_logger(server);
    plan = plan_for(server);
    load = load_start(&plan);
    load_pass(load, LOAD_STEP);
    server_signal(logger, SIGSTOP);
    WAIT_UNTIL(some_thread_waits_for_the_log(&reader));
    server_do(server, "ping");
    assert_true(server_metric(server, "log_waits") > 0);
    server_signal(logger, SIGCONT);
    load_pass(load, LOAD_STEP);
    result = load_finish(load);
    load_check(&result);
    log_check_load(server, plan.target, plan.body_length, result.responses);
    segment_detach(&reader);
    server_stop(server);
}

/*
 * Requests the large file with a long request line, and reads only the first byte of the response.
 */
static void begin_download(const struct server *server, struct http_client *client)
{
    static const int small = 64 * 1024;
    char request[LONG_LINE + 64];

    http_open(client, server_port(server));
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    snprintf(request, sizeof(request),
             "GET /large?%0*d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", LONG_LINE, 0);
    http_send(client, request);
    assert_int_equal(TEMP_FAILURE_RETRY(recv(client->fd, &(char){0}, 1, MSG_PEEK)), 1);
}

/* Reads the available part of the response without blocking. Returns false after the last byte. */
static bool take_what_is_there(struct http_client *client)
{
    ssize_t got;

    do {
        if (client->room - client->length < LARGE / 8) {
            client->room += LARGE / 4;
            client->bytes = realloc(client->bytes, client->room);
            assert_non_null(client->bytes);
        }
        got = recv(client->fd, client->bytes + client->length, LARGE / 8, MSG_DONTWAIT);
        if (got > 0)
            client->length += (size_t)got;
    } while (got > 0);
    return got != 0;
}

/* Reads what has arrived. In the model pool, any of them may have the only thread. */
static bool all_have_ended(struct http_client *clients, size_t count)
{
    size_t ended = 0;

    for (int round = 0; round < 1000 && ended < count; round++) {
        usleep(1000);
        ended = 0;
        for (size_t i = 0; i < count; i++)
            ended += !take_what_is_there(&clients[i]);
    }
    return ended == count;
}

/* Enough requests to fill the ring of each thread. The last one closes: others may wait for it. */
static void fill_rings(const struct server *server, struct http_client *clients, size_t count)
{
    static const char request[] = "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n",
                      last[] = "GET /page.html HTTP/1.0\r\n\r\n";
    char requests[499 * (sizeof(request) - 1) + sizeof(last) - 1];

    for (size_t n = 0; n < 499; n++)
        memcpy(requests + n * (sizeof(request) - 1), request, sizeof(request) - 1);
    memcpy(requests + 499 * (sizeof(request) - 1), last, sizeof(last) - 1);
    for (size_t i = 0; i < count; i++) {
        http_open(&clients[i], server_port(server));
        http_say_bytes(&clients[i], requests, sizeof(requests));
    }
}

/*
 * Downloads in progress move to the remaining thread, whose ring is full. They must wait there
 * until it has room for their lines.
 */
SERVER_TEST(responses_moved_between_threads_lose_no_line)
{
    enum { DOWNLOADS = 12, FILLERS = 24, FILLED = FILLERS * 500 };
    struct http_client downloads[DOWNLOADS], fillers[FILLERS];
    static char large[LARGE];
    struct http_response response;
    pid_t logger;

    server_put_text(server, "/page.html", page);
    server_put(server, "/large", large, sizeof(large));
    server_start(server, "log.ring=64K", "log.when_full=wait", "workers.processes=1",
                 "workers.threads=2", "workers.heartbeat_timeout=0", "connections.send_timeout=1h",
                 NULL);
    for (int i = 0; i < DOWNLOADS; i++)
        begin_download(server, &downloads[i]);
    logger = server_logger(server);
    server_signal(logger, SIGSTOP);
    fill_rings(server, fillers, FILLERS);
    WAIT_UNTIL(server_metric(server, "log_waits") >= 2);
    server_do(server, "threads 1");
    for (int i = 0; i < 100 * DOWNLOADS; i++) { /* a server that does not wait closes them here */
        take_what_is_there(&downloads[i % DOWNLOADS]);
        usleep(1000);
    }
    server_expect_metric(server, "log_dropped", 0);
    server_signal(logger, SIGCONT);
    WAIT_UNTIL(all_have_ended(downloads, DOWNLOADS));
    for (int i = 0; i < DOWNLOADS; i++) {
        http_receive(&downloads[i], HTTP_WITH_BODY, &response);
        assert_int_equal(response.body_length, sizeof(large));
        http_response_free(&response);
        http_close(&downloads[i]);
    }
    server_expect_metric(server, "requests", DOWNLOADS + FILLED);
    server_expect_metric(server, "log_lines", DOWNLOADS + FILLED);
    for (int i = 0; i < FILLERS; i++)
        http_close(&fillers[i]);
    server_stop(server);
}

static uint64_t streams_of(const struct segment_reader *segment, uint32_t thread)
{
    return segment_reader_metric(segment, segment_thread(&segment->map, thread),
                                 METRIC_http2_streams);
}

/* Begins a download that waits for its window; on the second thread if it returns true. */
static bool begin_stream(const struct server *server, const struct segment_reader *segment,
                         struct http2_client *client)
{
    static struct http2_frame frame;
    uint64_t before = streams_of(segment, 1);

    http2_open(client, server_port(server), NULL);
    http2_request(client, 1, FRAME_END_STREAM, "GET /large");
    for (size_t got = 0; got < 65535; got += frame.head.length)
        http2_expect(client, FRAME_DATA, 1, &frame);
    return streams_of(segment, 1) > before;
}

static void finish_stream(struct http2_client *client)
{
    static struct http2_frame frame;

    http2_open_window(client, 0, 65535);
    http2_open_window(client, 1, 65535);
    do
        http2_expect(client, FRAME_DATA, 1, &frame);
    while ((frame.head.flags & FRAME_END_STREAM) == 0);
    http2_close(client);
}

/* Streams that are being sent reserve space for their records, on the thread where they are. */
SERVER_TEST(moved_streams_leave_others_their_space)
{
    enum { STREAMS = 40, RESPONSES = 400 /* too many for a quarter of the ring */ };
    static char large[100 * 1000];
    struct http2_client client[STREAMS];
    struct segment_reader segment;
    struct http_client other;
    pid_t logger;
    int count = 0;

    if (!server_has_own_model())
        skip(); /* HTTP/2 */
    server_put_text(server, "/page.html", page);
    server_put(server, "/large", large, sizeof(large));
    server_start(server, "log.ring=64K", "workers.processes=1", "workers.threads=2",
                 "workers.balance_connections=off", NULL);
    server_attach(server, &segment);
    do
        assert_in_range(count, 0, STREAMS - 1);
    while (!begin_stream(server, &segment, &client[count++]));
    server_do(server, "threads 1");
    WAIT_UNTIL(streams_of(&segment, 0) == (uint64_t)count);
    for (int i = 0; i < count; i++)
        finish_stream(&client[i]);
    server_expect_metric(server, "log_lines", (uint64_t)count);
    logger = server_logger(server);
    server_freeze(logger);
    http_open(&other, server_port(server));
    for (int i = 0; i < RESPONSES; i++) {
        struct http_response response;

        http_send(&other, "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n");
        http_receive(&other, HTTP_WITH_BODY, &response);
        http_response_free(&response);
    }
    server_expect_metric(server, "log_waits", 0);
    server_signal(logger, SIGCONT);
    http_close(&other);
    segment_detach(&segment);
    server_stop(server);
    assert_int_equal(log_count_lines(server), RESPONSES + count);
}

SERVER_TEST(threads_drop_and_count_records_with_when_full_drop)
{
    struct load_plan plan;
    struct load_result result;
    struct load *load;
    uint64_t dropped, lines;
    char *text;
    pid_t logger;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.ring=64K", "log.when_full=drop", NULL);
    logger = server_logger(server);
    plan = plan_for(server);
    load = load_start(&plan);
    load_pass(load, LOAD_STEP);
    server_signal(logger, SIGSTOP);
    WAIT_UNTIL(server_metric(server, "log_dropped") > 0);
    load_pass(load, LOAD_STEP);
    server_signal(logger, SIGCONT);
    result = load_finish(load);
    load_check(&result);
    server_expect_metric(server, "requests",
                         result.responses); /* the last response is also counted */
    dropped = server_metric(server, "log_dropped");
    lines = result.responses - dropped;
    text = log_with_lines(server, lines);
    log_check_lines(text, lines, line_of_the_load);
    free(text);
    server_stop(server);
}

SERVER_TEST(full_disk_with_when_full_drop_does_not_stop_the_server)
{
    struct load_plan plan;
    struct load_result result;
    struct load *load;
    char *printed;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.access=/dev/full", "log.ring=64K", "log.when_full=drop",
                 "workers.drain_timeout=1s", NULL);
    plan = plan_for(server);
    load = load_start(&plan);
    WAIT_UNTIL(server_metric(server, "log_dropped") > 0);
    load_pass(load, LOAD_STEP);
    result = load_finish(load);
    load_check(&result);
    server_expect_metric(server, "requests", result.responses);
    server_expect_metric(server, "log_lines", 0);
    assert_true(server_metric(server, "log_write_errors") > 0);
    server_signal(server_pid(server), SIGTERM);
    server_stopped_with(server, EXIT_FAILURE);
    printed = server_output(server);
    assert_non_null(strstr(printed, "cannot write the access log: No space left on device"));
    assert_non_null(strstr(printed, "lines of the access log are lost: No space left on device"));
    free(printed);
}

/* The directory of the access log "full" is a link to /dev, later to another directory. */
static void write_log_to_full_disk_with_wait(struct server *server, const char *model)
{
    enum { WORKERS = 2 };
    char link[SCRATCH_PATH_MAX], option[SCRATCH_PATH_MAX + 16];
    struct segment_reader reader;
    struct load_plan plan;
    struct load_result result;
    struct load *load;
    uint64_t dropped;

    snprintf(link, sizeof(link), "%s/link", server_directory(server));
    snprintf(option, sizeof(option), "log.access=%s/full", link);
    assert_int_equal(symlink("/dev", link), 0);
    server_put_text(server, "/page.html", page);
    server_start(server, option, model, "log.ring=64K", "log.when_full=wait",
                 "log.wait_timeout=50ms", "workers.processes=2", "workers.threads=2", NULL);
    server_attach(server, &reader);
    plan = plan_for(server);
    plan.each_connects = true;
    load = load_start(&plan);
    WAIT_UNTIL(server_metric(server, "log_dropped") > 0);
    load_pass(load, 2 * LOAD_STEP); /* every request is answered, with one wait per thread */
    result = load_finish(load);
    load_check(&result);
    server_expect_metric(server, "requests", result.responses);
    assert_in_range(server_count_events(&reader, "the log ring is full"), 1, WORKERS);

    unlink(link);
    assert_int_equal(symlink(server_directory(server), link), 0);
    server_do(server, "reopen-logs");
    dropped = server_metric(server, "log_dropped");
    server_expect_metric(server, "log_lines", result.responses - dropped);
    http_expect(server_port(server), "/page.html", 200);
    server_expect_metric(server, "log_lines", result.responses - dropped + 1);
    server_expect_metric(server, "log_dropped", dropped);
    segment_detach(&reader);
    server_stop(server);
}

SERVER_TEST(full_disk_with_when_full_wait_delays_and_does_not_stop_the_server)
{
    write_log_to_full_disk_with_wait(server, "workers.model=events");
}

/* The threads end with their connections, but their shortage is the worker's. */
SERVER_TEST(full_disk_with_a_thread_per_connection_is_one_event_per_worker)
{
    write_log_to_full_disk_with_wait(server, "workers.model=thread");
}

SERVER_TEST(server_that_waits_for_a_full_disk_can_be_stopped)
{
    struct segment_reader reader;
    struct load_plan plan;
    struct load_result result;
    struct load *load;

    server_put_text(server, "/page.html", page);
    server_start(server, "log.access=/dev/full", "log.ring=64K", "log.when_full=wait",
                 "workers.drain_timeout=1s", NULL);
    server_attach(server, &reader);
    plan = plan_for(server);
    plan.until_failure = true;
    load = load_start(&plan);
    WAIT_UNTIL(some_thread_waits_for_the_log(&reader));
    server_do(server, "ping");
    server_expect_metric(server, "log_dropped", 0);
    segment_detach(&reader);
    server_signal(server_pid(server), SIGTERM);
    server_stopped_with(server, EXIT_FAILURE); /* lines are lost */
    result = load_finish(load);
    assert_int_equal(result.wrong, 0);
}
