/*
 * Which of logger, keys and metrics process run, and what they get. Their modules are replaced; each
 * call is recorded.
 */
#include "daemon/master/auxiliary.h"

#include "daemon/tls/context.h"
#include "tests/unit/logged_event.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/recorded_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
    WORKERS = 2,
    LOGGER_PID = 11,
    KEYS_PID,
    METRICS_PID,
    OTHER_PID,
    LOCK_FD = 1000,
    HUNG_MS = 7000
};

static struct {
    bool keys_are_new; /* keys_process_start() forks */
    int reopen_result, init_result, link_error;
    uint64_t retry_ns[3]; /* of logger, keys and metrics process */
    struct server server;
    struct config config, log_config;
    struct worker_process worker[WORKERS];
    struct workers workers;
    struct auxiliary auxiliary;
} scene;

static void after_fork(void *context)
{
    (void)context;
}

static void on_keys_fault(void *context, uint32_t worker, pid_t pid)
{
    (void)context, (void)worker, (void)pid;
}

static void check_callback(void (*after)(void *context), const void *context)
{
    assert_ptr_equal(after, after_fork);
    assert_ptr_equal(context, &scene);
}

/* Each certificate whose keys another process has is this one. */
static struct tls_context *remote(void)
{
    return (struct tls_context *)(void *)&scene.config;
}

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
#define RECORD(function, type, call)                                                               \
    void __wrap_##function(type *unused);                                                          \
    void __wrap_##function(type *unused)                                                           \
    {                                                                                              \
        (void)unused;                                                                              \
        record("%s", call);                                                                        \
    }

RECORD(logger_process_restart, struct logger_process, "restart logger")
RECORD(logger_process_give_up, struct logger_process, "give up logger")
RECORD(logger_process_free, struct logger_process, "free logger")
RECORD(metrics_process_release, struct metrics_process, "release metrics")
RECORD(metrics_process_kill, struct metrics_process, "kill metrics")
RECORD(metrics_process_free, struct metrics_process, "free metrics")
RECORD(metrics_sockets_close, struct metrics_sockets, "close sockets")
RECORD(log_files_close, struct log_files, "close logs")
RECORD(child_stop, struct child, "stop keys")
RECORD(child_free, struct child, "free keys")

void __wrap_logger_process_start(struct logger_process *process, struct logger_setup *setup,
                                 void (*after)(void *context), void *context);
bool __wrap_keys_process_start(struct keys_process *process, struct keys_setup *setup,
                               void (*after)(void *context), void *context);
void __wrap_metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                                  void (*after)(void *context), void *context);
bool __wrap_tls_context_is_remote(const struct tls_context *context);
int __wrap_worker_process_send_links(struct worker_process *worker,
                                     const struct keys_process *keys);
uint64_t __wrap_child_retry_ns(const struct child *child, uint64_t now_ns);
void __wrap_logger_process_ended(struct logger_process *process, const char *how, bool failed);
void __wrap_keys_process_ended(struct keys_process *process, const char *how);
bool __wrap_metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how);
void __wrap_logger_process_check(const struct logger_process *process, uint64_t timeout_ms,
                                 uint64_t resumed_ns, uint64_t now_ns);
void __wrap_keys_process_check(struct keys_process *process, uint64_t timeout_ms,
                               uint64_t resumed_ns, uint64_t now_ns);
void __wrap_metrics_process_check(struct metrics_process *process, uint64_t timeout_ms,
                                  uint64_t resumed_ns, uint64_t now_ns);
void __wrap_logger_process_stop(struct logger_process *process, uint32_t wait_ms);
uint64_t __wrap_logger_process_unwritten(const struct logger_process *process);
void __wrap_logger_process_send_files(struct logger_process *process, uint32_t number);
int __wrap_log_files_reopen(struct log_files *files, char *why, size_t size);
void __wrap_salvage_renumber(struct salvage *salvage, const struct log_targets *before,
                             const struct log_targets *after);
int __wrap_logger_process_init(struct logger_process *process, struct event_base *base,
                               struct segment *segment, struct log_files *files,
                               struct salvage *salvage);

void __wrap_logger_process_start(struct logger_process *process, struct logger_setup *setup,
                                 void (*after)(void *context), void *context)
{
    check_callback(after, context);
    assert_ptr_equal(setup->config, &scene.log_config);
    assert_int_equal(setup->lock_fd, LOCK_FD);
    assert_int_equal(process->child.backoff.not_before_ns, 0);
    record("start logger");
}

bool __wrap_keys_process_start(struct keys_process *process, struct keys_setup *setup,
                               void (*after)(void *context), void *context)
{
    (void)process;
    check_callback(after, context);
    assert_ptr_equal(setup->config, &scene.config);
    assert_int_equal(setup->lock_fd, LOCK_FD);
    record("start keys");
    return scene.keys_are_new;
}

