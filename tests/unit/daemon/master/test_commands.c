/*
 * The commands of the control socket, in a master without processes: arguments at their limits,
 * what the replies report, and when a change is in force.
 */
#include "tests/unit/daemon/master/scene.h"

#include "common/clock.h"
#include "daemon/config/keys.h"
#include "daemon/master/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WORKERS = SCENE_WORKERS, THREADS = SCENE_THREADS, SELF = 4711 };

static int begin(void **state)
{
    (void)state;
    if (scene_begin(WORKER_NONE) != 0)
        return -1;
    master.config->workers_offload_threads = (struct config_range){2, 4};
    return 0;
}

static int end(void **state)
{
    master.config->acme_names = (struct config_words){0}; /* those of the test */
    return scene_end(state);
}

const struct test_fixture test_fixture = {begin, end};

/* Workers 0 and 1 serve, worker 2 does not. */
static void let_two_serve(void)
{
    struct worker_process *worker = master.workers.worker;

    worker[0].state = worker[1].state = WORKER_SERVING;
    worker[0].generation = worker[1].generation = 1;
    worker[0].threads_actual = 1;
    worker[1].threads_actual = 2;
}

static struct segment_worker *block(uint32_t slot)
{
    return segment_worker(&master.segment, slot);
}

static struct control_reply run_as(const char *line, unsigned uid)
{
    char copy[CONTROL_LINE_MAX];

    snprintf(copy, sizeof(copy), "%s", line);
    return command_run(&master, copy, uid, SELF);
}

static struct control_reply run(const char *line)
{
    return run_as(line, 0);
}

/* The caller releases it. */
static json_t *reply_to(const char *line)
{
    struct control_reply result = run(line);

    assert_null(result.in_force);
    assert_non_null(result.json);
    return result.json;
}

static void expect_json(json_t *reply, const char *expected)
{
    char *text = json_dumps(reply, JSON_COMPACT | JSON_PRESERVE_ORDER);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    json_decref(reply);
}

