/*
 * The ACME process as the master sees it, in whose place the test is: its messages, its start and
 * its end.
 */
#include "daemon/acme/process.h"

#include "common/segment_reader.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PID = 4711, NAMES = 2, FLOOD = 100 };

static char *names[NAMES] = {"a.example", "b.example"};
static struct config config = {
    .acme_names = {names, NAMES}, .acme_user = "own", .acme_dns_hook = "", .acme_deploy_hook = ""};
static struct acme_setup setup;
static struct segment segment;
static _Atomic int32_t shown_pid;
static _Atomic uint64_t deaths;

static struct {
    struct acme_process process; /* as the master sees it */
    struct event_base *base;
    struct channel *other; /* the end of the process; NULL: closed */
    int starts;
    bool no_memory;     /* calloc() fails */
    int killed, reaped; /* how often */
} scene;

void *__wrap_calloc(size_t count, size_t size)
{
    errno = ENOMEM;
    return scene.no_memory ? NULL : __real_calloc(count, size);
}

int __wrap_kill(pid_t pid, int number)
{
    assert_int_equal(pid, PID);
    assert_int_equal(number, SIGKILL);
    scene.killed++;
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (pid != PID)
        return __real_waitpid(pid, status, options);
    scene.reaped++;
    return pid;
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    (void)owner, (void)kind, (void)data, (void)length, (void)fd;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("the master %s", what);
}

/* No process: the test has its end of the channel. */
pid_t __wrap_fork(void)
{
    scene.starts++;
    return PID;
}

/* The second end is that of the process. */
int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
    const struct channel_owner own = {
        .message = on_message, .closed = child_ignore_closed, .fault = on_fault};

    assert_int_equal(__real_socketpair(domain, type, protocol, fds), 0);
    channel_close(scene.other);
    scene.other = channel_open(scene.base, fcntl(fds[1], F_DUPFD_CLOEXEC, 0),
                               message_route_back(ROUTE_ACME_REPORTS), &own);
    assert_non_null(scene.other);
    return 0;
}

/* The server is installed in own_directory. */
ssize_t __wrap_readlink(const char *path, char *text, size_t size)
{
    assert_string_equal(path, "/proc/self/exe");
    return snprintf(text, size, "%s/sbin/webserverd (deleted)", own_directory);
}

static void start(void)
{
    acme_process_start(&scene.process, &setup, NULL, NULL);
}

/* Installs the program below own_directory. */
static void put_program(const char *place)
{
    char command[256];

    snprintf(command, sizeof(command), "mkdir -p %s/%s && touch %s/%s/webserverd-acme",
             own_directory, place, own_directory, place);
    assert_int_equal(system(command), 0);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.base = event_base_new();
    assert_non_null(scene.base);
    scene.process = (struct acme_process){
        .child = {.name = "ACME process", .shown_pid = &shown_pid, .deaths = &deaths},
        .program_fd = -1,
        .base = scene.base,
        .segment = &segment};
    setup = (struct acme_setup){.config = &config};
    config.acme_names.count = NAMES;
    events_forget();
    if (own_segment_create(&segment, (struct segment_plan){0}) != 0)
        return -1;
    own_directory_make();
    put_program("sbin");
    start();
    assert_int_equal(scene.starts, 1);
    return 0;
}

static void close_other(void)
{
    channel_close(scene.other);
    scene.other = NULL;
}

