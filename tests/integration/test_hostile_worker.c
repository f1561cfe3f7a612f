/*
 * A worker or logger that breaks the message protocol. The test borrows its ends of its channels
 * (pidfd_getfd(2)) and sends in its name what a compromised process might. Only this process may
 * suffer: the master kills it, starts another, and keeps no descriptor.
 */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "daemon/base/messages.h"
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS = 12, PIDS_MAX = 16, DESCRIPTORS_MAX = 253, MESSAGE_MAX = 64 * 1024 };

/* Both channels of a worker, in the order in which they are opened. */
struct channels {
    int commands, connections;
};

static int compare_numbers(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

/* Lists the descriptors of a process in ascending order. Returns their number. */
static size_t list_descriptors(pid_t pid, int *fds, size_t most)
{
    char path[64];
    struct dirent *entry;
    size_t count = 0;
    DIR *directory;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    directory = opendir(path);
    assert_non_null(directory);
    while (count < most && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            fds[count++] = atoi(entry->d_name);
    closedir(directory);
    qsort(fds, count, sizeof(*fds), compare_numbers);
    return count;
}

static size_t count_descriptors(pid_t pid)
{
    int fds[1024];

    return list_descriptors(pid, fds, ARRAY_LENGTH(fds));
}

static bool is_channel(int fd)
{
    int type = 0;
    socklen_t length = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

/*
 * Takes copies of the first channels of a process. Skips the test if the system does not allow it.
 * Returns their number.
 */
static size_t borrow(pid_t process, int *channels, size_t most)
{
    int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
    int fds[256];
    size_t count = list_descriptors(process, fds, ARRAY_LENGTH(fds)), found = 0;

    assert_true(pidfd >= 0);
    for (size_t i = 0; i < count && found < most; i++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, fds[i], 0);

        if (fd < 0 && errno == EPERM)
            skip();
        if (fd >= 0 && is_channel(fd))
            channels[found++] = fd;
        else if (fd >= 0)
            close(fd);
    }
    close(pidfd);
    return found;
}

static struct channels borrow_channels(pid_t worker)
{
    int found[2] = {-1, -1};

    assert_int_equal(borrow(worker, found, 2), 2);
    return (struct channels){found[0], found[1]};
}

static void return_channels(const struct channels *channels)
{
    close(channels->commands);
    close(channels->connections);
}

/* Sends a message with COUNT descriptors of FD. Returns false if the channel is closed already. */
static bool send_message(int channel, int64_t kind, const void *data, size_t length, int fd,
                         size_t count)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body[] = {{&kind, sizeof(kind)}, {(void *)(uintptr_t)data, length}};
    struct msghdr header = {.msg_iov = body, .msg_iovlen = ARRAY_LENGTH(body)};

    if (count > 0) {
        struct cmsghdr *rights;

        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(fd));
    }
    while (sendmsg(channel, &header, MSG_NOSIGNAL) < 0)
        if (errno != EAGAIN)
            return false;
    return true;
}

