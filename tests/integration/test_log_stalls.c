/*
 * An access log whose reader stalls: a FIFO, standard output, syslog. The logger lives on, each line
 * arrives whole, and once unless a logger dies while it writes, and a stop loses no line without a report.
 */
#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    REQUESTS = 3000, /* their lines are several times the size of a pipe */
    CLIENTS = 4,
    AT_ONCE = 25, /* requests that a client sends before it receives the responses */
    KILLS = 4,
    BATCH_LINES = PIPE_BUF / 80, /* that a killed logger may have written unnoticed */
    HEARTBEATS = 20,
    KILLED_AFTER_S = 5, /* of the stop, a stalled logger was killed in earlier versions */
};

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

/* The reader of the log. It counts the lines by the number in their request. */
struct reader {
    int fd;
    char option[SCRATCH_PATH_MAX + 64];
    char line[4096];
    size_t length;
    int seen[REQUESTS];
    int lines;
};

static void reader_open(struct reader *reader, const struct server *server)
{
    char path[SCRATCH_PATH_MAX];

    *reader = (struct reader){.fd = -1};
    snprintf(path, sizeof(path), "%s/fifo", server_directory(server));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    reader->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader->fd >= 0);
    snprintf(reader->option, sizeof(reader->option), "log.access=%s", path);
}

static void take_line(struct reader *reader)
{
    const char *begin;
    int number = -1;

    reader->line[reader->length] = '\0';
    reader->length = 0;
    begin = strstr(reader->line, "\"GET /page-");
    if (strstr(reader->line, "127.0.0.1 - - [") == NULL || begin == NULL ||
        sscanf(begin, "\"GET /page-%d HTTP/1.1\" 404", &number) != 1 || number < 0 ||
        number >= REQUESTS || strcmp(reader->line + strlen(reader->line) - 8, " \"-\" \"-\"") != 0)
        fail_msg("malformed line: '%s'", reader->line);
    reader->seen[number]++;
    reader->lines++;
}

/* Reads at most MOST bytes of what is there. Returns false if there is nothing. */
static bool reader_take(struct reader *reader, size_t most)
{
    char bytes[4096];
    ssize_t got = read(reader->fd, bytes, most < sizeof(bytes) ? most : sizeof(bytes));

    for (ssize_t i = 0; i < got; i++) {
        assert_true(reader->length < sizeof(reader->line) - 1);
        if (bytes[i] == '\n')
            take_line(reader);
        else
            reader->line[reader->length++] = bytes[i];
    }
    return got > 0;
}

/* Takes all that comes until there are LINES lines. */
static bool reader_has(struct reader *reader, int lines)
{
    while (reader_take(reader, sizeof(reader->line)))
        continue;
    return reader->lines >= lines;
}

