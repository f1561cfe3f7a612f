/*
 * Links from the keys process to a worker: what it receives, and that a failure leaves no descriptor open.
 * Start, messages, pings and end of the process, in whose place a function of this file runs.
 */
#include "common/clock.h"
#include "daemon/keys/process.h"
#include "daemon/tls/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SET = 7, KEYS = 2, WORKER = 3, EXIT_AT_END = 5 };

static int keys_fd;                /* stands for the file of the keys */
static bool cleaned;               /* in the child: AFTER_FORK has run */
static enum message_kind reported; /* what the child sends; MESSAGE_COUNT: nothing */

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
uint32_t __wrap_tls_context_number(const struct tls_context *context);
uint32_t __wrap_tls_context_key_count(const struct tls_context *context);
int __wrap_tls_context_keys(const struct tls_context *context);
int __wrap_keys_run(const struct keys_setup *setup);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

uint32_t __wrap_tls_context_number(const struct tls_context *context)
{
    (void)context;
    return SET;
}

uint32_t __wrap_tls_context_key_count(const struct tls_context *context)
{
    (void)context;
    return KEYS;
}

int __wrap_tls_context_keys(const struct tls_context *context)
{
    (void)context;
    return keys_fd;
}

/* Returns EXIT_AT_END when the master's end of the channel is closed, not only shut down. */
int __wrap_keys_run(const struct keys_setup *setup)
{
    struct {
        int64_t kind;
        struct message_keys_client client;
    } report = {reported, {SET, WORKER, getpid()}};
    size_t length = reported == MESSAGE_KEYS_FAULT
                        ? offsetof(typeof(report), client) + sizeof(report.client)
                        : sizeof(report.kind);
    struct pollfd master = {.fd = setup->command_fd};

    if (!cleaned)
        return EXIT_FAILURE;
    if (reported != MESSAGE_COUNT)
        send(master.fd, &report, length, MSG_NOSIGNAL);
    return poll(&master, 1, -1) == 1 ? EXIT_AT_END : EXIT_FAILURE;
}

struct scene {
    struct keys_process process; /* as the master sees it */
    int other_fd;                /* the other end of its channel, which takes the messages */
    int sets, clients;           /* messages received there */
    int link_fd;                 /* received with the last one */
};

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct scene *scene = owner;

    (void)length;
    assert_true(fd >= 0);
    if (kind == MESSAGE_KEYS_SET) {
        const struct message_keys_set *set = data;

        assert_int_equal(set->set, SET);
        assert_int_equal(set->count, KEYS);
        assert_int_equal(scene->clients, 0);
        scene->sets++;
        close(fd);
    } else {
        const struct message_keys_client *client = data;

        assert_int_equal(kind, MESSAGE_KEYS_CLIENT);
        assert_int_equal(client->set, SET);
        assert_int_equal(client->worker, WORKER);
        assert_int_equal(client->pid, getpid());
        scene->clients++;
        scene->link_fd = fd;
    }
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("a fault: it %s", what);
}

static struct channel *open_end(struct scene *scene, int fd, enum message_route receives)
{
    const struct channel_owner owner = {
        .message = on_message, .closed = child_ignore_closed, .fault = on_fault, .owner = scene};
    struct channel *channel = channel_open(scene->process.base, fd, receives, &owner);

    assert_non_null(channel);
    return channel;
}

static void open_scene(struct scene *scene)
{
    int fds[2];

    *scene = (struct scene){.process.base = event_base_new(), .link_fd = -1};
    assert_non_null(scene->process.base);
    assert_int_equal(channel_pair(fds), 0);
    scene->process.child.channel = open_end(scene, fds[0], ROUTE_KEYS_REPORTS);
    scene->other_fd = fds[1];
    keys_fd = memfd_create("keys", MFD_CLOEXEC);
    assert_true(keys_fd >= 0);
}

static void close_scene(const struct scene *scene)
{
    channel_close(scene->process.child.channel);
    event_base_free(scene->process.base);
    close(keys_fd);
}

static int link_worker(const struct scene *scene)
{
    return keys_process_link(&scene->process, NULL, WORKER, getpid());
}