void __wrap_metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                                  void (*after)(void *context), void *context)
{
    (void)process;
    check_callback(after, context);
    assert_int_equal(setup->listen_count, scene.server.metrics.count);
    assert_int_equal(setup->lock_fd, LOCK_FD);
    record("start metrics");
}

bool __wrap_tls_context_is_remote(const struct tls_context *context)
{
    return context == remote();
}

int __wrap_worker_process_send_links(struct worker_process *worker, const struct keys_process *keys)
{
    assert_ptr_equal(keys, &scene.auxiliary.keys);
    record("link %u", (unsigned)worker->slot);
    errno = scene.link_error;
    return scene.link_error == 0 ? 0 : -1;
}

uint64_t __wrap_child_retry_ns(const struct child *child, uint64_t now_ns)
{
    (void)now_ns;
    if (child == &scene.auxiliary.logger.child)
        return scene.retry_ns[0];
    return scene.retry_ns[child == &scene.auxiliary.keys.child ? 1 : 2];
}

void __wrap_logger_process_ended(struct logger_process *process, const char *how, bool failed)
{
    (void)process, (void)how;
    record("logger %s", failed ? "failed" : "ended");
}

void __wrap_keys_process_ended(struct keys_process *process, const char *how)
{
    (void)process, (void)how;
    record("keys ended");
}

bool __wrap_metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how)
{
    (void)process, (void)how;
    return pid == METRICS_PID;
}

static void check_times(uint64_t timeout_ms, uint64_t resumed_ns, uint64_t now_ns)
{
    assert_int_equal(timeout_ms, HUNG_MS);
    assert_int_equal(resumed_ns, 1);
    assert_int_equal(now_ns, 2);
}

void __wrap_logger_process_check(const struct logger_process *process, uint64_t timeout_ms,
                                 uint64_t resumed_ns, uint64_t now_ns)
{
    (void)process;
    check_times(timeout_ms, resumed_ns, now_ns);
    record("check logger");
}

void __wrap_keys_process_check(struct keys_process *process, uint64_t timeout_ms,
                               uint64_t resumed_ns, uint64_t now_ns)
{
    (void)process;
    check_times(timeout_ms, resumed_ns, now_ns);
    record("check keys");
}

void __wrap_metrics_process_check(struct metrics_process *process, uint64_t timeout_ms,
                                  uint64_t resumed_ns, uint64_t now_ns)
{
    (void)process;
    check_times(timeout_ms, resumed_ns, now_ns);
    record("check metrics");
}

void __wrap_logger_process_stop(struct logger_process *process, uint32_t wait_ms)
{
    (void)process;
    record("stop logger %u", (unsigned)wait_ms);
}

uint64_t __wrap_logger_process_unwritten(const struct logger_process *process)
{
    (void)process;
    return 3;
}

void __wrap_logger_process_send_files(struct logger_process *process, uint32_t number)
{
    process->number = number;
    record("send files %u", (unsigned)number);
}

int __wrap_log_files_reopen(struct log_files *files, char *why, size_t size)
{
    (void)why, (void)size;
    assert_ptr_equal(files, &scene.server.logs);
    return scene.reopen_result;
}

void __wrap_salvage_renumber(struct salvage *salvage, const struct log_targets *before,
                             const struct log_targets *after)
{
    assert_ptr_equal(salvage, &scene.server.salvage);
    assert_ptr_equal(before, &scene.server.logs.targets);
    assert_ptr_not_equal(after, before);
    record("renumber");
}

int __wrap_logger_process_init(struct logger_process *process, struct event_base *base,
                               struct segment *segment, struct log_files *files,
                               struct salvage *salvage)
{
    (void)base;
    assert_ptr_equal(process, &scene.auxiliary.logger);
    assert_ptr_equal(segment, &scene.server.segment);
    assert_ptr_equal(files, &scene.server.logs);
    assert_ptr_equal(salvage, &scene.server.salvage);
    return scene.init_result;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static int init(void)
{
    const struct auxiliary_callbacks callbacks = {
        .after_fork = after_fork, .keys_fault = on_keys_fault, .context = &scene};

    return auxiliary_init(&scene.auxiliary, &scene.server, &scene.workers, &callbacks);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    forget_calls();
    events = 0;
    scene.config.workers_heartbeat_timeout = HUNG_MS;
    scene.server.config = &scene.config;
    scene.server.logs.config = &scene.log_config;
    scene.server.pid_file.lock_fd = LOCK_FD;
    scene.workers = (struct workers){.worker = scene.worker, .count = WORKERS};
    for (uint32_t i = 0; i < WORKERS; i++)
        scene.worker[i] = (struct worker_process){.slot = i, .keys_links = 5};
    if (own_segment_create(&scene.server.segment, (struct segment_plan){0}) != 0)
        return -1;
    return init();
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&scene.server.segment);
    return 0;
}

