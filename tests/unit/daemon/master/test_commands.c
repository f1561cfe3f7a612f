/*
 * The commands of the control socket, in a master without processes: arguments at their limits,
 * what the replies report, and when a change is in force.
 */
#include "daemon/master/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/config/load.h"
#include "daemon/master/address_limits.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 3, THREADS = 2, LOGS_NUMBER = 7, SELF = 4711 };

static struct {
    struct master master;
    struct config config;
    struct worker_process worker[WORKERS + 1]; /* no command may read the last one */
    pid_t successor;                           /* the result of upgrade_pid() */
    bool must_end;
    int stops, published;
    bool moving;      /* the result of rebalance_is_moving() */
    char logged[512]; /* the last event */
    char called[64];  /* the last function of the supervisor */
    uint32_t workers, threads;
    bool resize_fails;
    enum certificates_renewal renewal;
    uint64_t since_ns;
    uint32_t key_change; /* the result of acme_process_change_key() */
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
PRINTF_LIKE(2, 3)
void wrapped_log(enum level level, const char *format, ...) __asm__("__wrap_event_log");
void wrapped_publish(struct server *server) __asm__("__wrap_server_publish_config");
pid_t wrapped_pid(const struct upgrade *upgrade) __asm__("__wrap_upgrade_pid");
bool wrapped_must_end(const struct upgrade *upgrade) __asm__("__wrap_upgrade_must_end");
void wrapped_stop(struct master *master, enum life_event event) __asm__("__wrap_master_stop");
int wrapped_resize(struct master *master, uint32_t workers, uint32_t threads, char *why,
                   size_t size) __asm__("__wrap_master_resize");
void wrapped_drain(struct supervisor *supervisor, uint32_t slot) __asm__("__wrap_supervisor_drain");
void wrapped_replace(struct supervisor *supervisor,
                     uint32_t slot) __asm__("__wrap_supervisor_replace");
void wrapped_replace_all(struct supervisor *supervisor) __asm__("__wrap_supervisor_replace_all");
void wrapped_balance(struct supervisor *supervisor) __asm__("__wrap_supervisor_send_balance");
void wrapped_offload(struct supervisor *supervisor) __asm__("__wrap_supervisor_send_offload");
bool wrapped_moving(const struct rebalance *rebalance) __asm__("__wrap_rebalance_is_moving");
uint32_t wrapped_reopen(struct auxiliary *auxiliary, char *why,
                        size_t size) __asm__("__wrap_auxiliary_reopen_logs");
uint64_t wrapped_renew(struct certificates *certificates, uint32_t number, char *why,
                       size_t size) __asm__("__wrap_certificates_renew");
enum certificates_renewal wrapped_renewal(
    const struct certificates *certificates, uint64_t token, uint32_t *number,
    uint64_t *since_ns) __asm__("__wrap_certificates_renewal");
uint32_t wrapped_change_key(struct acme_process *process) __asm__("__wrap_acme_process_change_key");

void wrapped_log(enum level level, const char *format, ...)
{
    va_list arguments;

    assert_int_equal(level, LEVEL_INFO);
    va_start(arguments, format);
    vsnprintf(scene.logged, sizeof(scene.logged), format, arguments);
    va_end(arguments);
}

void wrapped_publish(struct server *server)
{
    assert_ptr_equal(server, &scene.master.server);
    scene.published++;
}

pid_t wrapped_pid(const struct upgrade *upgrade)
{
    (void)upgrade;
    return scene.successor;
}

bool wrapped_must_end(const struct upgrade *upgrade)
{
    (void)upgrade;
    return scene.must_end;
}

void wrapped_stop(struct master *master, enum life_event event)
{
    assert_ptr_equal(master, &scene.master);
    assert_int_equal(event, EVENT_stop_command);
    scene.stops++;
}

int wrapped_resize(struct master *master, uint32_t workers, uint32_t threads, char *why,
                   size_t size)
{
    (void)master;
    snprintf(why, size, "no room");
    scene.workers = workers;
    scene.threads = threads;
    return scene.resize_fails ? -1 : 0;
}

static void note_call(const char *name, uint32_t slot)
{
    snprintf(scene.called, sizeof(scene.called), "%s %u", name, slot);
}

void wrapped_drain(struct supervisor *supervisor, uint32_t slot)
{
    (void)supervisor;
    note_call("drain", slot);
}

void wrapped_replace(struct supervisor *supervisor, uint32_t slot)
{
    (void)supervisor;
    note_call("replace", slot);
}

void wrapped_replace_all(struct supervisor *supervisor)
{
    (void)supervisor;
    note_call("replace all", 0);
}

void wrapped_balance(struct supervisor *supervisor)
{
    (void)supervisor;
    note_call("balance", 0);
}

void wrapped_offload(struct supervisor *supervisor)
{
    (void)supervisor;
    note_call("offload", 0);
}

bool wrapped_moving(const struct rebalance *rebalance)
{
    (void)rebalance;
    return scene.moving;
}

uint32_t wrapped_reopen(struct auxiliary *auxiliary, char *why, size_t size)
{
    (void)auxiliary, (void)why, (void)size;
    return LOGS_NUMBER;
}

uint64_t wrapped_renew(struct certificates *certificates, uint32_t number, char *why, size_t size)
{
    (void)certificates;
    snprintf(why, size, "not now");
    return number == 0 ? 0 : number;
}

enum certificates_renewal wrapped_renewal(const struct certificates *certificates, uint64_t token,
                                          uint32_t *number, uint64_t *since_ns)
{
    (void)certificates;
    *number = (uint32_t)token;
    *since_ns = scene.since_ns;
    return scene.renewal;
}

uint32_t wrapped_change_key(struct acme_process *process)
{
    assert_ptr_equal(process, &scene.master.certificates.process);
    return scene.key_change;
}

static int begin(void **state)
{
    struct server *server = &scene.master.server;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    server->config = &scene.config;
    scene.config.workers_processes = WORKERS;
    scene.config.workers_threads = THREADS;
    scene.config.workers_offload_threads = (struct config_range){2, 4};
    scene.config.cache_enabled = true;
    scene.config.control_group = "";
    scene.config.log_level = LEVEL_INFO;
    scene.master.life.state = LIFE_serving;
    scene.master.workers = (struct workers){
        .server = server, .worker = scene.worker, .count = WORKERS, .generation = 1};
    if (own_segment_create(&server->segment, (struct segment_plan){.max_workers = WORKERS + 1,
                                                                   .max_threads = THREADS}) != 0)
        return -1;
    scene.worker[WORKERS] = (struct worker_process){
        .slot = WORKERS, .generation = 1, .state = WORKER_SERVING, .threads_actual = 1};
    for (uint32_t i = 0; i <= WORKERS; i++) {
        if (i < WORKERS)
            scene.worker[i] = (struct worker_process){.slot = i, .generation = 1};
        if (segment_reserve_worker(&server->segment, i) != 0)
            return -1;
    }
    for (uint32_t i = 0; i < (WORKERS + 1) * THREADS; i++)
        if (segment_reserve_thread(&server->segment, i) != 0)
            return -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&scene.master.server.segment);
    return 0;
}

