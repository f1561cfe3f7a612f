/* The process of the logger, in the master: messages sent, reports received, and its end. */
#include "daemon/logger/process.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PID = 4711, NUMBER = 5, HOST_LOG = LOG_KINDS, WAIT_MS = 1000000000, NO_MESSAGE = -1 };

static struct segment segment;
static struct event_base *base;
static char directory[64], access_path[96], host_path[96];
static char *host_name[] = {"a.example"};
static struct config_host host = {.names = host_name, .name_count = 1, .access_log = host_path};
static char error_log[] = "/dev/null";
static const struct config config = {
    .log_access = access_path, .log_error = error_log, .hosts = &host, .host_count = 1};
static struct log_files files;
static struct salvage salvage;
static struct logger_process process;
static struct logger_setup setup;

static pid_t killed; /* 0: none, -1: more than one */
static int forks;    /* tried */
static bool fork_fails, fork_is_real;
static int logger_fd; /* the logger's end of the channel */

/* The clock stands still. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = 1000};
    return 0;
}

int __wrap_kill(pid_t pid, int number)
{
    assert_int_equal(number, SIGKILL);
    killed = killed == 0 && pid > 0 ? pid : -1;
    return 0;
}

pid_t __wrap_fork(void)
{
    forks++;
    if (fork_fails) {
        errno = EAGAIN;
        return -1;
    }
    logger_fd = dup(setup.command_fd);
    return fork_is_real ? __real_fork() : PID;
}

/*
 * In the child, before the logger runs: the master's salvage is empty, and the logger has its
 * lines.
 */
