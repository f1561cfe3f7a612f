/* Signals, the master in the background, and its messages to a service manager. */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/service.h"
#include "tests/test.h"
#include "tests/unit/own_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TEXT_MAX = 512,
    NAME_BYTES = 40,
    ADDRESS_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path)
};

static int manager; /* of a service: the socket that NOTIFY_SOCKET names */

/* NAME of LENGTH bytes begins with '/', or with '@' for an abstract socket. */
static void open_named_manager(const char *name, size_t length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(length <= sizeof(address.sun_path));
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager >= 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
}

/* With an abstract name of LENGTH bytes that only this process uses. */
static void open_manager(size_t length)
{
    char name[TEXT_MAX];
    int used = snprintf(name, length + 1, "@webserverd-unit-%d-", (int)getpid());

    memset(name + used, 'x', length - (size_t)used);
    name[length] = '\0';
    open_named_manager(name, length);
}

static void close_manager(void)
{
    close(manager);
    unsetenv("NOTIFY_SOCKET");
}

/* TEXT "": nothing was sent. */
static void expect_sent(const char *text)
{
    char got[2 * TEXT_MAX];
    ssize_t length = recv(manager, got, sizeof(got), 0);

    assert_int_equal(length, strlen(text) > 0 ? (ssize_t)strlen(text) : -1);
    if (length > 0)
        assert_memory_equal(got, text, (size_t)length);
}

TEST(message_is_one_datagram)
{
    open_manager(NAME_BYTES);
    notify_send("STATUS=%d of %d", 1, 2);
    expect_sent("STATUS=1 of 2");
    notify_send("%s", "");
    expect_sent("");
    close_manager();
    notify_send("nobody receives it");
}

TEST(text_that_does_not_fit_is_not_sent)
{
    char text[TEXT_MAX + 1];

    open_manager(NAME_BYTES);
    memset(text, 't', TEXT_MAX);
    text[TEXT_MAX] = '\0';
    notify_send("%s", text);
    expect_sent("");
    notify_send("%s", text + 1);
    expect_sent(text + 1);
    close_manager();
}

TEST(socket_can_have_a_path)
{
    char path[64];

    own_directory_make();
    snprintf(path, sizeof(path), "%s/socket", own_directory);
    open_named_manager(path, strlen(path));
    notify_send("READY=1");
    expect_sent("READY=1");
    close_manager();
    assert_int_equal(own_directory_remove(), 0);
}

TEST(longest_name_is_one_byte_shorter_than_the_address)
{
    open_manager(ADDRESS_BYTES);
    notify_send("READY=1");
    expect_sent("");
    close_manager();
    open_manager(ADDRESS_BYTES - 1);
    notify_send("READY=1");
    expect_sent("READY=1");
    close_manager();
}

TEST(reload_begins_with_its_time)
{
    char got[TEXT_MAX + 1];
    unsigned long long at_us;
    uint64_t before_ns;
    ssize_t length;

    open_manager(NAME_BYTES);
    before_ns = clock_monotonic_ns();
    notify_reloading();
    length = recv(manager, got, TEXT_MAX, 0);
    assert_true(length > 0);
    got[length] = '\0';
    assert_int_equal(sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%llu", &at_us), 1);
    assert_in_range(at_us, before_ns / NS_PER_US, clock_monotonic_ns() / NS_PER_US);
    close_manager();
}

TEST(only_the_watched_process_sends_keep_alives)
{
    char pid[16];

    open_manager(NAME_BYTES);
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    notify_alive();
    expect_sent("");
    setenv("WATCHDOG_USEC", "1000000", 1);
    notify_alive();
    expect_sent("WATCHDOG=1");
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    notify_alive();
    expect_sent("WATCHDOG=1");
    snprintf(pid, sizeof(pid), "%d", (int)getpid() + 1);
    setenv("WATCHDOG_PID", pid, 1);
    notify_alive();
    expect_sent("");
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    close_manager();
}

/* The background */

/*
 * A process that calls daemonize(). Its child writes to REPORT what it finds, unless it ends first.
 */
struct background {
    void (*child)(int report);
    char report[TEXT_MAX];
    int status; /* of the process */
};

static void run(struct background *background)
{
    size_t length = 0;
    ssize_t got;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (daemonize() == 0)
            background->child(ends[1]);
        _exit(99);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &background->status, 0), pid);
    while ((got = read(ends[0], background->report + length,
                       sizeof(background->report) - 1 - length)) > 0)
        length += (size_t)got;
    assert_int_equal(got, 0); /* the child has ended */
    background->report[length] = '\0';
    close(ends[0]);
}

static void expect_exit(const struct background *background, int status)
{
    assert_true(WIFEXITED(background->status));
    assert_int_equal(WEXITSTATUS(background->status), status);
}

static void exit_with_7(int report)
{
    (void)report;
    _exit(7);
}

static void exit_with_0(int report)
{
    (void)report;
    _exit(0);
}

static void die(int report)
{
    (void)report;
    raise(SIGKILL);
}

/* After daemonize_release(), the report that it is ready is not sent. */
static void release_and_exit_with_7(int report)
{
    (void)report;
    daemonize_release();
    daemonize_report_ready();
    _exit(7);
}