/* Workers 0 and 1 serve, worker 2 does not. */
static void let_two_serve(void)
{
    scene.worker[0].state = scene.worker[1].state = WORKER_SERVING;
    scene.worker[0].threads_actual = 1;
    scene.worker[1].threads_actual = 2;
}

static struct segment_worker *block(uint32_t slot)
{
    return segment_worker(&scene.master.server.segment, slot);
}

static struct control_reply run_as(const char *line, unsigned uid)
{
    char copy[CONTROL_LINE_MAX];

    scene.logged[0] = scene.called[0] = '\0';
    snprintf(copy, sizeof(copy), "%s", line);
    return command_run(&scene.master, copy, uid, SELF);
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
    if (strncmp(scene.logged, text, strlen(text)) != 0)
        fail_msg("'%s' is logged, not '%s'", scene.logged, text);
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
    return result->in_force(&scene.master, result->token);
}

static json_t *report(const struct control_reply *result)
{
    return result->report(&scene.master, result->token);
}

/* --- Lines --- */

static uint64_t commands_counted(void)
{
    return metric_get(segment_master(&scene.master.server.segment)->metrics,
                      METRIC_control_commands);
}

static void only_commands_that_run_are_counted(void **state)
{
    (void)state;
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

static void stopping_server_rejects_changes(void **state)
{
    (void)state;
    scene.master.life.state = LIFE_stopping;
    expect_error("threads 1", "the server is stopping");
    expect_done("threads");
    expect_done("stop");
    assert_int_equal(scene.stops, 1);
}

/* The test may run as root, so the other user has no fixed number. */
static void members_of_the_group_change_nothing(void **state)
{
    const unsigned other = geteuid() + 1;

    (void)state;
    scene.config.control_group = "staff";
    expect_error_in(run_as("log-level warn", other).json, "permission denied");
    json_decref(run_as("log-level", other).json);
    assert_int_equal(scene.config.log_level, LEVEL_INFO);
    json_decref(run_as("log-level warn", geteuid()).json);
    assert_int_equal(scene.config.log_level, LEVEL_WARN);
    expect_done("log-level error");
    scene.config.control_group = "";
    json_decref(run_as("log-level info", other).json);
    assert_int_equal(scene.config.log_level, LEVEL_INFO);
}

static void stop_now_stops_twice(void **state)
{
    (void)state;
    expect_error("stop soon", "usage: stop [now]");
    expect_json(reply_to("stop"), "{\"ok\":true,\"stopping\":true}");
    assert_int_equal(scene.stops, 1);
    expect_log("stop, by uid 0 pid 4711");
    scene.must_end = true;
    scene.successor = 42;
    expect_json(reply_to("stop now"), "{\"ok\":true,\"stopping\":true,\"new_master\":42}");
    assert_int_equal(scene.stops, 3);
    expect_log("stop now, by uid 0 pid 4711");
}

/* --- Workers --- */

static void connections_are_those_of_serving_threads(void **state)
{
    const struct segment *segment = &scene.master.server.segment;

    (void)state;
    let_two_serve();
    for (uint32_t i = 0; i < WORKERS * THREADS; i++)
        metric_add(segment_thread(segment, i)->metrics, METRIC_connections_open, 10 + i);
    expect_json(reply_to("balance"),
                "{\"ok\":true,\"wanted\":\"off\",\"actual\":\"off\",\"connections\":["
                "{\"worker\":0,\"threads\":[10]},{\"worker\":1,\"threads\":[12,13]}]}");
    expect_error("balance maybe", "invalid word 'maybe'");
    expect_done("balance on");
    assert_true(scene.config.workers_balance_connections);
    assert_string_equal(scene.called, "balance 0");
    expect_log("balancing of connections changed from off to on, by uid 0 pid 4711");
}

static void numbers_of_workers_and_threads_have_limits(void **state)
{
    (void)state;
    expect_error("threads 0", "(valid: 1-2)");
    expect_error("threads 3", "(valid: 1-2)");
    expect_error("workers 4", "(valid: 1-3)");
    scene.resize_fails = true;
    expect_error("threads 1", "no room");
    expect_error("workers 1", "no room");
    scene.resize_fails = false;
    start("workers 3");
    assert_int_equal(scene.workers, 3);
    assert_int_equal(scene.threads, THREADS);
    expect_log("workers changed from 3 to 3");
    start("threads 2");
    assert_int_equal(scene.workers, WORKERS);
    assert_int_equal(scene.threads, 2);
    expect_log("serving threads in each worker changed from 2 to 2");
}

static void stop_ends_the_wait_for_workers(void **state)
{
    struct control_reply workers = start("workers 2"), threads = start("threads 1");

    (void)state;
    assert_false(in_force(&workers));
    assert_false(in_force(&threads));
    scene.master.life.state = LIFE_stopping;
    assert_true(in_force(&workers));
    assert_true(in_force(&threads));
}

/* The wanted number serves and none leaves; "workers" also waits until no connection moves. */
static void numbers_are_in_force_when_no_worker_changes(void **state)
{
    struct control_reply workers = start("workers 2"), threads = start("threads 1");

    (void)state;
    scene.config.workers_processes = 2;
    scene.config.workers_threads = 1;
    let_two_serve();
    scene.worker[0].threads_sent = scene.worker[1].threads_sent = 1;
    scene.worker[2].state = WORKER_LEAVING;
    assert_false(in_force(&workers));
    assert_true(in_force(&threads));
    scene.worker[2].state = WORKER_NONE;
    scene.moving = true;
    assert_false(in_force(&workers));
    scene.moving = false;
    assert_true(in_force(&workers));
    scene.config.workers_processes = 1; /* worker 1 is one too many */
    assert_false(in_force(&workers));
    assert_false(in_force(&threads));
}

/* As "config" shows it and other programs read it. */
static void changed_key_has_the_command_as_its_origin(void **state)
{
    static const struct {
        const char *line;
        enum config_key_number key;
    } cases[] = {{"threads 1", KEY_workers_threads},
                 {"workers 2", KEY_workers_processes},
                 {"balance on", KEY_workers_balance_connections},
                 {"offload-threads 3", KEY_workers_offload_threads},
                 {"drain 1", KEY_workers_processes}};

    (void)state;
    let_two_serve();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *origins[KEY_COUNT] = {NULL};

        scene.config.origins = origins;
        scene.published = 0;
        json_decref(run(cases[i].line).json);
        assert_int_equal(scene.published, 1);
        for (size_t key = 0; key < KEY_COUNT; key++)
            assert_string_equal(config_origin(&scene.config, key),
                                key == cases[i].key ? "command, by uid 0 pid 4711" : "?");
        free(origins[cases[i].key]);
        scene.config.origins = NULL;
    }
}