static void link_has_two_ends_and_its_keys_come_first(void **state)
{
    struct channel *other;
    struct scene scene;
    char byte = 'x';
    int fd;

    (void)state;
    open_scene(&scene);
    other = open_end(&scene, scene.other_fd, ROUTE_KEYS_ORDERS);
    fd = link_worker(&scene);
    assert_true(fd >= 0);
    while (scene.clients == 0)
        assert_int_equal(event_base_loop(scene.process.base, EVLOOP_ONCE), 0);
    assert_int_equal(scene.sets, 1);
    assert_int_equal(send(fd, &byte, 1, 0), 1);
    assert_int_equal(recv(scene.link_fd, &byte, 1, 0), 1);
    close(fd);
    close(scene.link_fd);
    channel_close(other);
    close_scene(&scene);
}

static void failed_link_leaves_no_descriptor_open(void **state)
{
    struct scene scene;
    int before;

    (void)state;
    open_scene(&scene);
    close(scene.other_fd);
    before = open_descriptors();
    assert_int_equal(link_worker(&scene), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(open_descriptors(), before);
    close_scene(&scene);
}

static void must_not_fork(void *context)
{
    (void)context;
    fail_msg("a second process was started");
}

/* The caller gives all workers new links to a process that was started. */
static void process_that_runs_is_not_started_again(void **state)
{
    struct scene scene;
    struct keys_setup setup = {.command_fd = -1};

    (void)state;
    open_scene(&scene);
    scene.process.child.pid = getpid();
    scene.process.pinged_ns = 1;
    assert_false(keys_process_start(&scene.process, &setup, must_not_fork, NULL));
    assert_int_equal(scene.process.pinged_ns, 1);
    assert_int_equal(setup.command_fd, -1);
    close(scene.other_fd);
    close_scene(&scene);
}

/* A process that runs */

struct master {
    struct keys_process process;
    struct segment segment;
    _Atomic int32_t shown_pid;
    uint32_t faults; /* of workers */
};

static void on_worker_fault(void *context, uint32_t worker, pid_t pid)
{
    struct master *master = context;

    assert_int_equal(worker, WORKER);
    assert_int_equal(pid, master->process.child.pid);
    master->faults++;
}

static void after_fork(void *context)
{
    struct master *master = context;

    event_reinit(master->process.base); /* which watches for the parent, too */
    child_free(&master->process.child);
    cleaned = true;
}

static bool start(struct master *master)
{
    struct keys_setup setup = {.command_fd = -1};

    return keys_process_start(&master->process, &setup, after_fork, master);
}

static int open_master(void **state)
{
    static struct master master;

    master = (struct master){.process = {.child = {.name = "test process"},
                                         .base = event_base_new(),
                                         .segment = &master.segment,
                                         .fault = on_worker_fault,
                                         .context = &master}};
    master.process.child.shown_pid = &master.shown_pid;
    *state = &master;
    return master.process.base != NULL &&
                   own_segment_create(&master.segment, (struct segment_plan){0}) == 0
               ? 0
               : -1;
}

static int close_master(void **state)
{
    struct master *master = *state;

    child_stop(&master->process.child);
    segment_destroy(&master->segment);
    event_base_free(master->process.base);
    return 0;
}

/* Starts a process that sends a message of KIND; MESSAGE_COUNT: none. */
static void start_process(struct master *master, enum message_kind kind)
{
    reported = kind;
    master->process.pinged_ns = 1; /* of a process before */
    assert_true(start(master));
    assert_int_equal(master->process.pinged_ns, 0);
    assert_true(master->process.child.pid > 0);
}

static void receive_report(const struct master *master)
{
    while (channel_received(master->process.child.channel) == 0)
        assert_int_equal(event_base_loop(master->process.base, EVLOOP_ONCE), 0);
}

/* Returns the status of the process, which ends at the latest when the channel closes. */
static int await_end(struct master *master)
{
    int status;

    child_free(&master->process.child);
    assert_int_equal(waitpid(master->process.child.pid, &status, 0), master->process.child.pid);
    return status;
}

static uint64_t protocol_errors(const struct master *master)
{
    return segment_master(&master->segment)->metrics[METRIC_protocol_errors];
}

static void end_is_counted_and_the_next_start_waits(void **state)
{
    struct master *master = *state;
    int status;

    start_process(master, MESSAGE_COUNT);
    status = await_end(master);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_AT_END);
    master->process.child.started_ns = clock_monotonic_ns(); /* however long that took */
    keys_process_ended(&master->process, "exited with status 5");
    assert_int_equal(master->process.child.pid, 0);
    assert_int_equal(master->process.child.backoff.failures, 1);
    assert_false(
        child_is_due(&master->process.child, master->process.child.backoff.not_before_ns - 1));
    assert_true(master->process.child.backoff.not_before_ns > master->process.child.started_ns);
}