static void expect_error_in(json_t *reply, const char *words)
{
    const char *error = json_string_value(json_object_get(reply, "error"));

    assert_true(json_is_false(json_object_get(reply, "ok")));
    if (error == NULL || strstr(error, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, error);
    json_decref(reply);
}

static void expect_error(const char *line, const char *words)
{
    expect_error_in(reply_to(line), words);
}

static void expect_done(const char *line)
{
    json_t *reply = reply_to(line);

    if (!json_is_true(json_object_get(reply, "ok")))
        fail_msg("%s: %s", line, json_string_value(json_object_get(reply, "error")));
    json_decref(reply);
}

static void expect_log(const char *text)
{
    if (strncmp(scene_last_event(), text, strlen(text)) != 0)
        fail_msg("'%s' is logged, not '%s'", scene_last_event(), text);
}

/* The change of LINE is not in force yet; its result can tell when it is. */
static struct control_reply start(const char *line)
{
    struct control_reply result = run(line);

    if (result.in_force == NULL)
        fail_msg("%s: a reply at once", line);
    assert_null(result.json);
    return result;
}

static bool in_force(const struct control_reply *result)
{
    return result->in_force(&master, result->token);
}

static json_t *report(const struct control_reply *result)
{
    return result->report(&master, result->token);
}

/* --- Lines --- */

static uint64_t commands_counted(void)
{
    return metric_get(segment_master(&master.segment)->metrics, METRIC_control_commands);
}

TEST(only_commands_that_run_are_counted)
{
    expect_error("", "empty command");
    expect_error("pong", "unknown command 'pong', did you mean 'ping'?; try: help");
    expect_error("zzzzzzzzzzzz", "unknown command 'zzzzzzzzzzzz'; try: help");
    expect_error("restart", "usage: restart WORKER | all");
    expect_error("cache-flush now", "usage: cache-flush");
    assert_int_equal(commands_counted(), 0);
    expect_done("help");
    expect_done("help ping");
    assert_int_equal(commands_counted(), 2);
}

/* The test may run as root, so the other user has no fixed number. */
TEST(members_of_the_group_change_nothing)
{
    const unsigned other = geteuid() + 1;
    const char *group = master.config->control_group;

    master.config->control_group = "staff";
    expect_error_in(run_as("log-level warn", other).json, "permission denied");
    json_decref(run_as("log-level", other).json);
    assert_int_equal(master.config->log_level, LEVEL_INFO);
    json_decref(run_as("log-level warn", geteuid()).json);
    assert_int_equal(master.config->log_level, LEVEL_WARN);
    expect_done("log-level error");
    master.config->control_group = group;
    json_decref(run_as("log-level info", other).json);
    assert_int_equal(master.config->log_level, LEVEL_INFO);
}

TEST(stop_now_stops_twice)
{
    let_two_serve();
    expect_error("stop soon", "usage: stop [now]");
    expect_json(reply_to("stop"), "{\"ok\":true,\"stopping\":true}");
    assert_int_equal(master.life.state, LIFE_stopping);
    master.upgrade.stop_sent = true;
    master.upgrade.successor_pid = 42;
    expect_json(reply_to("stop now"), "{\"ok\":true,\"stopping\":true,\"new_master\":42}");
    assert_int_equal(master.life.state, LIFE_draining);
    master.upgrade.successor_pid = 0;
}

/* --- Workers --- */

TEST(connections_are_those_of_serving_threads)
{
    const struct segment *segment = &master.segment;

    let_two_serve();
    for (uint32_t i = 0; i < WORKERS * THREADS; i++)
        metric_add(segment_thread(segment, i)->metrics, METRIC_connections_open, 10 + i);
    master.config->workers_balance_connections = false;
    expect_json(reply_to("balance"),
                "{\"ok\":true,\"wanted\":\"off\",\"actual\":\"off\",\"connections\":["
                "{\"worker\":0,\"threads\":[10]},{\"worker\":1,\"threads\":[12,13]}],"
                "\"notes\":[]}");
    expect_error("balance maybe", "invalid word 'maybe'");
    expect_done("balance on");
    assert_true(master.config->workers_balance_connections);
    assert_int_equal(scene_read(1)->received[MESSAGE_BALANCE], 1);
    assert_true(rebalance_is_moving(&master.rebalance));
    expect_log("balancing of connections changed from off to on, by uid 0 pid 4711");
}

TEST(workers_and_threads_need_descriptors)
{
    struct rlimit limit, low;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){50, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    expect_error("threads 1", "3 workers with 1 thread each: a process needs");
    expect_error("workers 1", "1 worker with 2 threads each: a process needs");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(master.config->workers_threads, THREADS);
    assert_int_equal(master.config->workers_processes, WORKERS);
    start("workers 2");
    assert_int_equal(master.config->workers_processes, 2);
    expect_log("workers changed from 3 to 2");
    start("threads 1");
    assert_int_equal(master.config->workers_threads, 1);
    expect_log("serving threads per worker changed from 2 to 1");
}

TEST(stop_ends_the_wait_for_workers)
{
    struct control_reply workers = start("workers 2"), threads = start("threads 1");

    assert_false(in_force(&workers));
    assert_false(in_force(&threads));
    master.life.state = LIFE_stopping;
    assert_true(in_force(&workers));
    assert_true(in_force(&threads));
}

/* Nobody waits until fork() works again, which may take long. */
TEST(workers_that_cannot_start_are_not_awaited)
{
    static const char *const lines[] = {"workers 3", "threads 1", "restart all", "restart 1"};
    struct control_reply waiting = start("workers 3");

    let_two_serve();
    assert_false(in_force(&waiting));
    master.workers.start_error = EAGAIN;
    assert_true(in_force(&waiting));
    expect_error_in(report(&waiting),
                    "cannot start a worker: Resource temporarily unavailable; 2 of 3 "
                    "workers run, and the server tries again");
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct control_reply result;

        let_two_serve();
        result = run(lines[i]);
        if (result.in_force != NULL && !in_force(&result))
            fail_msg("'%s' waits", lines[i]);
        expect_error_in(result.json != NULL ? result.json : report(&result),
                        "cannot start a worker: ");
    }
    expect_json(reply_to("workers"),
                "{\"ok\":true,\"wanted\":3,\"actual\":2,\"connections\":["
                "{\"worker\":0,\"threads\":[0]},{\"worker\":1,\"threads\":[0,0]}]}");
}

