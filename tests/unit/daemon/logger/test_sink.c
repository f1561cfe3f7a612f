#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "tests/test.h"

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

const struct test_fixture test_group_fixture = {make_directory, remove_directory};

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

/* Of the receiver: TARGET without the path. */
static struct log_sink open_sink(const char *target)
{
    char text[128], why[128];
    int fd;

    snprintf(text, sizeof(text), "%s%s", target, socket_path);
    fd = log_file_open(text, -1, why, sizeof(why));
    assert_true(fd >= 0);
    return log_sink_make(text, fd, "test");
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

TEST(syslog_line_is_a_datagram)
{
    static const char lines[] = "first line\nsecond line\n";
    int receiver = bind_receiver();
    struct log_sink sink = open_sink("syslog:local1@");

    assert_int_equal(log_sink_write(&sink, LEVEL_WARN, lines, strlen(lines)), strlen(lines));
    expect_message(receiver, "<140>", ": first line"); /* 17 * 8 + 4 */
    expect_message(receiver, "<140>", ": second line");
    log_sink_close(&sink);
    close(receiver);
}

TEST(journald_line_becomes_fields)
{
    int receiver = bind_receiver();
    struct log_sink sink = open_sink("journald:@");

    assert_int_equal(log_sink_write(&sink, LEVEL_ERROR, "a = b\n", 6), 6);
    expect_message(receiver,
                   "PRIORITY=3\nSYSLOG_IDENTIFIER=webserverd\nWEBSERVERD_INSTANCE=test\nMESSAGE=",
                   "MESSAGE=a = b\n");
    log_sink_close(&sink);
    close(receiver);
}

/* The receiver closes its socket; lines it did not receive must not count as written. */
TEST(closed_receiver_takes_no_partial_line)
{
    int receiver = bind_receiver();
    struct log_sink sink = open_sink("syslog:@");

    close(receiver);
    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "lost\n", 5), 0);
    assert_int_equal(errno, ECONNREFUSED);
    log_sink_close(&sink);
}

/* An inherited pipe is usually blocking, and remains so for its other users. */
TEST(full_pipe_takes_no_line_and_does_not_block)
{
    static char line[512];
    struct log_sink sink;
    int ends[2];

    memset(line, 'x', sizeof(line));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    sink = log_sink_make("-", ends[1], "test");
    while (log_sink_write(&sink, LEVEL_INFO, line, sizeof(line)) == sizeof(line))
        continue;
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    assert_false(log_sink_wait(ends[1], clock_monotonic_ns() + NS_PER_MS));
    assert_int_equal(errno, EAGAIN);
    while (read(ends[0], line, sizeof(line)) == sizeof(line) &&
           log_sink_write(&sink, LEVEL_INFO, line, sizeof(line)) != sizeof(line))
        continue;
    log_sink_close(&sink);
    close(ends[0]);
}

/* A receiver that reads nothing must not stop the logger. */
TEST(full_socket_takes_no_line_and_does_not_block)
{
    int receiver = bind_receiver(), taken = 0;
    struct log_sink sink = open_sink("syslog:@");
    char message[MESSAGE_MAX];

    while (log_sink_write(&sink, LEVEL_INFO, "line\n", 5) == 5)
        taken++;
    assert_int_equal(errno, EAGAIN);
    assert_true(taken > 0);
    assert_true(recv(receiver, message, sizeof(message), 0) > 0);
    errno = EAGAIN;
    assert_true(log_sink_wait(sink.fd, clock_monotonic_ns() + 3600 * NS_PER_S));
    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "line\n", 5), 5);
    log_sink_close(&sink);
    close(receiver);
}

/* As a compromised worker may store it. */
TEST(unknown_level_is_an_error_for_syslog)
{
    int receiver = bind_receiver();
    struct log_sink sink = open_sink("syslog:local1@");

    assert_int_equal(log_sink_write(&sink, (enum level)200, "line\n", 5), 5);
    expect_message(receiver, "<139>", ": line"); /* 17 * 8 + 3 */
    assert_int_equal(log_sink_write(&sink, LEVEL_COUNT, "line\n", 5), 5);
    expect_message(receiver, "<139>", ": line");
    log_sink_close(&sink);
    close(receiver);
}

/* Takes over FD. */
static void expect_kind(int fd, bool regular, bool pipe, bool socket)
{
    struct log_sink sink = log_sink_make("-", fd, "test");

    assert_int_equal(sink.regular, regular);
    assert_int_equal(sink.pipe, pipe);
    assert_int_equal(sink.socket, socket);
    log_sink_close(&sink);
}

TEST(descriptors_of_all_kinds_are_told_apart)
{
    char path[128];
    int ends[2];

    snprintf(path, sizeof(path), "%s/file", directory);
    expect_kind(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), true, false, false);
    unlink(path);
    expect_kind(open("/dev/null", O_WRONLY | O_CLOEXEC), false, false, false);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    expect_kind(ends[0], false, true, false);
    expect_kind(ends[1], false, true, false);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    expect_kind(ends[0], false, false, true);
    expect_kind(ends[1], false, false, true);
}

TEST(closed_or_lost_sink_is_not_open)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct log_sink sink = log_sink_make("-", fd, "test");

    assert_true(log_sink_is_open(&sink));
    sink.lost = true;
    assert_false(log_sink_is_open(&sink));
    sink.lost = false;
    log_sink_close(&sink);
    assert_false(log_sink_is_open(&sink));
    assert_int_equal(sink.fd, -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

TEST(last_line_may_lack_its_newline)
{
    int receiver = bind_receiver();
    struct log_sink sink = open_sink("syslog:@");

    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "one\ntwo", 7), 7);
    expect_message(receiver, "<", ": one");
    expect_message(receiver, "<", ": two");
    log_sink_close(&sink);
    close(receiver);
}

/* The write before has failed with ERROR. */
static bool wait_after(int error, int fd, uint64_t until_ns)
{
    errno = error;
    return log_sink_wait(fd, until_ns);
}

TEST(only_a_full_or_interrupted_write_is_repeated)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    uint64_t later = clock_monotonic_ns() + 3600 * NS_PER_S;

    assert_true(wait_after(EINTR, -1, 0));
    assert_true(wait_after(EAGAIN, fd, later));
    assert_false(wait_after(EAGAIN, fd, 0));
    assert_int_equal(errno, EAGAIN);
    assert_false(wait_after(EPIPE, fd, later));
    assert_int_equal(errno, EPIPE);
    close(fd);
}

/* Also if less than a millisecond is left. */
TEST(wait_for_room_does_not_end_early)
{
    int ends[2];
    char bytes[4096] = {0};

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        continue;
    for (int i = 0; i < 10; i++) {
        uint64_t until = clock_monotonic_ns() + NS_PER_MS * 9 / 10;

        assert_false(wait_after(EAGAIN, ends[1], until));
        assert_true(clock_monotonic_ns() >= until);
    }
    close(ends[0]);
    close(ends[1]);
}

TEST(off_discards_all_lines)
{
    struct log_sink sink = log_sink_make("off", -1, "test");

    assert_int_equal(log_sink_write(&sink, LEVEL_INFO, "line\n", 5), 5);
    log_sink_close(&sink);
}