static void range_of_offload_threads_has_limits(void **state)
{
    static const char *const wrong[] = {"0", "65", "1-65", "0-1", "5-2", "2-", "-2", "x", "2-x"};
    static const struct {
        const char *line;
        uint32_t min, max;
        const char *log;
    } good[] = {
        {"offload-threads 1", 1, 1, "offload threads in each worker changed from 2-4 to 1,"},
        {"offload-threads 64", 64, 64, "offload threads in each worker changed from 1 to 64,"},
        {"offload-threads 1-64", 1, 64, "offload threads in each worker changed from 64 to 1-64,"},
        {"offload-threads 5-5", 5, 5, "offload threads in each worker changed from 1-64 to 5,"}};
    char line[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        snprintf(line, sizeof(line), "offload-threads %s", wrong[i]);
        expect_error(line, "invalid number of offload threads");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        start(good[i].line);
        assert_int_equal(scene.config.workers_offload_threads.min, good[i].min);
        assert_int_equal(scene.config.workers_offload_threads.max, good[i].max);
        expect_log(good[i].log);
        assert_string_equal(scene.called, "offload 0");
    }
}

static void offload_threads_are_in_force_within_the_range(void **state)
{
    static const struct {
        uint32_t actual;
        bool in_force;
    } cases[] = {{1, false}, {2, true}, {4, true}, {5, false}};
    struct control_reply result;

    (void)state;
    let_two_serve();
    atomic_store(&block(0)->offload_actual, 3);
    atomic_store(&block(2)->offload_actual, 50);
    atomic_store(&block(WORKERS)->offload_actual, 50);
    result = start("offload-threads 2-4");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        atomic_store(&block(1)->offload_actual, cases[i].actual);
        assert_int_equal(in_force(&result), cases[i].in_force);
    }
    expect_json(report(&result), "{\"ok\":true,\"wanted\":\"2-4\",\"actual\":8}");
}

