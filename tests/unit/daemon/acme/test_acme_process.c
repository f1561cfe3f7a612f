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

enum { PID = 4711, NAMES = 2, FLOOD = 100, STATUS = 42 };

static char *names[NAMES] = {"a.example", "b.example"};
static struct config config = {.acme_names = {names, NAMES},
                               .acme_user = "own",
                               .acme_state_dir = "/state",
                               .acme_ca_file = "",
                               .acme_directory = "https://ca/dir",
                               .acme_email = "a@b.example",
                               .acme_profile = "shortlived",
                               .acme_eab_kid = "kid",
                               .acme_eab_key = "c2VjcmV0",
                               .acme_dns_hook = "",
                               .acme_deploy_hook = "",
                               .acme_retry = 2000,
                               .acme_key = ACME_KEY_RSA2048,
                               .acme_challenge = ACME_CHALLENGE_TLS_ALPN_01,
                               .server_user = "www",
                               .server_group = "www-group",
                               .server_jail = JAIL_OFF};
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
    bool forks;         /* with a real process */
    int killed, reaped; /* how often */
    int certificates;   /* reported as new */
    int challenges_set; /* messages to the process, as are the next two */
    struct message_acme_renew renew;
    struct message_acme_change_key change_key;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_kill(pid_t pid, int number);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
ssize_t __wrap_readlink(const char *path, char *text, size_t size);
int __wrap_fexecve(int fd, char *const argv[], char *const envp[]);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

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
    (void)owner, (void)length, (void)fd;
    if (kind == MESSAGE_ACME_CHALLENGE_SET)
        scene.challenges_set++;
    else if (kind == MESSAGE_ACME_RENEW)
        memcpy(&scene.renew, data, sizeof(scene.renew));
    else if (kind == MESSAGE_ACME_CHANGE_KEY)
        memcpy(&scene.change_key, data, sizeof(scene.change_key));
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
    return scene.forks ? __real_fork() : PID;
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

/* Of the file that is executed, and its options. */
int __wrap_fexecve(int fd, char *const argv[], char *const envp[])
{
    struct stat status;
    char text[1024] = "", channel[16];
    bool open;

    (void)envp;
    open = fcntl(atoi(argv[2]), F_GETFD) == 0;
    snprintf(channel, sizeof(channel), "%d", setup.command_fd);
    for (int i = 0; argv[i] != NULL; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                 strcmp(argv[i], channel) == 0 ? "CHANNEL" : argv[i]);
    if (open && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        strcmp(text, "webserverd: acme --channel CHANNEL --user own --group  "
                     "--state-dir /state --ca-file  --directory https://ca/dir --email a@b.example "
                     "--retry-ms 2000 --profile shortlived --eab-kid kid --no-jail --rsa2048 "
                     "--challenge tls-alpn-01 "
                     "-- a.example b.example ") == 0)
        _exit(STATUS);
    fprintf(stderr, "executed: %s\n", text);
    errno = ENOEXEC;
    return -1;
}

static void on_renewed(void *context)
{
    assert_ptr_equal(context, &scene);
    scene.certificates++;
}

static void after_fork(void *context)
{
    if (context != &names)
        _exit(EXIT_FAILURE);
}

static void start(void)
{
    acme_process_start(&scene.process, &setup, after_fork, &names);
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
        .segment = &segment,
        .renewed = on_renewed,
        .context = &scene};
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

