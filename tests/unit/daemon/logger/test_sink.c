#include "daemon/logger/sink.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

enum { MESSAGE_MAX = 512 };

static char directory[64], socket_path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/log-sink-test-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(socket_path, sizeof(socket_path), "%s/log", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(socket_path);
    return rmdir(directory);
}

/* Returns the receiving socket of a local syslog or journald. */
static int bind_receiver(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    unlink(socket_path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void expect_message(int fd, const char *begins, const char *ends)
{
    char message[MESSAGE_MAX];
    ssize_t length = recv(fd, message, sizeof(message) - 1, 0);

    assert_true(length > 0);
    message[length] = '\0';
    assert_true((size_t)length >= strlen(begins) && (size_t)length >= strlen(ends));
    assert_memory_equal(message, begins, strlen(begins));
    assert_string_equal(message + length - strlen(ends), ends);
}

static void syslog_line_is_a_datagram(void **state)
{
    static const char lines[] = "first line\nsecond line\n";
    int receiver = bind_receiver();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "syslog:local1@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    assert_int_equal(log_sink_write(&sink, LEVEL_WARN, lines, strlen(lines)), strlen(lines));
    expect_message(receiver, "<140>", ": first line"); /* 17 * 8 + 4 */
    expect_message(receiver, "<140>", ": second line");
    log_sink_close(&sink);
    close(receiver);
}

static void journald_line_becomes_fields(void **state)
{
    int receiver = bind_receiver();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "journald:@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    assert_int_equal(log_sink_write(&sink, LEVEL_ERROR, "a = b\n", 6), 6);
    expect_message(receiver,
                   "PRIORITY=3\nSYSLOG_IDENTIFIER=webserverd\nWEBSERVERD_INSTANCE=test\nMESSAGE=",
                   "MESSAGE=a = b\n");
    log_sink_close(&sink);
    close(receiver);
}

/* The receiver closes its socket; lines it did not receive must not count as written. */
static void closed_receiver_takes_no_partial_line(void **state)
{
    int receiver = bind_receiver();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "syslog:@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    close(receiver);
    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "lost\n", 5), 0);
    assert_int_equal(errno, ECONNREFUSED);
    log_sink_close(&sink);
}

static void missing_target_is_an_error(void **state)
{
    struct log_sink sink;

    (void)state;
    assert_int_equal(log_sink_open(&sink, "syslog:@/nowhere/at/all", -1, "test"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(log_sink_open(&sink, "/nowhere/at/all", -1, "test"), -1);
    assert_int_equal(errno, ENOENT);
}

/* An inherited pipe may be non-blocking; every byte must be written nevertheless. */
static void nonblocking_pipe_receives_all_bytes(void **state)
{
    enum { BYTES = 300000 };
    char *sent = malloc(BYTES), *got = malloc(BYTES);
    struct log_sink sink;
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t part;

    (void)state;
    memset(sent, 'x', BYTES);
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    if (fork() == 0) {
        int fallback = ends[1];

        close(ends[0]);
        status = log_sink_open(&sink, "-", fallback, "test");
        _exit(status == 0 && log_sink_write(&sink, LEVEL_INFO, sent, BYTES) == BYTES ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
    while ((part = read(ends[0], got + length, BYTES - length)) > 0)
        length += (size_t)part;
    assert_int_equal(length, BYTES);
    assert_memory_equal(sent, got, BYTES);
    close(ends[0]);
    free(sent);
    free(got);
}

static void off_discards_all_lines(void **state)
{
    struct log_sink sink;

    (void)state;
    assert_int_equal(log_sink_open(&sink, "off", -1, "test"), 0);
    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "line\n", 5), 5);
    log_sink_close(&sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syslog_line_is_a_datagram),
        cmocka_unit_test(journald_line_becomes_fields),
        cmocka_unit_test(closed_receiver_takes_no_partial_line),
        cmocka_unit_test(missing_target_is_an_error),
        cmocka_unit_test(nonblocking_pipe_receives_all_bytes),
        cmocka_unit_test(off_discards_all_lines),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