static void drain_leaves_one_worker(void **state)
{
    struct control_reply result;

    (void)state;
    let_two_serve();
    expect_error("drain 2", "no worker serves in slot 2");
    expect_error("drain 3", "no worker serves in slot 3");
    expect_error("drain x", "invalid worker number 'x'");
    result = start("drain 1");
    assert_string_equal(scene.called, "drain 1");
    assert_int_equal(scene.config.workers_processes, WORKERS - 1);
    expect_log("drain of worker slot 1, by uid 0 pid 4711");
    assert_int_equal(result.token, 1);
    scene.worker[1].state = WORKER_LEAVING;
    assert_false(in_force(&result));
    expect_error("drain 0", "it is the only worker");
    scene.worker[1].state = WORKER_NONE;
    assert_true(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"worker\":1,\"wanted\":2,\"actual\":1}");
    let_two_serve();
    scene.config.workers_processes = 1;
    expect_error("drain 0", "it is the only worker");
    scene.config.workers_processes = 2;
    start("drain 0");
    assert_int_equal(scene.config.workers_processes, 1);
}

static void restart_reports_how_many(void **state)
{
    struct control_reply result;

    (void)state;
    let_two_serve();
    result = start("restart 1");
    assert_string_equal(scene.called, "replace 1");
    expect_log("restart of worker slot 1, by uid 0 pid 4711");
    assert_int_equal(result.token, 1);
    result = start("restart all");
    assert_string_equal(scene.called, "replace all 0");
    expect_log("restart of all workers, by uid 0 pid 4711");
    assert_int_equal(result.token, WORKERS);
    expect_json(report(&result), "{\"ok\":true,\"restarted\":3,\"wanted\":3,\"actual\":2}");
    expect_error("restart 2", "no worker serves in slot 2");
}