/* The master has no descriptor left for the channels to another worker. */
TEST(failed_start_is_known)
{
    struct rlimit before, limit;
    char why[256];
    int free_fd;

    let_two_serve();
    assert_false(workers_cannot_start(&master, why, sizeof(why)));
    master.workers.start_backoff = (struct backoff){0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(free_fd);
    limit = (struct rlimit){(rlim_t)free_fd, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    supervisor_reconcile(&master);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(workers_cannot_start(&master, why, sizeof(why)));
    assert_string_equal(why,
                        "cannot start a worker: Too many open files; 2 of 3 workers run, and the "
                        "server tries again");
}

TEST(workers_that_keep_ending_are_not_awaited)
{
    struct control_reply waiting = start("workers 3");

    let_two_serve();
    for (uint32_t failures = 0; failures < 4; failures++) {
        master.workers.start_backoff.failures = failures;
        assert_int_equal(in_force(&waiting), failures == 3);
    }
    expect_error_in(report(&waiting),
                    "workers end soon after their start, see the error log; 2 of 3");
    master.workers.worker[2].state = WORKER_STARTING; /* the next one perhaps does not */
    master.workers.worker[2].generation = 1;
    assert_false(in_force(&waiting));
}

/* As "config" shows it and other programs read it. */
TEST(changed_key_has_the_command_as_its_origin)
{
    static const struct {
        const char *line;
        enum config_key_number key;
    } cases[] = {{"threads 1", KEY_workers_threads},
                 {"workers 2", KEY_workers_processes},
                 {"balance on", KEY_workers_balance_connections},
                 {"offload-threads 3", KEY_workers_offload_threads},
                 {"drain 1", KEY_workers_processes}};

    let_two_serve();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *other = config_origin(master.config, KEY_server_name);

        json_decref(run(cases[i].line).json);
        assert_string_equal(config_origin(master.config, cases[i].key),
                            "command, by uid 0 pid 4711");
        assert_string_equal(config_origin(master.config, KEY_server_name), other);
    }
    assert_int_equal(atomic_load(&segment_master(&master.segment)->workers_wanted), 1);
}

TEST(offload_threads_are_in_force_within_the_range)
{
    static const struct {
        uint32_t actual;
        bool in_force;
    } cases[] = {{1, false}, {2, true}, {4, true}, {5, false}};
    struct control_reply result;

    let_two_serve();
    atomic_store(&block(0)->offload_actual, 3);
    atomic_store(&block(2)->offload_actual, 50);
    result = start("offload-threads 2-4");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        atomic_store(&block(1)->offload_actual, cases[i].actual);
        assert_int_equal(in_force(&result), cases[i].in_force);
    }
    expect_json(report(&result), "{\"ok\":true,\"wanted\":\"2-4\",\"actual\":8,\"notes\":[]}");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) { /* threads cannot be started */
        result.token = clock_monotonic_ns() - 1;
        atomic_store(&block(1)->offload_actual, cases[i].actual);
        assert_int_equal(in_force(&result), cases[i].actual <= 4);
    }
}

TEST(drain_leaves_one_worker)
{
    struct worker_process *worker = master.workers.worker;
    struct control_reply result;

    let_two_serve();
    expect_error("drain 2", "worker 2 does not serve");
    expect_error("drain 3", "worker 3 does not serve");
    expect_error("drain x", "invalid worker number 'x'");
    result = start("drain 1");
    assert_int_equal(worker[1].state, WORKER_LEAVING);
    assert_int_equal(scene_read(1)->received[MESSAGE_LEAVE], 1);
    assert_int_equal(master.config->workers_processes, WORKERS - 1);
    assert_int_equal(result.token, 1);
    assert_false(in_force(&result));
    expect_error("drain 0", "it is the only worker");
    worker[1].left = true;
    assert_false(in_force(&result));
    atomic_store(&block(1)->connections_open, 1); /* of a client that reads slowly */
    assert_true(in_force(&result));
    worker[1].state = WORKER_NONE;
    assert_true(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"worker\":1,\"wanted\":2,\"actual\":1}");
    let_two_serve();
    master.config->workers_processes = 1;
    expect_error("drain 0", "it is the only worker");
    master.config->workers_processes = 2;
    start("drain 0");
    assert_int_equal(master.config->workers_processes, 1);
}

TEST(post_mortem_lists_as_many_deaths_as_requested)
{
    char line[32];

    master.monitor.worker_deaths = json_pack("[i, i, i]", 1, 2, 3);
    expect_json(reply_to("post-mortem"), "{\"ok\":true,\"deaths\":[1]}");
    expect_json(reply_to("post-mortem 2"), "{\"ok\":true,\"deaths\":[1,2]}");
    snprintf(line, sizeof(line), "post-mortem %d", POST_MORTEM_DEATHS);
    expect_done(line);
    snprintf(line, sizeof(line), "post-mortem %d", POST_MORTEM_DEATHS + 1);
    expect_error(line, "invalid number of deaths");
    expect_error("post-mortem 0", "invalid number of deaths");
}

/* --- Limits of clients --- */