static void start_without_descriptors_fails(void **state)
{
    struct master *master = *state;
    struct rlimit before, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_false(start(master));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(master->process.child.pid, 0);
}

static void fault_of_a_worker_is_passed_on(void **state)
{
    struct master *master = *state;

    start_process(master, MESSAGE_KEYS_FAULT);
    master->process.pinged_ns = 1;
    receive_report(master);
    assert_int_equal(master->faults, 1);
    assert_int_equal(master->process.pinged_ns, 1);
    assert_int_equal(protocol_errors(master), 0);
}

static void answer_ends_the_wait_for_it(void **state)
{
    struct master *master = *state;
    int status;

    start_process(master, MESSAGE_KEYS_PONG);
    master->process.pinged_ns = 1;
    receive_report(master);
    assert_int_equal(master->process.pinged_ns, 0);
    assert_int_equal(master->faults, 0);
    assert_int_equal(protocol_errors(master), 0);
    status = await_end(master);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_AT_END);
    child_forget(&master->process.child);
}

static void answer_without_a_ping_is_a_fault(void **state)
{
    struct master *master = *state;
    int status;

    start_process(master, MESSAGE_KEYS_PONG);
    receive_report(master);
    assert_int_equal(protocol_errors(master), 1);
    assert_true(channel_is_broken(master->process.child.channel));
    status = await_end(master);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    child_forget(&master->process.child);
}

/* Pings */

enum { TIMEOUT_MS = 1000 };

static void ping_is_sent_to_a_process_that_must_answer(void **state)
{
    struct scene scene;
    struct keys_process *process = &scene.process;

    (void)state;
    open_scene(&scene);
    keys_process_check(process, TIMEOUT_MS, 0, 1); /* no process */
    process->child.pid = getpid();
    keys_process_check(process, 0, 0, 2);
    assert_int_equal(channel_sent(process->child.channel), 0);
    assert_int_equal(process->pinged_ns, 0);
    keys_process_check(process, TIMEOUT_MS, 0, 3);
    assert_int_equal(process->pinged_ns, 3);
    keys_process_check(process, TIMEOUT_MS, 0, 4); /* it has time to answer */
    assert_int_equal(process->pinged_ns, 3);
    assert_int_equal(channel_sent(process->child.channel), 1);
    close(scene.other_fd);
    process->pinged_ns = 0;
    keys_process_check(process, TIMEOUT_MS, 0, 5); /* which cannot be sent */
    assert_int_equal(process->pinged_ns, 0);
    close_scene(&scene);
}

static void process_that_does_not_answer_is_killed_once(void **state)
{
    const uint64_t late = 1 + TIMEOUT_MS * NS_PER_MS + 1;
    struct master *master = *state;
    int status;

    start_process(master, MESSAGE_COUNT);
    master->process.pinged_ns = 1;
    keys_process_check(&master->process, TIMEOUT_MS, 0, late - 1);
    assert_int_equal(master->process.pinged_ns, 1);
    keys_process_check(&master->process, TIMEOUT_MS, 2, late); /* it was suspended */
    assert_int_equal(master->process.pinged_ns, 1);
    keys_process_check(&master->process, TIMEOUT_MS, 0, late);
    assert_int_equal(master->process.pinged_ns, late);
    keys_process_check(&master->process, TIMEOUT_MS, 0, late + 1);
    assert_int_equal(master->process.pinged_ns, late);
    status = await_end(master);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    child_forget(&master->process.child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_has_two_ends_and_its_keys_come_first),
        cmocka_unit_test(failed_link_leaves_no_descriptor_open),
        cmocka_unit_test(process_that_runs_is_not_started_again),
        cmocka_unit_test_setup_teardown(end_is_counted_and_the_next_start_waits, open_master,
                                        close_master),
        cmocka_unit_test_setup_teardown(start_without_descriptors_fails, open_master, close_master),
        cmocka_unit_test_setup_teardown(fault_of_a_worker_is_passed_on, open_master, close_master),
        cmocka_unit_test_setup_teardown(answer_ends_the_wait_for_it, open_master, close_master),
        cmocka_unit_test_setup_teardown(answer_without_a_ping_is_a_fault, open_master,
                                        close_master),
        cmocka_unit_test(ping_is_sent_to_a_process_that_must_answer),
        cmocka_unit_test_setup_teardown(process_that_does_not_answer_is_killed_once, open_master,
                                        close_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