static void post_mortem_lists_as_many_deaths_as_requested(void **state)
{
    char line[32];

    (void)state;
    scene.master.post_mortem.deaths = json_pack("[i, i, i]", 1, 2, 3);
    expect_json(reply_to("post-mortem"), "{\"ok\":true,\"deaths\":[1]}");
    expect_json(reply_to("post-mortem 2"), "{\"ok\":true,\"deaths\":[1,2]}");
    snprintf(line, sizeof(line), "post-mortem %d", POST_MORTEM_DEATHS);
    expect_done(line);
    snprintf(line, sizeof(line), "post-mortem %d", POST_MORTEM_DEATHS + 1);
    expect_error(line, "invalid number of deaths");
    expect_error("post-mortem 0", "invalid number of deaths");
    post_mortem_free(&scene.master.post_mortem);
}

/* --- Limits of clients --- */

static void limit_of_a_client_is_replaced_and_removed(void **state)
{
    (void)state;
    expect_done("limit-client 192.0.2.7 block");
    expect_log("limit of client 192.0.2.7 changed from none to blocked for 10m, by uid 0");
    expect_done("limit-client 192.0.2.7 5 1s");
    expect_log("limit of client 192.0.2.7 changed from blocked to 5 requests per second for 1s,");
    expect_done("limit-client 192.0.2.7 5 720h");
    expect_error("limit-client 192.0.2.7 off 1s", "'off' takes no time");
    expect_done("limit-client 192.0.2.7 off");
    expect_log("limit of client 192.0.2.7 changed from 5 requests per second to none,");
    expect_error("limit-client 192.0.2.7 off", "192.0.2.7 has no limit");
}

static void limit_or_time_out_of_range_is_rejected(void **state)
{
    static const char *const wrong[] = {"0s", "999ms", "720h1s", "43201m", "2592001s", "x"};
    char line[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        snprintf(line, sizeof(line), "limit-client ::1 5 %s", wrong[i]);
        expect_error(line, "invalid time");
    }
    expect_done("limit-client ::1 1 1000ms");
    expect_done("limit-client ::1 1 2592000s");
    expect_done("limit-client ::1 1000000");
    expect_error("limit-client ::1 1000001", "invalid limit '1000001' (valid: 1-1000000 requests");
    expect_error("limit-client ::1 0", "invalid limit '0'");
    expect_error("limit-client ::1", "say how to limit ::1");
    scene.successor = 42;
    expect_error("limit-client ::1 5", "an upgrade is under way");
}