static bool reader_has_all(struct reader *reader)
{
    bool all = true;

    reader_has(reader, REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        all = all && reader->seen[i] > 0;
    return all;
}

/* Each line comes, and at most REPEATED of them more than once. */
static void reader_expect_all(struct reader *reader, int repeated)
{
    WAIT_UNTIL(reader_has_all(reader));
    assert_in_range(reader->lines, REQUESTS, REQUESTS + repeated);
    assert_int_equal(reader->length, 0);
}

static void reader_expect_all_once(struct reader *reader)
{
    reader_expect_all(reader, 0);
}

static void send_requests(struct http_client *client, int first)
{
    char requests[AT_ONCE * 64];
    size_t length = 0;

    for (int i = 0; i < AT_ONCE; i++)
        length += (size_t)snprintf(requests + length, sizeof(requests) - length,
                                   "GET /page-%d HTTP/1.1\r\nHost: h\r\n\r\n", first + i);
    http_say_bytes(client, requests, length);
}

static void receive_responses(struct http_client *client)
{
    for (int i = 0; i < AT_ONCE; i++)
        http_expect_response(client, 404, NULL);
}

static void ask_for_pages(const struct server *server)
{
    struct http_client client[CLIENTS];

    static_assert(REQUESTS % (CLIENTS * AT_ONCE) == 0, "the last requests would be missing");
    for (int i = 0; i < CLIENTS; i++)
        http_open(&client[i], server_port(server));
    for (int first = 0; first < REQUESTS; first += CLIENTS * AT_ONCE) {
        for (int i = 0; i < CLIENTS; i++)
            send_requests(&client[i], first + i * AT_ONCE);
        for (int i = 0; i < CLIENTS; i++)
            receive_responses(&client[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        http_close(&client[i]);
    server_expect_metric(server, "requests", REQUESTS);
}

/* Waits while the server counts SECONDS: its history has a sample of each. */
static void let_seconds_pass(const struct segment_reader *segment, uint64_t seconds)
{
    uint64_t until = segment_samples(segment) + seconds;

    WAIT_UNTIL(segment_samples(segment) >= until);
}

/* The watchdog kills a logger whose heartbeat stays the same. */
static void expect_heartbeats(const struct segment_reader *segment)
{
    const _Atomic uint64_t *heartbeat = &segment_logger(&segment->map)->heartbeat_ns;

    for (int i = 0; i < HEARTBEATS; i++) {
        uint64_t before = atomic_load(heartbeat);

        WAIT_UNTIL(atomic_load(heartbeat) != before);
    }
}

/* Starts a server whose log is stalled; OPTION may be NULL. */
static void start_stalled(struct server *server, struct reader *reader,
                          struct segment_reader *segment, const char *dispatch, const char *option)
{
    reader_open(reader, server);
    server_start(server, reader->option, dispatch, "workers.processes=2", "workers.threads=2",
                 "workers.stop_grace=0s", option, NULL);
    server_attach(server, segment);
    ask_for_pages(server);
}

static void reader_close(struct reader *reader)
{
    close(reader->fd);
}

SERVER_TEST(stalled_reader_does_not_kill_the_logger)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader segment;
        struct reader reader;
        pid_t logger;

        start_stalled(server, &reader, &segment, dispatches[i], NULL);
        logger = server_logger(server);
        WAIT_UNTIL(server_count_events(&segment, "its reader takes no more") == 1);
        expect_heartbeats(&segment);
        assert_int_equal(server_logger(server), logger);
        reader_expect_all_once(&reader);
        server_expect_metric(server, "log_lines", REQUESTS);
        server_expect_metric(server, "log_write_errors", 0);
        WAIT_UNTIL(server_count_events(&segment, "the access log is writable again") == 1);
        segment_detach(&segment);
        server_stop(server);
        assert_false(reader_take(&reader, 1));
        reader_close(&reader);
    }
}

static bool there_is_another_logger(const struct server *server, pid_t before)
{
    pid_t now = server_logger(server);

    return now != 0 && now != before;
}

/* The reader takes some bytes now and then, so that loggers are killed between and in writes. */
static void kill_loggers(const struct server *server, struct reader *reader)
{
    for (int n = 0; n < KILLS; n++) {
        pid_t logger = server_logger(server);

        for (int part = 0; part < n; part++)
            reader_take(reader, 2999);
        server_signal(logger, SIGKILL);
        WAIT_UNTIL(there_is_another_logger(server, logger));
    }
}

SERVER_TEST(killed_logger_loses_no_line_and_repeats_few)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader segment;
        struct reader reader;

        start_stalled(server, &reader, &segment, dispatches[i], NULL);
        kill_loggers(server, &reader);
        reader_expect_all(&reader, KILLS * BATCH_LINES);
        server_expect_metric(server, "log_lines", REQUESTS);
        segment_detach(&segment);
        server_stop(server);
        assert_false(reader_take(&reader, 1));
        reader_close(&reader);
    }
}

/* The end of a FIFO that the server holds keeps what its reader has not read. */
SERVER_TEST(reader_that_reconnects_gets_every_line)
{
    struct segment_reader segment;
    struct reader reader;
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;

    start_stalled(server, &reader, &segment, dispatches[0], NULL);
    for (int part = 0; part < 5; part++)
        reader_take(&reader, 2999);
    close(reader.fd);
    WAIT_UNTIL(server_metric(server, "log_write_errors") > 0);
    reader.fd = open(strchr(reader.option, '/'), flags);
    assert_true(reader.fd >= 0);
    reader_expect_all_once(&reader);
    segment_detach(&segment);
    server_stop(server);
    reader_close(&reader);
}

static void wait_for_flush(const struct segment_reader *segment)
{
    WAIT_UNTIL(server_count_events(segment, "stopped") == 1);
}

SERVER_TEST(stop_waits_for_a_reader_that_comes_back)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader segment;
        struct reader reader;

        start_stalled(server, &reader, &segment, dispatches[i], "workers.drain_timeout=1h");
        server_signal(server_pid(server), SIGTERM);
        wait_for_flush(&segment);
        let_seconds_pass(&segment, KILLED_AFTER_S + 2);
        reader_expect_all_once(&reader);
        server_stopped(server);
        segment_detach(&segment);
        reader_close(&reader);
    }
}

SERVER_TEST(logger_killed_during_the_stop_is_replaced)
{
    struct segment_reader segment;
    struct reader reader;
    pid_t logger;

    start_stalled(server, &reader, &segment, dispatches[0], "workers.drain_timeout=1h");
    server_signal(server_pid(server), SIGTERM);
    wait_for_flush(&segment);
    logger = atomic_load(&segment_master(&segment.map)->logger_pid);
    server_signal(logger, SIGKILL);
    WAIT_UNTIL(atomic_load(&segment_master(&segment.map)->logger_pid) != logger);
    reader_expect_all_once(&reader);
    server_stopped(server);
    segment_detach(&segment);
    reader_close(&reader);
}