static void report_key_change(uint32_t number, const char *error)
{
    struct message_acme_key_changed changed = {.change = number};

    strcpy(changed.error, error);
    report(MESSAGE_ACME_KEY_CHANGED, &changed, sizeof(changed));
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

TEST(plan_of_a_name_is_kept)
{
    const struct acme_plan *plan = scene.process.plan;

    assert_false(plan[1].known);
    report_plan(&(struct message_acme_plan){.name = 1,
                                            .failures = 3,
                                            .renewal = 4,
                                            .next_s = 5,
                                            .refused_until_s = 6,
                                            .error = "reason"});
    assert_true(plan[1].known);
    assert_int_equal(plan[1].failures, 3);
    assert_int_equal(plan[1].renewal_ended, 4);
    assert_int_equal(plan[1].next_s, 5);
    assert_int_equal(plan[1].refused_until_s, 6);
    assert_string_equal(plan[1].error, "reason");
    assert_string_equal(plan[1].name, "b.example");
    assert_false(plan[0].known);
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

TEST(workers_answer_a_challenge_from_then_on)
{
    struct challenge_copy copy;

    publish_challenge();
    assert_true(segment_read_challenge(&segment, &copy));
    assert_int_equal(copy.kind, CHALLENGE_TLS_ALPN_01);
    assert_string_equal(copy.name, "b.example"); /* not from the message */
    assert_string_equal(copy.token, "token");
    assert_string_equal(copy.thumbprint, "thumb");
    assert_int_equal(scene.challenges_set, 1);
    report_challenge(&(struct message_acme_challenge){.name = 1});
    assert_false(challenge_is_pending());
    assert_int_equal(scene.challenges_set, 2);
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

TEST(new_certificate_is_passed_on)
{
    report(MESSAGE_ACME_CERTIFICATE, &(struct message_acme_certificate){1},
           sizeof(struct message_acme_certificate));
    assert_true(scene.process.plan[1].deploys);
    assert_int_equal(scene.certificates, 1);
}

TEST(any_message_is_a_sign_of_life)
{
    scene.process.child.heard_ns = 0;
    report(MESSAGE_ACME_ALIVE, NULL, 0);
    assert_true(scene.process.child.heard_ns > 0);
    scene.process.child.heard_ns = 0;
    report_event("hello");
    assert_true(scene.process.child.heard_ns > 0);
    assert_int_equal(scene.certificates, 0);
}

/* Requests of the master */

static uint32_t renew(uint32_t name)
{
    uint32_t number = acme_process_renew(&scene.process, name);

    channel_read_all(scene.other);
    return number;
}

TEST(renewal_is_joined_until_it_has_ended)
{
    const struct acme_plan *plan = scene.process.plan;

    assert_int_equal(renew(1), 1);
    assert_int_equal(scene.renew.name, 1);
    assert_int_equal(scene.renew.renewal, 1);
    assert_int_equal(plan[1].renewal, 1);
    assert_true(plan[1].renewal_ns > 0);
    assert_int_equal(renew(0), 2);
    assert_int_equal(scene.renew.name, 0);
    assert_int_equal(renew(1), 1);
    assert_int_equal(scene.renew.renewal, 2); /* nothing was sent */
    report_plan(&(struct message_acme_plan){.name = 1, .renewal = 1});
    assert_int_equal(renew(1), 3);
    assert_int_equal(scene.renew.renewal, 3);
}

static uint32_t change_key(void)
{
    uint32_t number = acme_process_change_key(&scene.process);

    channel_read_all(scene.other);
    return number;
}

TEST(key_change_is_joined_until_it_has_ended)
{
    const struct acme_key_change *change = &scene.process.key_change;

    assert_int_equal(change_key(), 1);
    assert_int_equal(scene.change_key.change, 1);
    assert_int_equal(change->number, 1);
    assert_true(change->since_ns > 0);
    scene.change_key.change = 0;
    assert_int_equal(change_key(), 1);
    assert_int_equal(scene.change_key.change, 0); /* nothing was sent */
    report_key_change(1, "reason");
    assert_int_equal(change->ended, 1);
    assert_string_equal(change->error, "reason");
    assert_int_equal(change_key(), 2);
    assert_int_equal(scene.change_key.change, 2);
    report_key_change(2, "");
    assert_string_equal(change->error, "");
}

TEST(without_a_process_nothing_is_requested)
{
    scene.process.child.pid = 0;
    assert_int_equal(renew(0), 0);
    assert_int_equal(change_key(), 0);
    assert_int_equal(scene.renew.renewal, 0);
    assert_int_equal(scene.change_key.change, 0);
}

TEST(name_that_is_not_configured_cannot_be_renewed)
{
    assert_int_equal(renew(NAMES), 0);
    assert_int_equal(scene.renew.renewal, 0);
}

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

static void end_process_of(pid_t pid)
{
    assert_true(acme_process_ended(&scene.process, pid, "exited"));
    close_other();
    scene.process.child.backoff = (struct backoff){0}; /* over */
}

static void end_process(void)
{
    end_process_of(PID);
}

TEST(process_that_runs_is_not_started_again)
{
    start();
    assert_int_equal(scene.starts, 1);
    end_process();
    scene.process.child.backoff = (struct backoff){.failures = 1, .not_before_ns = UINT64_MAX};
    start();
    assert_int_equal(scene.starts, 1);
}

TEST(new_process_knows_nothing_of_the_last_one)
{
    for (int i = 0; i < FLOOD; i++)
        report_event("flood");
    report_plan(&(struct message_acme_plan){.name = 0});
    assert_int_equal(renew(1), 1);
    assert_int_equal(change_key(), 1);
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
    assert_int_equal(renew(0), 2); /* each has another number */
    assert_int_equal(change_key(), 2);
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

static int status_of_real_process(void)
{
    int status;

    scene.forks = true;
    start();
    assert_int_equal(__real_waitpid(scene.process.child.pid, &status, 0), scene.process.child.pid);
    scene.forks = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(program_gets_its_settings_and_descriptors)
{
    end_process();
    assert_int_equal(status_of_real_process(), STATUS);
    end_process_of(scene.process.child.pid);
    config.acme_email = "";
    assert_int_equal(status_of_real_process(), EXIT_FAILURE);
    assert_string_equal(last_event(), "cannot execute webserverd-acme: Exec format error");
    config.acme_email = "a@b.example";
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

TEST(end_of_the_process_is_counted)
{
    publish_challenge();
    assert_false(acme_process_ended(&scene.process, PID + 1, "exited"));
    assert_int_equal(scene.process.child.pid, PID);
    assert_true(challenge_is_pending());
    assert_int_equal(event_count(), 0);
    assert_true(acme_process_ended(&scene.process, PID, "was killed"));
    assert_int_equal(event_count(), 1);
    assert_non_null(
        strstr(last_event(), "the ACME process (pid 4711) was killed: starting another"));
    assert_int_equal(scene.process.child.pid, 0);
    assert_null(scene.process.child.channel);
    assert_false(challenge_is_pending());
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

TEST(silent_process_is_killed_once)
{
    scene.process.child.heard_ns = NS_PER_S;
    acme_process_check(&scene.process, 1000, 0, 2 * NS_PER_S);
    assert_int_equal(scene.killed, 0);
    acme_process_check(&scene.process, 1000, 2 * NS_PER_S, 3 * NS_PER_S);
    assert_int_equal(scene.killed, 0);
    acme_process_check(&scene.process, 1000, 0, 3 * NS_PER_S);
    assert_int_equal(scene.killed, 1);
    assert_non_null(strstr(last_event(), "has given no sign of life for 2 s"));
    acme_process_check(&scene.process, 1000, 0, 4 * NS_PER_S);
    assert_int_equal(scene.killed, 1);
}