static void bare_ipv6_address_is_its_network(void **state)
{
    static const char *const cases[][2] = {{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
                                           {"2001:db8:1:2:3:4:5:6/128", "2001:db8:1:2:3:4:5:6"},
                                           {"192.0.2.7", "192.0.2.7"},
                                           {"10.0.0.0/8", "10.0.0.0/8"}};
    char line[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        snprintf(line, sizeof(line), "limit-client %s block", cases[i][0]);
        expect_done(line);
        snprintf(line, sizeof(line), "limit of client %s changed from none to", cases[i][1]);
        expect_log(line);
    }
}

/* It is removed within a second. */
static void ended_limit_has_no_time_left(void **state)
{
    struct address_limit limit = {.until_ns = 1, .requests_per_second = 5};

    (void)state;
    assert_int_equal(network_parse("192.0.2.7", &limit.network), NETWORK_GOOD);
    assert_int_equal(address_limits_set(&scene.master.server.segment, &limit), 0);
    expect_json(reply_to("limit-client"),
                "{\"ok\":true,\"most\":64,\"limits\":[{\"client\":\"192.0.2.7\",\"blocked\":false,"
                "\"requests_per_second\":5,\"remaining_s\":0,\"rejected\":0}]}");
}

/* --- Configuration, logs and caches --- */

static void rate_limit_is_set_in_parts(void **state)
{
    (void)state;
    scene.config.ratelimit_requests_per_second = 10;
    scene.config.ratelimit_burst = 20;
    expect_done("ratelimit on");
    assert_true(scene.config.ratelimit_enabled);
    expect_log("rate limit changed from off, 10 requests per second, burst 20 to on, 10 requests");
    expect_done("ratelimit off");
    assert_false(scene.config.ratelimit_enabled);
    expect_done("ratelimit 1");
    assert_true(scene.config.ratelimit_enabled);
    assert_int_equal(scene.config.ratelimit_requests_per_second, 1);
    assert_int_equal(scene.config.ratelimit_burst, 20);
    expect_done("ratelimit 3 1");
    assert_int_equal(scene.config.ratelimit_burst, 1);
    expect_done("ratelimit 1000000 1000000");
    expect_error("ratelimit 1000001", "invalid requests_per_second '1000001' (valid: 1-1000000)");
    expect_error("ratelimit 5 1000001", "invalid burst '1000001' (valid: 1-1000000)");
    expect_done("ratelimit 3 1");
    expect_error("ratelimit 0", "invalid requests_per_second '0'");
    expect_error("ratelimit 5 0", "invalid burst '0'");
    expect_error("ratelimit on 5", "invalid requests_per_second 'on'");
    assert_int_equal(scene.config.ratelimit_requests_per_second, 3);
}

static size_t count_of_keys(const char *line)
{
    json_t *reply = reply_to(line);
    size_t count = json_array_size(json_object_get(reply, "keys"));

    json_decref(reply);
    return count;
}

static void config_selects_section_or_key(void **state)
{
    (void)state;
    assert_int_equal(count_of_keys("config ratelimit.burst"), 1);
    assert_in_range(count_of_keys("config ratelimit"), 2, KEY_COUNT - 1);
    expect_error("config ratelimits", "unknown section or key 'ratelimits'");
    expect_error("config ratelimitxburst", "did you mean 'ratelimit.burst'?");
    expect_error("config ratelimit.", "unknown section or key 'ratelimit.'");
    expect_error("config zzzzzzzzzzzzzzzzzzzz", "unknown section or key 'zzzzzzzzzzzzzzzzzzzz'");
}

static void reopen_logs_is_in_force_when_the_logger_reports_it(void **state)
{
    struct segment_logger *logger = segment_logger(&scene.master.server.segment);
    struct control_reply result = start("reopen-logs");

    (void)state;
    assert_int_equal(result.token, LOGS_NUMBER);
    atomic_store(&logger->logs_done, LOGS_NUMBER - 1);
    assert_false(in_force(&result));
    atomic_store(&logger->logs_done, LOGS_NUMBER);
    assert_true(in_force(&result));
    atomic_store(&logger->logs_done, LOGS_NUMBER + 1);
    assert_true(in_force(&result));
}

static void cache_size_in_force_is_the_smallest(void **state)
{
    static const uint64_t limits[WORKERS] = {3000, 2000, 1000}, used[WORKERS] = {5, 6, 7};

    (void)state;
    scene.config.cache_size = 4000;
    expect_json(reply_to("cache-size"), "{\"ok\":true,\"wanted\":4000,\"actual\":0,\"used\":0}");
    let_two_serve();
    for (uint32_t i = 0; i < WORKERS; i++) {
        metric_add(block(i)->metrics, METRIC_cache_limit, limits[i]);
        metric_add(block(i)->metrics, METRIC_cache_bytes, used[i]);
    }
    expect_json(reply_to("cache-size"), "{\"ok\":true,\"wanted\":4000,\"actual\":2000,\"used\":7}");
}

/* Without workers a broadcast is done at once. */
static void cache_changes_are_broadcast(void **state)
{
    static const struct {
        const char *line, *log, *report;
    } cases[] = {
        {"cache-size 1M", "cache size changed from 2M to 1M, by uid 0 pid 4711",
         "{\"ok\":true,\"wanted\":1048576,\"actual\":0,\"used\":0}"},
        {"cache-policy lru", "cache policy changed from sieve to lru, by uid 0 pid 4711",
         "{\"ok\":true,\"wanted\":\"lru\",\"actual\":\"lru\"}"},
        {"cache-flush", "cache flushed, by uid 0 pid 4711", "{\"ok\":true,\"dropped\":0}"},
        {"cache-purge /x", "cache purged: /x, by uid 0 pid 4711", "{\"ok\":true,\"dropped\":0}"},
    };

    (void)state;
    scene.config.cache_size = 2 * 1024 * 1024;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct control_reply result = start(cases[i].line);

        expect_log(cases[i].log);
        assert_int_equal(result.token, i + 1);
        assert_true(in_force(&result));
        expect_json(report(&result), cases[i].report);
    }
    expect_error("cache-size much", "'much' is not a size");
    expect_error("cache-policy fifo", "invalid cache policy 'fifo'");
    expect_error("cache-purge x", "invalid path 'x'");
    assert_int_equal(scene.master.workers.broadcasts, ARRAY_LENGTH(cases));
    assert_int_equal(scene.config.cache_size, 1024 * 1024);
}