static void expect_running(bool stopping, const char *calls)
{
    auxiliary_reconcile(&scene.auxiliary, stopping);
    expect_calls(calls);
}

/* --- Which run --- */

static void logger_always_runs(void **state)
{
    (void)state;
    expect_running(false, "start logger, stop keys, release metrics");
    expect_running(true, "start logger, stop keys, release metrics");
}

static void keys_process_runs_while_a_certificate_needs_it(void **state)
{
    (void)state;
    scene.server.tls = remote();
    expect_running(false, "start logger, start keys, release metrics");
    expect_running(true, "start logger, stop keys, release metrics"); /* no worker starts */
    scene.worker[WORKERS - 1].tls = remote();
    expect_running(true, "start logger, start keys, release metrics");
    scene.server.tls = NULL;
    expect_running(false, "start logger, start keys, release metrics");
}

static void new_keys_process_has_no_links(void **state)
{
    (void)state;
    scene.server.tls = remote();
    auxiliary_reconcile(&scene.auxiliary, false);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(scene.worker[i].keys_links, 5);
    scene.keys_are_new = true;
    auxiliary_reconcile(&scene.auxiliary, false);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(scene.worker[i].keys_links, 0);
}

static void metrics_process_runs_from_start_to_release(void **state)
{
    (void)state;
    scene.server.metrics.count = 1;
    expect_running(false, "start logger, stop keys, release metrics");
    auxiliary_start_metrics(&scene.auxiliary);
    expect_calls("start metrics");
    expect_running(false, "start logger, stop keys, start metrics");
    auxiliary_renew_metrics(&scene.auxiliary);
    expect_calls("release metrics, start metrics");
    auxiliary_release_metrics(&scene.auxiliary);
    expect_calls("release metrics, close sockets");
    expect_running(false, "start logger, stop keys, release metrics");
}

static void metrics_process_needs_a_listen_socket(void **state)
{
    (void)state;
    auxiliary_start_metrics(&scene.auxiliary);
    expect_calls("release metrics");
    scene.server.metrics.count = 1;
    auxiliary_renew_metrics(&scene.auxiliary);
    expect_calls("release metrics, start metrics");
}

static void metrics_process_is_killed_at_the_end(void **state)
{
    (void)state;
    auxiliary_start_metrics(&scene.auxiliary);
    forget_calls();
    auxiliary_end_metrics(&scene.auxiliary);
    expect_calls("release metrics, close sockets, kill metrics");
    assert_true(auxiliary_metrics_has_left(&scene.auxiliary));
    scene.auxiliary.metrics.leaving = METRICS_PID;
    assert_false(auxiliary_metrics_has_left(&scene.auxiliary));
}

/* --- Links --- */

static void links_go_to_workers_that_live(void **state)
{
    (void)state;
    auxiliary_send_links(&scene.auxiliary);
    expect_calls("");
    scene.worker[1].state = WORKER_STARTING;
    auxiliary_send_links(&scene.auxiliary);
    expect_calls("link 1");
    scene.worker[0].state = WORKER_SERVING;
    auxiliary_send_links(&scene.auxiliary);
    expect_calls("link 0, link 1");
    assert_int_equal(events, 0);
}

/* The end of a process closes its channel before the master learns of it. */
static void link_that_fails_is_logged_unless_a_process_has_ended(void **state)
{
    (void)state;
    scene.worker[1].state = WORKER_SERVING;
    scene.link_error = EPIPE;
    auxiliary_send_links(&scene.auxiliary);
    assert_int_equal(events, 0);
    scene.link_error = EMFILE;
    auxiliary_send_links(&scene.auxiliary);
    assert_int_equal(events, 1);
    assert_non_null(strstr(logged, "cannot link worker slot 1"));
    assert_non_null(strstr(logged, strerror(EMFILE)));
}

/* --- Ends and hangs --- */

static void end_is_passed_to_its_process(void **state)
{
    (void)state;
    scene.auxiliary.logger.child.pid = LOGGER_PID;
    scene.auxiliary.keys.child.pid = KEYS_PID;
    assert_true(auxiliary_ended(&scene.auxiliary, LOGGER_PID, 0, "exited"));
    expect_calls("logger ended");
    assert_true(auxiliary_ended(&scene.auxiliary, LOGGER_PID, 9, "was killed"));
    expect_calls("logger failed");
    assert_true(auxiliary_ended(&scene.auxiliary, KEYS_PID, 0, "exited"));
    expect_calls("keys ended");
    assert_true(auxiliary_ended(&scene.auxiliary, METRICS_PID, 0, "exited"));
    assert_false(auxiliary_ended(&scene.auxiliary, OTHER_PID, 0, "exited"));
    expect_calls("");
}