static int end(void **state)
{
    (void)state;
    acme_process_free(&scene.process);
    close_other();
    close(scene.process.program_fd);
    segment_destroy(&segment);
    event_base_free(scene.base);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {begin, end};

/* Sends a message, which the master receives, and delivers what it answers. */
static void report(enum message_kind kind, const void *data, size_t length)
{
    assert_int_equal(channel_send(scene.other, (int)kind, data, length, -1, false), 0);
    channel_read_all(scene.process.child.channel);
    channel_read_all(scene.other);
}

static void report_plan(const struct message_acme_plan *plan)
{
    report(MESSAGE_ACME_PLAN, plan, sizeof(*plan));
}

static void report_challenge(const struct message_acme_challenge *challenge)
{
    report(MESSAGE_ACME_CHALLENGE, challenge, sizeof(*challenge));
}

static void report_event(const char *text)
{
    _Alignas(struct message_acme_event) char space[sizeof(struct message_acme_event) + 64] = "";
    struct message_acme_event *event = (struct message_acme_event *)space;

    event->level = LEVEL_WARN;
    strcpy(event->text, text);
    report(MESSAGE_ACME_EVENT, event, sizeof(*event) + strlen(text) + 1);
}

static uint64_t metric(enum metric number)
{
    return metric_get(segment_master(&segment)->metrics, number);
}

static bool challenge_is_pending(void)
{
    struct challenge_copy copy;

    return segment_read_challenge(&segment, &copy);
}

static void publish_challenge(void)
{
    report_challenge(&(struct message_acme_challenge){
        .name = 1, .kind = CHALLENGE_TLS_ALPN_01, .token = "token", .thumbprint = "thumb"});
}

/* Messages of the process */

TEST(events_are_logged_up_to_a_number_each_second)
{
    int most;

    report_event("hello");
    assert_string_equal(last_event(), "ACME: hello");
    for (int i = 0; i < FLOOD; i++)
        report_event("flood");
    most = event_count();
    assert_true(most > 1 && most < FLOOD);
    acme_process_check(&scene.process, 0, 0, 1);
    report_event("the next second");
    assert_string_equal(last_event(), "ACME: the next second");
    assert_int_equal(event_count(), most + 1);
    assert_int_equal(scene.killed, 0);
}

TEST(only_attempts_are_counted)
{
    report_plan(&(struct message_acme_plan){.failures = 1}); /* from before the process started */
    assert_int_equal(metric(METRIC_certificate_attempts), 0);
    assert_int_equal(metric(METRIC_certificate_failures), 0);
    report_plan(&(struct message_acme_plan){.attempted = 1});
    assert_int_equal(metric(METRIC_certificate_attempts), 1);
    assert_int_equal(metric(METRIC_certificate_failures), 0);
    report_plan(&(struct message_acme_plan){.attempted = 1, .failures = 2});
    assert_int_equal(metric(METRIC_certificate_attempts), 2);
    assert_int_equal(metric(METRIC_certificate_failures), 1);
}

static void assert_killed_for(const char *fault)
{
    assert_non_null(strstr(last_event(), fault));
    assert_int_equal(scene.killed, 1);
    assert_int_equal(metric(METRIC_protocol_errors), 1);
}

TEST(plan_of_an_unknown_name_is_a_fault)
{
    report_plan(&(struct message_acme_plan){.name = NAMES, .attempted = 1});
    assert_killed_for("the ACME process (pid 4711) reported a name that it was not given");
    assert_int_equal(metric(METRIC_certificate_attempts), 0);
}

TEST(challenge_of_an_unknown_name_is_a_fault)
{
    report_challenge(&(struct message_acme_challenge){.name = NAMES, .token = "token"});
    assert_killed_for("sent the challenge of a name that it was not given");
    assert_false(challenge_is_pending());
}

/* Requests of the master */

/* The next process gets requests; none waits for what this one did not receive. */
TEST(request_that_cannot_be_sent_is_not_awaited)
{
    close_other();
    assert_int_equal(acme_process_renew(&scene.process, 0), 0);
    assert_int_equal(scene.process.plan[0].renewal, 0);
    assert_int_equal(acme_process_renew(&scene.process, 0), 0);
    assert_int_equal(acme_process_change_key(&scene.process), 0);
    assert_int_equal(scene.process.key_change.number, 0);
    assert_int_equal(acme_process_change_key(&scene.process), 0);
}

/* Start and end */

static void end_process(void)
{
    assert_true(acme_process_ended(&scene.process, PID, "exited"));
    close_other();
    scene.process.child.backoff = (struct backoff){0}; /* over */
}

TEST(new_process_knows_nothing_of_the_last_one)
{
    for (int i = 0; i < FLOOD; i++)
        report_event("flood");
    report_plan(&(struct message_acme_plan){.name = 0});
    assert_int_equal(acme_process_renew(&scene.process, 1), 1);
    assert_int_equal(acme_process_change_key(&scene.process), 1);
    end_process();
    config.acme_names.count = 1;
    start();
    assert_int_equal(scene.starts, 2);
    assert_int_equal(scene.process.plan_count, 1);
    assert_false(scene.process.plan[0].known);
    assert_string_equal(scene.process.plan[0].name, "a.example");
    report_event("hello");
    assert_string_equal(last_event(), "ACME: hello");
    assert_int_equal(scene.process.key_change.number, 0);
    assert_int_equal(acme_process_renew(&scene.process, 0), 2); /* each has another number */
    assert_int_equal(acme_process_change_key(&scene.process), 2);
}

TEST(start_without_memory_fails_and_is_repeated_later)
{
    end_process();
    scene.no_memory = true;
    start();
    scene.no_memory = false;
    assert_int_equal(scene.starts, 1);
    assert_string_equal(last_event(), "cannot start the ACME process: Cannot allocate memory");
    assert_int_equal(scene.process.child.backoff.failures, 1);
    assert_int_equal(scene.process.plan_count, 0);
    scene.process.child.backoff = (struct backoff){0};
    start();
    assert_int_equal(scene.starts, 2);
    assert_int_equal(scene.process.plan_count, NAMES);
}

/* A file that is replaced meanwhile is not executed. */
TEST(program_is_beside_the_server_or_in_libexec)
{
    struct stat first, second;
    char sbin[64];

    assert_int_equal(fstat(scene.process.program_fd, &first), 0);
    assert_int_equal(own_directory_remove(), 0);
    put_program("sbin");
    acme_process_find_program(&scene.process);
    assert_int_equal(fstat(scene.process.program_fd, &second), 0);
    assert_int_equal(second.st_ino, first.st_ino);
    assert_int_equal(second.st_nlink, 0);
    assert_int_equal(own_directory_remove(), 0);
    close(scene.process.program_fd);
    scene.process.program_fd = -1;
    end_process();
    start();
    assert_string_equal(last_event(), "webserverd-acme is neither beside this program nor in "
                                      "../libexec/webserverd");
    assert_int_equal(scene.starts, 1);
    put_program("libexec/webserverd");
    assert_int_equal(mkdir(strcat(strcpy(sbin, own_directory), "/sbin"), 0700), 0);
    scene.process.child.backoff = (struct backoff){0};
    start();
    assert_int_equal(scene.starts, 2);
}

TEST(last_messages_are_received)
{
    const struct message_acme_plan plan = {.name = 1, .attempted = 1};

    assert_int_equal(channel_send(scene.other, MESSAGE_ACME_PLAN, &plan, sizeof(plan), -1, false),
                     0);
    close_other();
    assert_true(acme_process_ended(&scene.process, PID, "exited"));
    assert_int_equal(metric(METRIC_certificate_attempts), 1);
}

TEST(stop_ends_the_process_and_its_challenge)
{
    publish_challenge();
    acme_process_stop(&scene.process);
    assert_int_equal(scene.killed, 1);
    assert_int_equal(scene.reaped, 1);
    assert_int_equal(scene.process.child.pid, 0);
    assert_false(challenge_is_pending());
    assert_int_equal(event_count(), 0);
    acme_process_stop(&scene.process);
    assert_int_equal(scene.killed, 1);
}

/* A child of the master frees, too: the segment is not its own. */
TEST(free_leaves_process_and_challenge)
{
    publish_challenge();
    acme_process_free(&scene.process);
    assert_int_equal(scene.killed, 0);
    assert_null(scene.process.child.channel);
    assert_null(scene.process.plan);
    assert_int_equal(scene.process.plan_count, 0);
    assert_true(challenge_is_pending());
    channel_read_all(scene.other);
    assert_int_equal(channel_send(scene.other, MESSAGE_ACME_ALIVE, NULL, 0, -1, false), -1);
}