/* It is removed within a second. */
TEST(ended_limit_has_no_time_left)
{
    struct address_limit limit = {.until_ns = 1, .requests_per_second = 5};

    assert_int_equal(network_parse("192.0.2.7", &limit.network), NETWORK_GOOD);
    assert_int_equal(address_limits_set(&master.segment, &limit), 0);
    expect_json(reply_to("limit-client"),
                "{\"ok\":true,\"most\":64,\"limits\":[{\"client\":\"192.0.2.7\",\"blocked\":false,"
                "\"requests_per_second\":5,\"remaining_s\":0,\"rejected\":0}]}");
}

/* --- Configuration, logs and caches --- */

TEST(rate_limit_is_set_in_parts)
{
    master.config->ratelimit_requests_per_second = 10;
    master.config->ratelimit_burst = 20;
    expect_done("ratelimit on");
    assert_true(master.config->ratelimit_enabled);
    expect_log("rate limit changed from off, 10 requests per second, burst 20 to on, 10 requests");
    expect_done("ratelimit off");
    assert_false(master.config->ratelimit_enabled);
    expect_done("ratelimit 1");
    assert_true(master.config->ratelimit_enabled);
    assert_int_equal(master.config->ratelimit_requests_per_second, 1);
    assert_int_equal(master.config->ratelimit_burst, 20);
    expect_done("ratelimit 3 1");
    assert_int_equal(master.config->ratelimit_burst, 1);
    expect_done("ratelimit 1000000 1000000");
    expect_error("ratelimit 1000001", "invalid requests_per_second '1000001' (valid: 1-1000000)");
    expect_error("ratelimit 5 1000001", "invalid burst '1000001' (valid: 1-1000000)");
    expect_done("ratelimit 3 1");
    expect_error("ratelimit 0", "invalid requests_per_second '0'");
    expect_error("ratelimit 5 0", "invalid burst '0'");
    expect_error("ratelimit on 5", "invalid requests_per_second 'on'");
    assert_int_equal(master.config->ratelimit_requests_per_second, 3);
}

static size_t count_of_keys(const char *line)
{
    json_t *reply = reply_to(line);
    size_t count = json_array_size(json_object_get(reply, "keys"));

    json_decref(reply);
    return count;
}

TEST(config_selects_section_or_key)
{
    assert_int_equal(count_of_keys("config ratelimit.burst"), 1);
    assert_in_range(count_of_keys("config ratelimit"), 2, KEY_COUNT - 1);
    expect_error("config ratelimits", "unknown section or key 'ratelimits'");
    expect_error("config ratelimitxburst", "did you mean 'ratelimit.burst'?");
    expect_error("config ratelimit.", "unknown section or key 'ratelimit.'");
    expect_error("config zzzzzzzzzzzzzzzzzzzz", "unknown section or key 'zzzzzzzzzzzzzzzzzzzz'");
}

TEST(reopen_logs_is_in_force_when_the_logger_reports_it)
{
    struct segment_logger *logger = segment_logger(&master.segment);
    struct control_reply result;
    char why[256];

    assert_int_equal(log_files_open(&master.auxiliary.logs, master.config, why, sizeof(why)), 0);
    master.auxiliary.logger.number = 6;
    result = start("reopen-logs");
    assert_int_equal(result.token, 7);
    assert_int_equal(atomic_load(&segment_master(&master.segment)->logs_wanted), 7);
    for (uint32_t done = 6; done <= 8; done++) {
        atomic_store(&logger->logs_done, done);
        assert_int_equal(in_force(&result), done >= 7);
    }
    atomic_store(&logger->logs_done, 6);
    assert_false(in_force(&result));
    master.auxiliary.logger.child.backoff.failures = 1; /* fork() fails */
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the files are open, but no logger writes to them");
    log_files_close(&master.auxiliary.logs);
}

TEST(cache_size_in_force_is_the_smallest)
{
    static const uint64_t limits[WORKERS] = {3000, 2000, 1000}, used[WORKERS] = {5, 6, 7};

    master.config->cache_size = 4000;
    expect_json(reply_to("cache-size"), "{\"ok\":true,\"wanted\":4000,\"actual\":0,\"used\":0}");
    let_two_serve();
    for (uint32_t i = 0; i < WORKERS; i++) {
        metric_add(block(i)->metrics, METRIC_cache_limit, limits[i]);
        metric_add(block(i)->metrics, METRIC_cache_bytes, used[i]);
    }
    expect_json(reply_to("cache-size"), "{\"ok\":true,\"wanted\":4000,\"actual\":2000,\"used\":7}");
}

/* --- Certificates --- */

static char *names[] = {"first.example", "second.example"};

static void manage_two_names(void)
{
    master.config->acme_enabled = true;
    master.config->acme_names = (struct config_words){names, ARRAY_LENGTH(names)};
}