static void after_fork(void *context)
{
    bool kept = context == &host && salvage.words == NULL && salvage.count == 0 &&
                setup.salvage->words != NULL && setup.salvage->count == 8 &&
                setup.targets == &files.targets;

    _exit(kept ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int set_up(void **state)
{
    char why[256];

    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/logger-process-test-XXXXXX");
    base = event_base_new();
    if (base == NULL || mkdtemp(directory) == NULL ||
        own_segment_create(&segment, (struct segment_plan){.max_workers = 1}) != 0)
        return -1;
    snprintf(access_path, sizeof(access_path), "%s/access", directory);
    snprintf(host_path, sizeof(host_path), "%s/host", directory);
    salvage = (struct salvage){.words = NULL};
    if (log_files_open(&files, &config, why, sizeof(why)) != 0 ||
        logger_process_init(&process, base, &segment, &files, &salvage) != 0)
        return -1;
    process.number = NUMBER;
    events_forget();
    forks = 0;
    killed = 0;
    logger_fd = -1;
    fork_fails = fork_is_real = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    logger_process_free(&process);
    log_files_close(&files);
    salvage_free(&salvage);
    event_base_free(base);
    segment_destroy(&segment);
    if (logger_fd >= 0)
        close(logger_fd);
    unlink(access_path);
    unlink(host_path);
    rmdir(access_path);
    rmdir(host_path);
    return rmdir(directory);
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void start(void)
{
    logger_process_start(&process, &setup, after_fork, &host);
}

static void run_loop(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
}

/* The logger receives a message: its kind, and its descriptor. NO_MESSAGE: there is none. */
static int receive(void *data, size_t size, int *fd)
{
    int64_t kind = NO_MESSAGE;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body[] = {{&kind, sizeof(kind)}, {data, size}};
    struct msghdr header = {.msg_iov = body,
                            .msg_iovlen = 2,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};

    *fd = -1;
    if (recvmsg(logger_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
        return NO_MESSAGE;
    if (CMSG_FIRSTHDR(&header) != NULL)
        memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(*fd));
    return (int)kind;
}

/* The next message passes the file at PATH as LOG. */
static void expect_file(uint32_t log, const char *path)
{
    struct message_log message;
    struct stat passed, named;
    int fd;

    assert_int_equal(receive(&message, sizeof(message), &fd), MESSAGE_LOG_FILE);
    assert_int_equal(message.log, log);
    assert_int_equal(message.number, process.number);
    assert_int_equal(fstat(fd, &passed), 0);
    assert_int_equal(stat(path, &named), 0);
    assert_int_equal(passed.st_ino, named.st_ino);
    close(fd);
}

static void expect_files(void)
{
    expect_file(HOST_LOG, host_path);
    expect_file(LOG_ACCESS, access_path);
    expect_file(LOG_ERROR, "/dev/null");
}

static struct message_log_finish expect_finish(void)
{
    struct message_log_finish message = {0};
    int fd;

    assert_int_equal(receive(&message, sizeof(message), &fd), MESSAGE_LOG_FINISH);
    return message;
}

static void expect_no_message(void)
{
    struct message_log message;
    int fd;

    assert_int_equal(receive(&message, sizeof(message), &fd), NO_MESSAGE);
}

static void start_and_take_files(void)
{
    start();
    expect_files();
}

static void report_lost(uint32_t log, uint32_t number)
{
    const struct {
        int64_t kind;
        struct message_log message;
    } report = {MESSAGE_LOG_LOST, {log, number}};

    assert_int_equal(send(logger_fd, &report, sizeof(report), 0), sizeof(report));
    event_del(process.retry); /* it must not expire in this iteration */
    run_loop();
}

static bool retry_is_due(void)
{
    return event_pending(process.retry, EV_TIMEOUT, NULL) != 0;
}

static void run_retry(void)
{
    event_del(process.retry);
    event_active(process.retry, EV_TIMEOUT, 0);
    run_loop();
}

/* Start */

TEST(started_logger_gets_the_files_of_hosts_first)
{
    start_and_take_files();
    expect_no_message();
    assert_int_equal(forks, 1);
    assert_int_equal(event_count(), 0);
    assert_false(retry_is_due());
}

TEST(started_logger_keeps_the_salvage)
{
    int status;

    salvage = (struct salvage){.words = calloc(8, sizeof(uint64_t)), .count = 8, .room = 8};
    fork_is_real = true;
    start();
    assert_int_equal(waitpid(process.child.pid, &status, 0), process.child.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
    assert_int_equal(salvage.count, 8);
}

TEST(logger_that_runs_or_has_finished_is_not_started)
{
    process.child.pid = PID;
    start();
    process.child.pid = 0;
    process.finished = true;
    start();
    assert_int_equal(forks, 0);
}

TEST(logger_started_during_the_stop_receives_finish)
{
    struct message_log_finish message;

    logger_process_stop(&process, WAIT_MS);
    assert_int_equal(killed, 0); /* none ran */
    start_and_take_files();
    message = expect_finish();
    assert_int_equal(message.last, 1);
    assert_int_equal(message.wait_ms, WAIT_MS);
}

TEST(salvage_is_freed_when_it_is_written)
{
    salvage = (struct salvage){.words = calloc(8, sizeof(uint64_t)), .count = 8, .room = 8};
    atomic_store(&segment_logger(&segment)->salvaged, 7);
    fork_fails = true;
    start();
    assert_non_null(salvage.words);
    atomic_store(&segment_logger(&segment)->salvaged, 8);
    start();
    assert_null(salvage.words);
    assert_int_equal(salvage.count, 0);
}

/* Files */

TEST(log_that_is_lacking_is_opened_soon)
{
    log_files_lose(&files, LOG_ACCESS);
    start();
    expect_file(HOST_LOG, host_path);
    expect_file(LOG_ERROR, "/dev/null");
    assert_int_equal(event_count(), 0);
    assert_true(retry_is_due());
    run_retry();
    expect_file(LOG_ACCESS, access_path);
    expect_no_message();
    assert_false(retry_is_due());
}

TEST(file_that_cannot_be_passed_is_reported)
{
    struct rlimit before, none;

    start_and_take_files();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    logger_process_send_files(&process, NUMBER);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(event_count(), LOG_KINDS + 1);
    assert_non_null(strstr(last_event(), "cannot pass a log to the logger: "));
    expect_no_message();
}

TEST(file_that_the_logger_does_not_take_is_closed)
{
    int descriptors;

    start_and_take_files();
    descriptors = open_descriptors();
    close(logger_fd);
    logger_fd = -1;
    logger_process_send_files(&process, NUMBER);
    assert_int_equal(open_descriptors(), descriptors - 1);
    assert_string_equal(last_event(), "cannot pass a log to the logger: Broken pipe");
}

TEST(log_that_cannot_be_opened_is_reported_once)
{
    start_and_take_files();
    log_files_lose(&files, LOG_ACCESS);
    unlink(access_path);
    assert_int_equal(mkdir(access_path, 0700), 0);
    run_retry();
    assert_int_equal(event_count(), 1);
    assert_non_null(strstr(last_event(), "cannot open the access log"));
    assert_non_null(strstr(last_event(), "; its lines stay in memory"));
    assert_true(retry_is_due());
    run_retry();
    assert_int_equal(event_count(), 1);
    rmdir(access_path);
    run_retry();
    expect_file(LOG_ACCESS, access_path);
    assert_false(retry_is_due());
    log_files_lose(&files, HOST_LOG); /* the next failure is reported again */
    unlink(host_path);
    assert_int_equal(mkdir(host_path, 0700), 0);
    run_retry();
    assert_int_equal(event_count(), 2);
    assert_non_null(strstr(last_event(), "; its lines are lost meanwhile"));
}

/* Reports */

TEST(report_about_an_earlier_or_unknown_log_changes_nothing)
{
    int *places = calloc(2, sizeof(*places));

    assert_non_null(places);
    places[0] = files.host_fd[0];
    places[1] = dup(STDERR_FILENO); /* of no log */
    free(files.host_fd);
    files.host_fd = places;
    start_and_take_files();
    report_lost(LOG_ACCESS, NUMBER - 1);
    report_lost(HOST_LOG + 1, NUMBER);
    assert_true(files.fd[LOG_ACCESS] >= 0);
    assert_true(files.host_fd[1] >= 0);
    assert_false(retry_is_due());
    close(files.host_fd[1]);
}

TEST(logger_that_reports_more_logs_than_it_has_is_killed)
{
    start_and_take_files();
    for (int i = 0; i < LOG_KINDS + 1; i++)
        report_lost(HOST_LOG, NUMBER);
    assert_int_equal(killed, 0);
    report_lost(HOST_LOG, NUMBER);
    assert_int_equal(killed, PID);
    assert_non_null(strstr(last_event(), "lost more logs than it received"));
    assert_int_equal(metric_get(segment_master(&segment)->metrics, METRIC_protocol_errors), 1);
}

/* End */

TEST(stopped_logger_has_finished_unless_it_failed)
{
    start_and_take_files();
    logger_process_stop(&process, 0);
    assert_int_equal(expect_finish().wait_ms, 0);
    logger_process_ended(&process, "was killed by signal 9", true);
    assert_false(process.finished);
    assert_int_equal(process.child.backoff.failures, 1);
    process.child.backoff = (struct backoff){0};
    close(logger_fd);
    start_and_take_files();
    assert_int_equal(expect_finish().last, 1);
    logger_process_ended(&process, "has ended", false);
    assert_true(process.finished);
    assert_int_equal(process.child.backoff.failures, 0);
    logger_process_ended(&process, "has ended", true);
    assert_true(process.finished);
}

TEST(logger_that_takes_no_message_is_killed)
{
    start_and_take_files();
    close(logger_fd);
    logger_fd = -1;
    logger_process_restart(&process);
    assert_int_equal(killed, PID);
}

TEST(logger_that_is_given_up_is_killed)
{
    logger_process_give_up(&process);
    assert_int_equal(killed, 0);
    assert_true(process.finished);
    process.child.pid = PID;
    logger_process_give_up(&process);
    assert_int_equal(killed, PID);
}

/*
 * The logger started STARTED_S ago; its last heartbeat was at BEAT_NS. True if a silence of 5 s
 * kills it.
 */
static bool is_killed(uint64_t started_s, uint64_t beat_ns, uint64_t now_ns)
{
    process.child.pid = PID;
    process.child.started_ns = now_ns - started_s * NS_PER_S;
    atomic_store(&segment_logger(&segment)->heartbeat_ns, beat_ns);
    killed = 0;
    logger_process_check(&process, 5000, 0, now_ns);
    process.child.pid = 0;
    return killed == PID;
}

TEST(logger_without_heartbeat_is_killed)
{
    uint64_t now = clock_monotonic_ns();

    assert_false(is_killed(10, now - NS_PER_S, now));
    assert_true(is_killed(10, now - 6 * NS_PER_S, now));
    assert_true(is_killed(10, UINT64_MAX, now)); /* forged */
    assert_true(is_killed(10, 0, now));
    assert_false(is_killed(1, now - 6 * NS_PER_S, now)); /* that of its predecessor */
}

TEST(freed_process_keeps_nothing_open)
{
    int descriptors;

    logger_process_free(&process);
    descriptors = open_descriptors();
    assert_int_equal(logger_process_init(&process, base, &segment, &files, &salvage), 0);
    start_and_take_files();
    logger_process_free(&process);
    assert_null(process.retry);
    assert_null(process.child.channel);
    assert_int_equal(open_descriptors(), descriptors + 1); /* the logger's end */
}