static bool serves(const struct server *server, pid_t pid)
{
    pid_t pids[PIDS_MAX];
    size_t count = server_workers(server, pids, PIDS_MAX);

    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool is_replaced(const struct server *server, pid_t pid)
{
    pid_t pids[PIDS_MAX];

    return !serves(server, pid) && server_workers(server, pids, PIDS_MAX) == WORKERS;
}

static void start_workers(struct server *server, pid_t *pids)
{
    char processes[64];

    snprintf(processes, sizeof(processes), "workers.processes=%d", WORKERS);
    server_put_text(server, "/a", "a");
    server_start(server, processes, "workers.threads=1", NULL);
    assert_int_equal(server_workers(server, pids, PIDS_MAX), WORKERS);
}

/* Only WORKER is replaced, for the reason in WORDS, which follow its pid in the error log. */
static void expect_replaced(const struct server *server, pid_t worker, const pid_t *others,
                            size_t count, const char *words)
{
    char printed[128];

    snprintf(printed, sizeof(printed), "%d%s", worker, words);
    WAIT_UNTIL(is_replaced(server, worker));
    for (size_t i = 0; i < count; i++)
        assert_true(serves(server, others[i]));
    WAIT_UNTIL(server_has_printed(server, printed));
    http_expect(server_port(server), "/a", 200);
}

/* Each is tried by another worker, because one that dies young is replaced after a delay. */
static const struct attack {
    bool connection; /* on the connection channel, else on the command channel */
    int64_t kind;
    size_t length;
    size_t descriptors;
    const char *words;
} attacks[] = {
    {false, MESSAGE_THREADS_RUNNING, 4, 100, ") sent a message with unexpected descriptors"},
    {false, MESSAGE_THREADS_RUNNING, 4, 0, ") reported threads that it was not sent"},
    {false, MESSAGE_LISTEN_SOCKET_LOST, sizeof(struct message_listen_socket), 0,
     ") sent more reports than it received"},
    {false, MESSAGE_COMMAND_DONE, 16, 0, ") completed an unknown command"},
    {false, MESSAGE_COMMAND_DONE, 3, 0, ") sent a message of wrong length"},
    {false, MESSAGE_STOP, 0, 0, ") sent a message in the wrong direction"},
    {false, 1000, 60000, 2, ") sent a message of unknown kind"},
    {true, MESSAGE_CONNECTION_RETURNED, sizeof(struct message_connection), 0,
     ") sent a message without its descriptor"},
    {true, MESSAGE_CONNECTION_RETURNED, sizeof(struct message_connection), 1,
     ") returned a connection unasked"},
    {true, MESSAGE_CONNECTION_RETURNED, sizeof(struct message_connection) + 1, 1,
     ") sent a message of wrong length"},
};

SERVER_TEST(invalid_message_costs_only_its_sender)
{
    static const char zeros[MESSAGE_MAX];
    size_t before;
    pid_t pids[PIDS_MAX];

    start_workers(server, pids);
    before = count_descriptors(server_pid(server)); /* perhaps with a control connection */
    for (size_t i = 0; i < ARRAY_LENGTH(attacks); i++) {
        const struct attack *attack = &attacks[i];
        struct channels channels = borrow_channels(pids[i]);

        /* More often than there were commands at its start, which one report each may answer. */
        for (int times = 0; times < 100; times++)
            send_message(attack->connection ? channels.connections : channels.commands,
                         attack->kind, zeros, attack->length, channels.commands,
                         attack->descriptors);
        return_channels(&channels);
        expect_replaced(server, pids[i], pids + i + 1, WORKERS - i - 1, attack->words);
        server_expect_metric(server, "protocol_errors", i + 1);
    }
    WAIT_UNTIL(count_descriptors(server_pid(server)) <= before);
    server_stop(server);
}

static bool leaves(const struct server *server, pid_t worker)
{
    char words[64];

    snprintf(words, sizeof(words), "leaves (pid %d)", worker);
    return server_has_printed(server, words);
}

SERVER_TEST(leaving_worker_can_return_only_connections)
{
    const struct message_connection message = {.length = 0};
    struct channels channels;
    pid_t pids[PIDS_MAX];
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    server_start(server, "workers.processes=1", "workers.heartbeat_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, PIDS_MAX), 1);
    channels = borrow_channels(pids[0]);
    server_signal(pids[0], SIGSTOP);
    server_signal(server_pid(server), SIGHUP);
    WAIT_UNTIL(leaves(server, pids[0]));
    send_message(channels.connections, MESSAGE_CONNECTION_RETURNED, &message, sizeof(message), fd,
                 1);
    WAIT_UNTIL(server_has_printed(server, "returned a descriptor that is not a connection"));
    close(fd);
    return_channels(&channels);
    server_expect_metric(server, "protocol_errors", 1);
    server_stop(server);
}

/* Copies would take descriptors of the other workers. */
SERVER_TEST(leaving_worker_can_return_a_connection_once)
{
    const struct message_connection message = {.length = 0};
    struct channels channels;
    pid_t pids[PIDS_MAX];
    int fds[2];

    server_start(server, "workers.processes=1", "workers.heartbeat_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, PIDS_MAX), 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    channels = borrow_channels(pids[0]);
    server_signal(pids[0], SIGSTOP);
    server_signal(server_pid(server), SIGHUP);
    WAIT_UNTIL(leaves(server, pids[0]));
    for (int i = 0; i < 100; i++)
        send_message(channels.connections, MESSAGE_CONNECTION_RETURNED, &message, sizeof(message),
                     fds[0], 1);
    WAIT_UNTIL(server_has_printed(server, "returned a connection twice"));
    close(fds[0]);
    close(fds[1]);
    return_channels(&channels);
    server_expect_metric(server, "protocol_errors", 1);
    server_expect_metric(server, "connections_dispatched", 1);
    server_stop(server);
}

SERVER_TEST(worker_exits_after_an_invalid_message)
{
    pid_t pids[PIDS_MAX];
    int ends[2] = {-1, -1}; /* of the master, who opens that of the logger first */

    start_workers(server, pids);
    assert_int_equal(borrow(server_pid(server), ends, ARRAY_LENGTH(ends)), ARRAY_LENGTH(ends));
    send_message(ends[1], MESSAGE_THREADS, "", 1, -1, 0);
    close(ends[0]);
    close(ends[1]);
    expect_replaced(server, pids[0], pids + 1, WORKERS - 1,
                    ": the master sent a message of wrong length");
    server_stop(server);
}
static bool has_other_logger(const struct server *server, pid_t former)
{
    pid_t logger = server_logger(server);

    return logger != former && logger != 0;
}

SERVER_TEST(invalid_message_of_the_logger_costs_only_the_logger)
{
    static const struct {
        struct message_log message;
        size_t descriptors;
        const char *words;
    } cases[] = {
        {{LOG_ACCESS, 0}, 0, ") lost more logs than it received"},
        {{LOG_KINDS + LOG_HOST_FILES_MAX, 0}, 0, ") sent a message of wrong length or content"},
        {{LOG_ERROR, 0}, 3, ") sent a message with unexpected descriptors"},
    };
    pid_t pids[PIDS_MAX];

    start_workers(server, pids);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pid_t logger = server_logger(server);
        int channel = -1;

        assert_int_equal(borrow(logger, &channel, 1), 1);
        for (int times = 0; times < 100; times++)
            send_message(channel, MESSAGE_LOG_LOST, &cases[i].message, sizeof(cases[i].message),
                         channel, cases[i].descriptors);
        close(channel);
        WAIT_UNTIL(has_other_logger(server, logger));
        WAIT_UNTIL(server_has_printed(server, cases[i].words));
        server_expect_metric(server, "protocol_errors", i + 1);
        http_expect(server_port(server), "/a", 200);
        server_expect_metric(server, "log_lines", i + 1);
    }
    assert_true(serves(server, pids[0]));
    server_stop(server);
}