TEST(acme_needs_its_process)
{
    manage_two_names();
    expect_error("acme renew FIRST.example", "the ACME process does not run");
    expect_error("acme rollover", "the ACME process does not run");
}

TEST(list_of_names_is_cut_from_400_bytes_on)
{
    static char fits[] = "a.example", cut[] = "ab.example", *many[27];

    manage_two_names();
    for (size_t i = 0; i < ARRAY_LENGTH(many) - 1; i++)
        many[i] = names[0];
    master.config->acme_names = (struct config_words){many, ARRAY_LENGTH(many)};
    many[ARRAY_LENGTH(many) - 1] = fits;
    expect_error("acme renew x", "first.example, a.example)");
    many[ARRAY_LENGTH(many) - 1] = cut;
    expect_error("acme renew x", "first.example, ab.exampl...)");
}

/* A process that reads nothing. */
static void begin_acme_process(int *process_end)
{
    const struct channel_owner owner = {.closed = child_ignore_closed};
    struct acme_process *process = &master.certificates.process;
    int fds[2];

    manage_two_names();
    assert_int_equal(channel_pair(fds), 0);
    process->child.channel = channel_open(master.base, fds[0], ROUTE_ACME_REPORTS, &owner);
    process->child.pid = 1;
    process->plan = calloc(ARRAY_LENGTH(names), sizeof(*process->plan));
    process->plan_count = ARRAY_LENGTH(names);
    *process_end = fds[1];
}

TEST(renewal_is_awaited_for_45_seconds)
{
    struct certificates *certificates = &master.certificates;
    struct control_reply result;
    struct acme_plan *plan;
    int process_end;

    begin_acme_process(&process_end);
    plan = &certificates->process.plan[1];
    plan->next_s = 86400;
    snprintf(plan->error, sizeof(plan->error), "no answer");
    plan->refused_until_s = INT64_MAX / 2;
    expect_error("acme renew second.example", "the authority accepts no request before");
    plan->refused_until_s = 0;
    result = start("acme renew second.example");
    expect_log("second.example: new certificate requested, by uid 0 pid 4711");
    assert_false(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"host\":\"second.example\",\"obtained\":false,"
                                 "\"next_attempt\":86400}");
    plan->renewal_ns -= 46 * NS_PER_S;
    assert_true(in_force(&result));
    plan->renewal_ns += 46 * NS_PER_S;
    plan->renewal_ended = plan->renewal;
    certificates->pending = true; /* the reload for it */
    assert_false(in_force(&result));
    certificates->pending = false;
    assert_true(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"host\":\"second.example\",\"obtained\":true,"
                                 "\"next_attempt\":86400}");
    plan->failures = 1;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "no certificate: no answer; next attempt: 1970-01-02");
    certificates->process.child.pid = 0;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the ACME process has ended before the certificate came");
    close(process_end);
}

TEST(key_change_is_awaited_for_45_seconds)
{
    struct acme_process *process = &master.certificates.process;
    struct acme_key_change *change = &process->key_change;
    struct control_reply result;
    int process_end;

    begin_acme_process(&process_end);
    result = start("acme rollover");
    expect_log("another key of the ACME account requested, by uid 0 pid 4711");
    snprintf(change->error, sizeof(change->error), "of the one before");
    assert_false(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"key_replaced\":false}");
    change->since_ns -= 46 * NS_PER_S;
    assert_true(in_force(&result));
    change->since_ns += 46 * NS_PER_S;
    change->ended = (uint32_t)result.token;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the key of the account is not replaced: of the one before");
    change->error[0] = '\0';
    expect_json(report(&result), "{\"ok\":true,\"key_replaced\":true}");
    change->number++; /* that of another process */
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the ACME process has ended before the key was replaced");
    process->child.pid = 0;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the ACME process has ended before the key was replaced");
    close(process_end);
}

/* Each may have the user of the master, which is all that the socket's mode asks for. */
TEST(processes_of_the_server_run_no_command)
{
    pid_t *const pids[] = {
        &master.workers.worker[WORKERS - 1].pid, &master.auxiliary.logger.child.pid,
        &master.auxiliary.keys.child.pid,        &master.auxiliary.metrics.child.pid,
        &master.auxiliary.metrics.leaving,       &master.certificates.process.child.pid};

    for (size_t i = 0; i < ARRAY_LENGTH(pids); i++) {
        pid_t before = *pids[i];

        *pids[i] = SELF;
        expect_error("ping", "processes of the server may run no command");
        expect_error("workers 1", "processes of the server may run no command");
        *pids[i] = before;
    }
    expect_done("ping");
}