static void cache_that_is_off_has_no_commands(void **state)
{
    static const char *const lines[] = {"cache-flush",   "cache-purge /", "cache-size",
                                        "cache-size 1M", "cache-policy",  "cache-policy lru"};

    (void)state;
    scene.config.cache_enabled = false;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        expect_error(lines[i], "the cache is off");
    assert_int_equal(scene.master.workers.broadcasts, 0);
}

/* --- Certificates --- */

static char *names[] = {"first.example", "second.example"};

static void manage_two_names(void)
{
    scene.config.acme_enabled = true;
    scene.config.acme_names = (struct config_names){names, ARRAY_LENGTH(names)};
}

static void acme_has_two_forms(void **state)
{
    (void)state;
    expect_error("acme renewal x", "invalid argument 'renewal'; usage: acme renew HOST");
    expect_error("acme renew", "wrong number of arguments");
    expect_error("acme rollover x", "wrong number of arguments");
    expect_error("acme renew x", "acme.enabled is off");
    expect_error("acme rollover", "acme.enabled is off");
    manage_two_names();
    expect_error("acme renew x", "for 'x' (valid: first.example, second.example)");
    expect_error("acme renew FIRST.example", "not now");
    expect_error("acme rollover", "the ACME process does not run");
}

static void long_list_of_names_is_cut(void **state)
{
    static char *many[50];

    (void)state;
    manage_two_names();
    for (size_t i = 0; i < ARRAY_LENGTH(many); i++)
        many[i] = names[0];
    scene.config.acme_names = (struct config_names){many, ARRAY_LENGTH(many)};
    expect_error("acme renew x", "first.example, first.exa...)");
}

static void list_of_names_is_cut_from_400_bytes_on(void **state)
{
    static char fits[] = "a.example", cut[] = "ab.example", *many[27];

    (void)state;
    manage_two_names();
    for (size_t i = 0; i < ARRAY_LENGTH(many) - 1; i++)
        many[i] = names[0];
    scene.config.acme_names = (struct config_names){many, ARRAY_LENGTH(many)};
    many[ARRAY_LENGTH(many) - 1] = fits;
    expect_error("acme renew x", "first.example, a.example)");
    many[ARRAY_LENGTH(many) - 1] = cut;
    expect_error("acme renew x", "first.example, ab.exampl...)");
}