static void earliest_retry_counts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            scene.retry_ns[j] = UINT64_MAX;
        assert_int_equal(auxiliary_retry_ns(&scene.auxiliary, 0), UINT64_MAX);
        scene.retry_ns[i] = 5;
        scene.retry_ns[(i + 1) % 3] = 6;
        assert_int_equal(auxiliary_retry_ns(&scene.auxiliary, 0), 5);
    }
}

static void each_process_is_checked_for_hangs(void **state)
{
    (void)state;
    auxiliary_check(&scene.auxiliary, 1, 2);
    expect_calls("check logger, check keys, check metrics");
}

/* --- Logs --- */

/* Lines may be left. */
static void logger_stops_without_a_delay(void **state)
{
    (void)state;
    scene.auxiliary.logger.child.backoff.not_before_ns = UINT64_MAX;
    auxiliary_stop_logger(&scene.auxiliary, 30);
    expect_calls("stop logger 30, start logger");
    auxiliary_give_up_logger(&scene.auxiliary);
    expect_calls("give up logger");
}

static void logger_has_finished_when_its_process_has_ended(void **state)
{
    (void)state;
    assert_false(auxiliary_logger_has_finished(&scene.auxiliary));
    scene.auxiliary.logger.finished = true;
    scene.auxiliary.logger.child.pid = LOGGER_PID;
    assert_false(auxiliary_logger_has_finished(&scene.auxiliary));
    scene.auxiliary.logger.child.pid = 0;
    assert_true(auxiliary_logger_has_finished(&scene.auxiliary));
    assert_int_equal(auxiliary_unwritten_lines(&scene.auxiliary), 3);
}

static void each_reopening_has_a_number(void **state)
{
    const _Atomic uint32_t *wanted = &segment_master(&scene.server.segment)->logs_wanted;
    char why[64];

    (void)state;
    assert_int_equal(auxiliary_reopen_logs(&scene.auxiliary, why, sizeof(why)), 1);
    expect_calls("send files 1");
    assert_int_equal(atomic_load(wanted), 1);
    assert_int_equal(auxiliary_reopen_logs(&scene.auxiliary, why, sizeof(why)), 2);
    expect_calls("send files 2");
    assert_int_equal(atomic_load(wanted), 2);
    scene.reopen_result = -1;
    assert_int_equal(auxiliary_reopen_logs(&scene.auxiliary, why, sizeof(why)), 0);
    expect_calls("");
    assert_int_equal(atomic_load(wanted), 2);
}

static void new_logs_replace_the_logger(void **state)
{
    const struct log_files logs = {.config = &scene.config};

    (void)state;
    auxiliary_replace_logs(&scene.auxiliary, &logs);
    expect_calls("renumber, close logs, restart logger");
    assert_ptr_equal(scene.server.logs.config, &scene.config);
}

/* --- Set-up --- */

static void processes_are_shown_in_the_segment(void **state)
{
    const struct segment *segment = &scene.server.segment;

    (void)state;
    assert_ptr_equal(scene.auxiliary.keys.child.shown_pid, &segment_master(segment)->keys_pid);
    assert_ptr_equal(scene.auxiliary.metrics.child.shown_pid,
                     &segment_master(segment)->metrics_pid);
    assert_int_equal(scene.auxiliary.metrics.fd, -1);
    assert_ptr_equal(scene.auxiliary.keys.fault, on_keys_fault);
    scene.init_result = -1;
    assert_int_equal(init(), -1);
}

static void free_needs_no_init(void **state)
{
    struct auxiliary unused = {0};

    (void)state;
    auxiliary_free(&unused);
    expect_calls("");
    auxiliary_free(&scene.auxiliary);
    expect_calls("free logger, free keys, free metrics");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(logger_always_runs),
        TEST(keys_process_runs_while_a_certificate_needs_it),
        TEST(new_keys_process_has_no_links),
        TEST(metrics_process_runs_from_start_to_release),
        TEST(metrics_process_needs_a_listen_socket),
        TEST(metrics_process_is_killed_at_the_end),
        TEST(links_go_to_workers_that_live),
        TEST(link_that_fails_is_logged_unless_a_process_has_ended),
        TEST(end_is_passed_to_its_process),
        TEST(earliest_retry_counts),
        TEST(each_process_is_checked_for_hangs),
        TEST(logger_stops_without_a_delay),
        TEST(logger_has_finished_when_its_process_has_ended),
        TEST(each_reopening_has_a_number),
        TEST(new_logs_replace_the_logger),
        TEST(processes_are_shown_in_the_segment),
        TEST(free_needs_no_init),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
