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

static char folder[64], socket_path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/log-sink-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(socket_path, sizeof(socket_path), "%s/log", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(socket_path);
    return rmdir(folder);
}

/* The other end of a local syslog or journald. */
static int listen_there(void)
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

static void a_line_is_a_datagram_to_syslog(void **state)
{
    static const char lines[] = "first line\nsecond line\n";
    int other = listen_there();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "syslog:local1@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    assert_int_equal(log_sink_write(&sink, LEVEL_WARN, lines, strlen(lines)), strlen(lines));
    expect_message(other, "<140>", ": first line"); /* 17 * 8 + 4 */
    expect_message(other, "<140>", ": second line");
    log_sink_close(&sink);
    close(other);
}

static void journald_gets_fields(void **state)
{
    int other = listen_there();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "journald:@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    assert_int_equal(log_sink_write(&sink, LEVEL_ERROR, "a = b\n", 6), 6);
    expect_message(other,
                   "PRIORITY=3\nSYSLOG_IDENTIFIER=webserverd\nWEBSERVERD_INSTANCE=test\nMESSAGE=",
                   "MESSAGE=a = b\n");
    log_sink_close(&sink);
    close(other);
}

/* The other end goes away: what it has not taken is not said to be out. */
static void a_socket_takes_whole_lines_or_none(void **state)
{
    int other = listen_there();
    struct log_sink sink;
    char text[128];

    (void)state;
    snprintf(text, sizeof(text), "syslog:@%s", socket_path);
    assert_int_equal(log_sink_open(&sink, text, -1, "test"), 0);
    close(other);
    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "lost\n", 5), 0);
    assert_int_equal(errno, ECONNREFUSED);
    log_sink_close(&sink);
}

static void nobody_there_is_an_error(void **state)
{
    struct log_sink sink;

    (void)state;
    assert_int_equal(log_sink_open(&sink, "syslog:@/nowhere/at/all", -1, "test"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(log_sink_open(&sink, "/nowhere/at/all", -1, "test"), -1);
    assert_int_equal(errno, ENOENT);
}

/* A pipe that was made impatient by whoever gave it to us takes everything all the same. */
static void an_impatient_pipe_gets_all_of_it(void **state)
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

static void off_takes_all_and_keeps_nothing(void **state)
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
        cmocka_unit_test(a_line_is_a_datagram_to_syslog),
        cmocka_unit_test(journald_gets_fields),
        cmocka_unit_test(a_socket_takes_whole_lines_or_none),
        cmocka_unit_test(nobody_there_is_an_error),
        cmocka_unit_test(an_impatient_pipe_gets_all_of_it),
        cmocka_unit_test(off_takes_all_and_keeps_nothing),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
