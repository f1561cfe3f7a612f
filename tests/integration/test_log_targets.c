/*
 * Log targets other than files: each line arrives once, even if the reader goes away and comes
 * back. Also the summaries of the error log.
 */
#include "http_client.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MESSAGE_MAX = 4096 };

/* A syslog socket of the test. */
struct receiver {
    int fd;
    char path[SCRATCH_PATH_MAX];
};

static void receiver_open(struct receiver *receiver, const struct server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = PATIENCE_S};

    snprintf(receiver->path, sizeof(receiver->path), "%s/log", server_directory(server));
    assert_true(strlen(receiver->path) < sizeof(address.sun_path));
    memcpy(address.sun_path, receiver->path, strlen(receiver->path));
    receiver->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(receiver->fd >= 0);
    assert_int_equal(bind(receiver->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setsockopt(receiver->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

static void receiver_close(struct receiver *receiver)
{
    close(receiver->fd);
    unlink(receiver->path);
}

/* WORDS: what the line is expected to contain. */
static void take_line(const struct receiver *receiver, char *message, const char *words)
{
    ssize_t length = TEMP_FAILURE_RETRY(recv(receiver->fd, message, MESSAGE_MAX - 1, 0));

    if (length < 0)
        fail_msg("no line with '%s' came: %s", words, strerror(errno));
    message[length] = '\0';
}

static void expect_line(const struct receiver *receiver, const char *words)
{
    char message[MESSAGE_MAX];

    take_line(receiver, message, words);
    if (strstr(message, words) == NULL)
        fail_msg("'%s' is not in: %s", words, message);
}

/* In any order. */
static void expect_two_lines(const struct receiver *receiver, const char *one, const char *other)
{
    char first[MESSAGE_MAX], second[MESSAGE_MAX];
    bool swapped;

    take_line(receiver, first, one);
    take_line(receiver, second, other);
    swapped = strstr(first, one) == NULL;
    if (strstr(swapped ? second : first, one) == NULL ||
        strstr(swapped ? first : second, other) == NULL)
        fail_msg("'%s' and '%s' are not in: %s\nand: %s", one, other, first, second);
}

static void expect_no_more(const struct receiver *receiver)
{
    char message[MESSAGE_MAX];

    assert_int_equal(recv(receiver->fd, message, sizeof(message), MSG_DONTWAIT), -1);
}

static void ask_for(const struct server *server, int first, int after)
{
    for (int i = first; i < after; i++) {
        char target[64];

        snprintf(target, sizeof(target), "/page-%d", i);
        http_expect(server_port(server), target, 404);
    }
}

static void expect_asked(const struct receiver *receiver, int first, int after)
{
    for (int i = first; i < after; i++) {
        char words[64];

        snprintf(words, sizeof(words), "\"GET /page-%d HTTP/1.1\" 404", i);
        expect_line(receiver, words);
    }
}

static void start_with_syslog(struct server *server, const struct receiver *receiver)
{
    char access[SCRATCH_PATH_MAX + 64];

    snprintf(access, sizeof(access), "log.access=syslog:local3@%s", receiver->path);
    server_start(server, access, "workers.processes=1", "workers.threads=1", NULL);
}

SERVER_TEST(each_response_is_one_syslog_line)
{
    struct receiver receiver;

    receiver_open(&receiver, server);
    start_with_syslog(server, &receiver);
    ask_for(server, 0, 40);
    expect_asked(&receiver, 0, 40);
    server_stop(server);
    expect_no_more(&receiver);
    receiver_close(&receiver);
}

SERVER_TEST(lines_wait_for_syslog_to_return)
{
    struct receiver receiver;

    receiver_open(&receiver, server);
    start_with_syslog(server, &receiver);
    ask_for(server, 0, 3);
    expect_asked(&receiver, 0, 3);
    receiver_close(&receiver);
    ask_for(server, 3, 30);
    WAIT_UNTIL(server_metric(server, "log_write_errors") > 0);
    receiver_open(&receiver, server);
    expect_asked(&receiver, 3, 30);
    ask_for(server, 30, 33);
    expect_asked(&receiver, 30, 33);
    server_stop(server);
    expect_no_more(&receiver);
    receiver_close(&receiver);
}

/* Once, however often the master tries to open it again. */
SERVER_TEST(each_loss_of_a_log_is_reported)
{
    struct receiver receiver;

    receiver_open(&receiver, server);
    start_with_syslog(server, &receiver);
    for (int i = 0; i < 2; i++) {
        receiver_close(&receiver);
        ask_for(server, 2 * i, 2 * i + 1);
        WAIT_UNTIL(server_count_printed(server, "cannot open the access log") == i + 1);
        receiver_open(&receiver, server);
        expect_asked(&receiver, 2 * i, 2 * i + 1);
        ask_for(server, 2 * i + 1, 2 * i + 2);
        expect_asked(&receiver, 2 * i + 1, 2 * i + 2);
    }
    server_stop(server);
    receiver_close(&receiver);
}

SERVER_TEST(start_fails_if_log_target_is_unreachable)
{
    static const char *const options[] = {"log.access=syslog:@/nowhere/at/all", NULL};
    static const char *const unknown[] = {"log.access=syslog:local9", NULL};
    static const char *const silent[] = {"log.error=off", NULL};
    char *printed;

    assert_int_equal(server_start_rejected(server, &printed, options), EXIT_FAILURE);
    assert_non_null(strstr(printed, "cannot open the access log syslog:@/nowhere/at/all"));
    free(printed);
    assert_int_equal(server_start_rejected(server, &printed, unknown), EXIT_FAILURE);
    assert_non_null(strstr(printed, "unknown syslog facility"));
    free(printed);
    assert_int_equal(server_start_rejected(server, &printed, silent), EXIT_FAILURE);
    assert_non_null(strstr(printed, "the error log cannot be off"));
    free(printed);
}

/* Each once. The worker may write its event before the master. */
SERVER_TEST(events_go_to_configured_error_log)
{
    struct receiver receiver;
    char error[SCRATCH_PATH_MAX + 64];

    receiver_open(&receiver, server);
    snprintf(error, sizeof(error), "log.error=journald:@%s", receiver.path);
    server_start(server, error, "workers.processes=1", "workers.threads=1", NULL);
    expect_line(&receiver, "worker 0 serves with 1 thread");
    for (int threads = 1; threads < 4; threads++) {
        char of_master[64], of_worker[64];

        server_do(server, "threads %d", threads + 1);
        snprintf(of_master, sizeof(of_master), "per worker changed from %d to %d", threads,
                 threads + 1);
        snprintf(of_worker, sizeof(of_worker), "worker 0: serving threads changed from %d to %d",
                 threads, threads + 1);
        expect_two_lines(&receiver, of_master, of_worker);
    }
    server_stop(server);
    receiver_close(&receiver);
}

/* Sum of the requests in all printed summaries. */
static unsigned long summed_up(const struct server *server)
{
    static const char words[] = "summary of ";
    char *printed = server_output(server), *line = printed;
    unsigned long sum = 0, requests;

    while ((line = strstr(line, words)) != NULL) {
        if (sscanf(line, "summary of %*[^:]: %lu requests", &requests) == 1)
            sum += requests;
        line += strlen(words);
    }
    free(printed);
    return sum;
}

SERVER_TEST(summaries_add_up_to_requests_served)
{
    server_start(server, "log.summary_interval=1s", NULL);
    ask_for(server, 0, 25);
    WAIT_UNTIL(summed_up(server) == 25);
    WAIT_UNTIL(server_count_printed(server, "s: no requests, connections 0") > 0);
    WAIT_UNTIL(server_count_printed(server, "s: 25 requests") >=
               2); /* of the interval and in total */
    server_stop(server);
}

/* The old master of an upgrade has its last one when the new master serves. */
SERVER_TEST(last_summary_comes_at_the_stop)
{
    server_start(server, "log.summary_interval=24h", NULL);
    ask_for(server, 0, 25);
    server_signal(server_pid(server), SIGUSR2);
    server_succeeded(server);
    assert_int_equal(server_count_printed(server, "summary since the start"), 1);
    ask_for(server, 25, 35);
    server_stop(server);
    assert_int_equal(summed_up(server), 35);
    assert_int_equal(server_count_printed(server, "summary since the start"), 2);
}

/* The history has a sample per second, so it shows how many seconds have passed for the server. */
SERVER_TEST(summary_interval_is_not_rounded_to_seconds)
{
    enum { SUMMARIES = 12 };
    struct segment_reader reader;

    server_start(server, "log.summary_interval=100ms", NULL);
    WAIT_UNTIL(server_count_printed(server, "summary of ") >= SUMMARIES);
    server_attach(server, &reader);
    assert_true(segment_samples(&reader) < SUMMARIES);
    segment_detach(&reader);
    server_stop(server);
}