static void renewal_is_awaited_for_45_seconds(void **state)
{
    static struct acme_plan plans[ARRAY_LENGTH(names)];
    struct acme_plan *plan = &plans[1];
    struct control_reply result;

    (void)state;
    manage_two_names();
    scene.master.certificates.process.plan = plans;
    result = start("acme renew second.example");
    expect_log("second.example: new certificate requested, by uid 0 pid 4711");
    plan->next_s = 86400;
    snprintf(plan->error, sizeof(plan->error), "no answer");
    scene.renewal = RENEWAL_PENDING;
    scene.since_ns = clock_monotonic_ns();
    assert_false(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"host\":\"second.example\",\"obtained\":false,"
                                 "\"next_attempt\":86400}");
    scene.since_ns = clock_monotonic_ns() - 46 * NS_PER_S;
    assert_true(in_force(&result));
    scene.since_ns = clock_monotonic_ns();
    scene.renewal = RENEWAL_OBTAINED;
    assert_true(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"host\":\"second.example\",\"obtained\":true,"
                                 "\"next_attempt\":86400}");
    scene.renewal = RENEWAL_FAILED;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "no certificate: no answer; next attempt: 1970-01-02");
    scene.renewal = RENEWAL_ABANDONED;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the ACME process has ended before the certificate came");
}

static void key_change_is_awaited_for_45_seconds(void **state)
{
    struct acme_process *process = &scene.master.certificates.process;
    struct acme_key_change *change = &process->key_change;
    struct control_reply result;

    (void)state;
    manage_two_names();
    scene.key_change = 3;
    result = start("acme rollover");
    expect_log("another key of the ACME account requested, by uid 0 pid 4711");
    assert_true(in_force(&result)); /* no process has it */
    expect_error_in(report(&result), "the ACME process has ended before the key was replaced");
    process->child.pid = 1;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the ACME process has ended before the key was replaced");
    change->number = 3;
    change->ended = 2;
    snprintf(change->error, sizeof(change->error), "of the one before");
    change->since_ns = clock_monotonic_ns();
    assert_false(in_force(&result));
    expect_json(report(&result), "{\"ok\":true,\"key_replaced\":false}");
    change->since_ns = clock_monotonic_ns() - 46 * NS_PER_S;
    assert_true(in_force(&result));
    change->since_ns = clock_monotonic_ns();
    change->ended = 3;
    assert_true(in_force(&result));
    expect_error_in(report(&result), "the key of the account is not replaced: of the one before");
    change->error[0] = '\0';
    expect_json(report(&result), "{\"ok\":true,\"key_replaced\":true}");
    process->child.pid = 0;
    assert_true(in_force(&result));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(only_commands_that_run_are_counted),
        TEST(stopping_server_rejects_changes),
        TEST(members_of_the_group_change_nothing),
        TEST(stop_now_stops_twice),
        TEST(connections_are_those_of_serving_threads),
        TEST(numbers_of_workers_and_threads_have_limits),
        TEST(stop_ends_the_wait_for_workers),
        TEST(numbers_are_in_force_when_no_worker_changes),
        TEST(changed_key_has_the_command_as_its_origin),
        TEST(range_of_offload_threads_has_limits),
        TEST(offload_threads_are_in_force_within_the_range),
        TEST(drain_leaves_one_worker),
        TEST(restart_reports_how_many),
        TEST(post_mortem_lists_as_many_deaths_as_requested),
        TEST(limit_of_a_client_is_replaced_and_removed),
        TEST(limit_or_time_out_of_range_is_rejected),
        TEST(bare_ipv6_address_is_its_network),
        TEST(ended_limit_has_no_time_left),
        TEST(rate_limit_is_set_in_parts),
        TEST(config_selects_section_or_key),
        TEST(reopen_logs_is_in_force_when_the_logger_reports_it),
        TEST(cache_size_in_force_is_the_smallest),
        TEST(cache_changes_are_broadcast),
        TEST(cache_that_is_off_has_no_commands),
        TEST(acme_has_two_forms),
        TEST(long_list_of_names_is_cut),
        TEST(list_of_names_is_cut_from_400_bytes_on),
        TEST(renewal_is_awaited_for_45_seconds),
        TEST(key_change_is_awaited_for_45_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