TEST(parent_has_the_status_of_a_child_that_fails)
{
    struct background fails = {.child = exit_with_7}, ends = {.child = exit_with_0},
                      dies = {.child = die}, releases = {.child = release_and_exit_with_7};

    run(&fails);
    expect_exit(&fails, 7);
    run(&ends);
    expect_exit(&ends, EXIT_FAILURE);
    run(&dies);
    expect_exit(&dies, EXIT_FAILURE);
    run(&releases);
    expect_exit(&releases, 7);
}

static bool is_same_file(int one, int other)
{
    struct stat first, second;

    return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Standard input is a pipe, standard output a file, standard error that of the test. */
static void look_and_be_ready(int report)
{
    int input[2], nothing = open("/dev/null", O_RDWR), file = memfd_create("output", 0), pipe_copy,
                  file_copy;
    bool before, after;

    if (pipe(input) != 0 || dup2(input[0], STDIN_FILENO) < 0 || dup2(file, STDOUT_FILENO) < 0)
        _exit(98);
    before = is_same_file(STDIN_FILENO, input[0]);
    pipe_copy = daemonize_duplicate_stream(STDIN_FILENO);
    file_copy = daemonize_duplicate_stream(STDOUT_FILENO);
    daemonize_report_ready();
    after = is_same_file(STDIN_FILENO, nothing);
    dprintf(report, "leads a session %d, pipe %d %d %d, file %d %d", getsid(0) == getpid(), before,
            after, is_same_file(pipe_copy, nothing), is_same_file(STDOUT_FILENO, file),
            is_same_file(file_copy, file));
    _exit(7);
}

TEST(child_that_is_ready_has_no_terminal)
{
    struct background background = {.child = look_and_be_ready};

    run(&background);
    expect_exit(&background, EXIT_SUCCESS);
    assert_string_equal(background.report, "leads a session 1, pipe 1 1 1, file 1 1");
}

/* Its flags are those of other processes, too. */
TEST(duplicate_of_a_pipe_has_flags_of_its_own)
{
    int ends[2], copy;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    copy = daemonize_duplicate_stream(ends[1]);
    assert_true(copy >= 0);
    assert_true(is_same_file(copy, ends[1]));
    assert_true((fcntl(copy, F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    close(copy);
    close(ends[0]);
    close(ends[1]);
}

TEST(duplicate_of_a_file_shares_its_offset)
{
    int file = memfd_create("output", MFD_CLOEXEC), copy;

    assert_true(file >= 0);
    copy = daemonize_duplicate_stream(file);
    assert_int_equal(write(file, "four", 4), 4);
    assert_int_equal(lseek(copy, 0, SEEK_CUR), 4);
    assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
    close(copy);
    close(file);
}

/* Signals */

/*
 * Those that an operator, a terminal or a service manager sends, and those of the program itself.
 */
static const int all_signals[] = {SIGTERM, SIGINT,  SIGQUIT, SIGCHLD, SIGHUP, SIGUSR1,
                                  SIGUSR2, SIGPIPE, SIGSEGV, SIGABRT, SIGALRM};

static bool is_among(int number, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

static bool is_ignored(int number)
{
    struct sigaction action;

    assert_int_equal(sigaction(number, NULL, &action), 0);
    return action.sa_handler == SIG_IGN;
}

static bool is_blocked(int number)
{
    sigset_t blocked;

    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
    return sigismember(&blocked, number) == 1;
}

/* Only those of NUMBERS are ignored. */
static void expect_ignored(const int *numbers, size_t count)
{
    for (size_t i = 0; i < ARRAY_LENGTH(all_signals); i++)
        assert_int_equal(is_ignored(all_signals[i]), is_among(all_signals[i], numbers, count));
}

static int restore_signals(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(all_signals); i++)
        if (is_ignored(all_signals[i]))
            signal(all_signals[i], SIG_DFL);
    return 0;
}

TEST_WITH(master_ignores_a_broken_pipe, NULL, restore_signals)
{
    static const int ignored[] = {SIGPIPE};

    restore_signals(NULL);
    signals_ignore_in_master();
    expect_ignored(ignored, ARRAY_LENGTH(ignored));
}

TEST_WITH(child_ignores_signals_sent_to_the_process_group, NULL, restore_signals)
{
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGQUIT};

    restore_signals(NULL);
    signals_ignore_in_child();
    expect_ignored(ignored, ARRAY_LENGTH(ignored));
}

TEST(handled_signals_are_blocked_and_unblocked)
{
    sigset_t none;

    sigemptyset(&none);
    assert_int_equal(sigprocmask(SIG_SETMASK, &none, NULL), 0); /* the caller may block some */
    signals_block();
    for (size_t i = 0; i < ARRAY_LENGTH(all_signals); i++)
        assert_int_equal(is_blocked(all_signals[i]),
                         is_among(all_signals[i], signals_handled, SIGNALS_HANDLED));
    signals_unblock();
    for (size_t i = 0; i < ARRAY_LENGTH(all_signals); i++)
        assert_false(is_blocked(all_signals[i]));
}