/* The number in the message that BEGINS with words and ENDS with others. */
static int number_in_output(const struct server *server, const char *begins, const char *ends)
{
    char *printed = server_output(server);
    int number = -1, length = 0;

    for (const char *at = printed; (at = strstr(at, begins)) != NULL; at++) {
        at += strlen(begins);
        if (sscanf(at, "%d%n", &number, &length) == 1 &&
            strncmp(at + length, ends, strlen(ends)) == 0)
            break;
        number = -1;
    }
    free(printed);
    return number;
}

/* What was lost is what the reader did not get. */
static void check_report_of_loss(struct server *server, struct reader *reader)
{
    int lost = number_in_output(server, "stopped without ", " lines of the access log");
    int logged = number_in_output(server, ": ", " lines of the access log are lost: its reader");

    reader_has(reader, REQUESTS);
    assert_int_equal(reader->lines + lost, REQUESTS);
    assert_int_equal(logged, lost);
    assert_in_range(lost, 1, REQUESTS);
}

SERVER_TEST(stop_reports_the_lines_that_nobody_reads)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader segment;
        struct reader reader;

        start_stalled(server, &reader, &segment, dispatches[i], "workers.drain_timeout=1s");
        server_signal(server_pid(server), SIGTERM);
        server_stopped_with(server, EXIT_FAILURE);
        check_report_of_loss(server, &reader);
        assert_int_equal(segment_sum(&segment.map, METRIC_log_lost), REQUESTS - reader.lines);
        server_clear_output(server);
        segment_detach(&segment);
        reader_close(&reader);
    }
}

SERVER_TEST(second_stop_does_not_wait_for_the_reader)
{
    struct segment_reader segment;
    struct reader reader;

    start_stalled(server, &reader, &segment, dispatches[0], "workers.drain_timeout=1h");
    server_signal(server_pid(server), SIGTERM);
    wait_for_flush(&segment);
    server_signal(server_pid(server), SIGTERM);
    server_stopped_with(server, EXIT_FAILURE);
    check_report_of_loss(server, &reader);
    segment_detach(&segment);
    reader_close(&reader);
}

/* The logger is stopped, so that the lines are in the rings when all processes are killed at once. */
SERVER_TEST(next_server_writes_the_lines_of_a_killed_one)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader segment;
        struct reader reader;
        pid_t worker[2], logger, master;
        size_t workers;

        reader_open(&reader, server);
        server_start(server, reader.option, dispatches[i], "log.ring=1M", NULL);
        logger = server_logger(server);
        server_signal(logger, SIGSTOP);
        ask_for_pages(server);
        workers = server_workers(server, worker, ARRAY_LENGTH(worker));
        master = server_pid(server);
        server_signal(master, SIGKILL); /* first, or it may start another logger */
        server_signal(logger, SIGKILL);
        for (size_t n = 0; n < workers; n++)
            server_signal(worker[n], SIGKILL);
        server_all_gone(server);
        assert_false(reader_take(&reader, 1));

        server_start(server, reader.option, dispatches[i], NULL);
        server_attach(server, &segment);
        reader_expect_all_once(&reader);
        assert_int_equal(server_count_events(&segment, "its last 3000 access log lines"), 1);
        segment_detach(&segment);
        server_stop(server);
        assert_false(reader_take(&reader, 1));
        reader_close(&reader);
    }
}

/* Standard output of the server is a pipe, whose flags are those of other processes, too. */
SERVER_TEST(stalled_standard_output_is_a_log_like_a_fifo)
{
    struct segment_reader segment;
    struct reader reader;
    char command[SCRATCH_PATH_MAX + 64];
    const char *const wrapper[] = {"sh", "-c", command, "sh", NULL};
    static const char *const options[] = {"log.access=-", NULL};
    pid_t logger;

    reader_open(&reader, server);
    /* Instead of the announcement, which is an event: server_start_under() waits for it. */
    snprintf(command, sizeof(command), "echo watch it: wsconsole && exec \"$@\" >%s",
             strchr(reader.option, '/'));
    server_start_under(server, wrapper, options);
    server_attach(server, &segment);
    ask_for_pages(server);
    logger = server_logger(server);
    WAIT_UNTIL(server_count_events(&segment, "its reader takes no more") == 1);
    expect_heartbeats(&segment);
    assert_int_equal(server_logger(server), logger);
    server_signal(logger, SIGKILL);
    WAIT_UNTIL(there_is_another_logger(server, logger));
    reader_expect_all_once(&reader);
    segment_detach(&segment);
    server_stop(server);
    reader_close(&reader);
}
