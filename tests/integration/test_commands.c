/*
 * Commands that change a running server. Each change is in force when the reply arrives, and
 * clients see no side effect.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "tests/test.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static json_int_t number_of(const struct server *server, const char *command, const char *key)
{
    json_t *reply = server_control(server, "%s", command);
    const json_t *value = json_object_get(reply, key);
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value))
        fail_msg("the reply to '%s' has no number '%s'", command, key);
    json_decref(reply);
    return number;
}

static void expect_body(const struct server *server, const char *target, const char *body)
{
    struct http_response response;

    http_get(server_port(server), target, 200, &response);
    assert_string_equal(response.body, body);
    http_response_free(&response);
}

static int status_of(const struct server *server, const char *target)
{
    struct http_response response;
    char request[64];
    int status;

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    http_request(server_port(server), request, &response);
    status = response.status;
    http_response_free(&response);
    return status;
}

/* The text KEY of configuration entry NAME. The caller must free it. */
static char *config_text(const struct server *server, const char *name, const char *key)
{
    json_t *reply = server_control(server, "config %s", name);
    const json_t *entry = json_array_get(json_object_get(reply, "keys"), 0);
    const char *text = json_string_value(json_object_get(entry, key));
    char *copy;

    if (text == NULL)
        fail_msg("'config %s' has no '%s'", name, key);
    copy = strdup(text);
    json_decref(reply);
    return copy;
}

static void expect_config(const struct server *server, const char *name, const char *key,
                          const char *words)
{
    char *text = config_text(server, name, key);

    if (strstr(text, words) == NULL)
        fail_msg("%s: %s is '%s', not '%s'", name, key, text, words);
    free(text);
}

/* --- The caches --- */

/* With a long revalidate time, a changed file becomes visible only by a command. */
#define LONG_LIVED "cache.revalidate=1h"

SERVER_TEST(cache_flush_empties_every_cache)
{
    server_put_text(server, "/a", "one");
    server_start(server, LONG_LIVED, "workers.processes=3", NULL);
    for (int i = 0; i < 50; i++)
        expect_body(server, "/a", "one");
    server_put_text(server, "/a", "two");
    assert_true(number_of(server, "cache-flush", "dropped") >= 1);
    for (int i = 0; i < 50; i++)
        expect_body(server, "/a", "two");
    assert_true(server_metric(server, "cache_purged") >= 1);
    server_stop(server);
}

SERVER_TEST(cache_purge_removes_one_path_or_a_prefix)
{
    static const struct {
        const char *purge;
        const char *a, *b, *other; /* bodies after the purge */
    } cases[] = {{"/dir/a", "new", "old", "old"}, {"/dir/", "new", "new", "old"},
                 {"/di*", "new", "new", "old"},   {"/dir/a*", "new", "old", "old"},
                 {"/dir", "old", "old", "old"},   {"/", "new", "new", "new"}};
    static const char *const paths[] = {"/dir/a", "/dir/b", "/other"};

    server_put_text(server, "/dir/a", "old");
    server_start(server, LONG_LIVED, "workers.processes=1", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++)
            server_put_text(server, paths[p], "old");
        server_do(server, "cache-flush");
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++) {
            expect_body(server, paths[p], "old");
            server_put_text(server, paths[p], "new");
        }
        server_do(server, "cache-purge %s", cases[i].purge);
        expect_body(server, "/dir/a", cases[i].a);
        expect_body(server, "/dir/b", cases[i].b);
        expect_body(server, "/other", cases[i].other);
    }
    server_stop(server);
}

SERVER_TEST(cache_size_shrinks_and_grows_caches)
{
    enum { FILES = 60, BYTES = 20 * 1024 };
    char *bytes = calloc(1, BYTES), path[16];

    assert_non_null(bytes);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        server_put(server, path, bytes, BYTES);
    }
    free(bytes);
    server_start(server, LONG_LIVED, "workers.processes=1", NULL);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        http_expect(server_port(server), path, 200);
    }
    WAIT_UNTIL(number_of(server, "cache-size", "used") >= FILES * BYTES);
    assert_int_equal(number_of(server, "cache-size 256K", "actual"), 256 * 1024);
    WAIT_UNTIL(number_of(server, "cache-size", "used") <= 256 * 1024);
    assert_int_equal(number_of(server, "cache-size 1G", "actual"), 1024 * 1024 * 1024);
    expect_config(server, "cache.size", "value", "1G");
    expect_config(server, "cache.size", "origin", "command, by uid");
    server_do(server, "workers 2"); /* the cache of a later worker has this size too */
    assert_int_equal(number_of(server, "cache-size", "actual"), 1024 * 1024 * 1024);
    server_stop(server);
}

SERVER_TEST(cache_policy_changes_under_load)
{
    struct load *load;
    struct load_result result;

    server_put_text(server, "/a", "a");
    server_start(server, "cache.revalidate=0", NULL);
    load = load_start(&(struct load_plan){
        .port = server_port(server), .clients = 4, .target = "/a", .body = "a", .body_length = 1});
    for (int i = 0; i < 20; i++) {
        load_pass(load, LOAD_STEP / 10);
        server_do(server, i % 2 == 0 ? "cache-policy lru" : "cache-policy sieve");
        server_do(server, i % 3 == 0 ? "cache-flush" : "cache-purge /");
        server_do(server, "cache-size %d", 65536 + i);
    }
    result = load_finish(load);
    load_check(&result);
    expect_config(server, "cache.policy", "value", "sieve");
    server_stop(server);
}

SERVER_TEST(cache_commands_fail_if_cache_is_off)
{
    static const char *const lines[] = {"cache-flush", "cache-purge /", "cache-size",
                                        "cache-policy lru"};

    server_start(server, "cache.enabled=off", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        server_rejects(server, lines[i], "the cache is off");
    server_stop(server);
}

/* --- Configuration and logs --- */

SERVER_TEST(config_shows_the_source_of_each_value)
{
    json_t *all;

    server_start(server, "connections.backlog=77", NULL);
    all = server_control(server, "config");
    assert_true(json_array_size(json_object_get(all, "keys")) > 20);
    json_decref(all);
    expect_config(server, "connections.backlog", "value", "77");
    expect_config(server, "connections.backlog", "default", "4096");
    expect_config(server, "connections.backlog", "origin", "-o ");
    expect_config(server, "connections.backlog", "change", "reload");
    expect_config(server, "limits.request_line", "origin", "default");
    expect_config(server, "server.name", "change", "fixed");
    expect_config(server, "workers.threads", "change", "live");
    expect_config(server, "workers.threads", "command", "threads");
    server_do(server, "threads 3");
    expect_config(server, "workers.threads", "value", "3");
    expect_config(server, "workers.threads", "origin", "command, by uid");
    server_stop(server);
}

SERVER_TEST(ratelimit_takes_effect_at_once)
{
    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    for (int i = 0; i < 10; i++)
        http_expect(server_port(server), "/a", 200);
    assert_int_equal(number_of(server, "ratelimit 1 2", "burst"), 2);
    for (int i = 0; i < 2; i++)
        http_expect(server_port(server), "/a", 200);
    WAIT_UNTIL(status_of(server, "/a") == 429); /* one more passes in each second */
    server_do(server, "ratelimit off");
    for (int i = 0; i < 10; i++)
        http_expect(server_port(server), "/a", 200);
    server_rejects(server, "ratelimit 0", "invalid requests_per_second '0'");
    server_rejects(server, "ratelimit 5 many", "invalid burst 'many'");
    expect_config(server, "ratelimit.burst", "value", "2");
    server_stop(server);
}

/* Each response has a complete line in one of the two files. */
SERVER_TEST(reopen_logs_loses_no_line)
{
    enum { ROUNDS = 5 };
    char old[ROUNDS][SCRATCH_PATH_MAX + 8];
    struct load_result result;
    struct load *load;
    uint64_t lines = 0;

    server_put_text(server, "/a", "a");
    server_start(server, NULL);
    load = load_start(&(struct load_plan){
        .port = server_port(server), .clients = 4, .target = "/a", .body = "a", .body_length = 1});
    for (int i = 0; i < ROUNDS; i++) {
        load_pass(load, LOAD_STEP / 5);
        snprintf(old[i], sizeof(old[i]), "%s.%d", server_log(server), i);
        assert_int_equal(rename(server_log(server), old[i]), 0);
        if (i % 2 == 0)
            server_do(server, "reopen-logs");
        else
            server_signal(server_pid(server), SIGUSR1);
        WAIT_UNTIL(access(server_log(server), F_OK) == 0);
    }
    load_pass(load, LOAD_STEP / 5);
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
    lines = log_count_lines(server);
    for (int i = 0; i < ROUNDS; i++) {
        size_t length;
        char *text = scratch_read(old[i], &length);

        for (size_t at = 0; at < length; at++)
            lines += text[at] == '\n';
        assert_true(length == 0 || text[length - 1] == '\n');
        free(text);
    }
    assert_int_equal(lines, result.responses);
}

/* The directory of the access log is moved away and comes back. */
SERVER_TEST(logs_that_cannot_be_reopened_stay_in_use)
{
    char directory[SCRATCH_PATH_MAX], away[SCRATCH_PATH_MAX + 8], option[SCRATCH_PATH_MAX + 32];

    snprintf(directory, sizeof(directory), "%s/logs", server_directory(server));
    snprintf(away, sizeof(away), "%s.away", directory);
    snprintf(option, sizeof(option), "log.access=%s/access.log", directory);
    assert_int_equal(mkdir(directory, 0755), 0);
    server_put_text(server, "/a", "a");
    server_start(server, option, NULL);
    assert_int_equal(rename(directory, away), 0);
    server_rejects(server, "reopen-logs", "/access.log: No such file or directory");
    server_signal(server_pid(server), SIGUSR1);
    WAIT_UNTIL(server_has_printed(server, "logs not reopened: cannot open the access log"));
    http_expect(server_port(server), "/a", 200);
    server_expect_metric(server, "log_lines", 1); /* in the old file */
    assert_int_equal(rename(away, directory), 0);
    server_do(server, "reopen-logs");
    server_stop(server);
}

SERVER_TEST(changes_are_events_with_the_uid)
{
    static const struct {
        const char *line, *words;
    } cases[] = {{"threads 3", "serving threads per worker changed from 2 to 3, by uid "},
                 {"cache-flush", "cache flushed, by uid "},
                 {"cache-purge /x", "cache purged: /x, by uid "},
                 {"cache-size 1M", "cache size changed from 64M to 1M, by uid "},
                 {"log-level debug", "log level changed from info to debug, by uid "},
                 {"reopen-logs", "logs reopened, by uid "},
                 {"restart 0", "restart of worker 0, by uid "}};
    char pid[32];

    server_start(server, NULL);
    snprintf(pid, sizeof(pid), "pid %d", getpid());
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *printed;

        server_do(server, "%s", cases[i].line);
        printed = server_output(server);
        for (;;) { /* the logger writes it shortly after */
            const char *at = strstr(printed, cases[i].words);

            if (at != NULL && strstr(at, pid) != NULL)
                break;
            free(printed);
            usleep(ASK_AGAIN_MS * 1000);
            printed = server_output(server);
        }
        free(printed);
    }
    server_stop(server);
}

/* --- Workers --- */

static bool has_pid(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static void check_renewed(const struct server *server, const pid_t *before, size_t count,
                          size_t renewed)
{
    pid_t after[16];
    size_t now = server_workers(server, after, 16), kept = 0;

    assert_int_equal(now, count);
    for (size_t i = 0; i < now; i++)
        kept += has_pid(before, count, after[i]);
    assert_int_equal(kept, count - renewed);
}

/* OPTION sets the dispatch mode, ROOM the maximum of workers. */
static void restart_all_under_load(struct server *server, const char *option, const char *room)
{
    enum { WORKERS = 3 };
    struct load_result result;
    struct load *load;
    pid_t before[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=3", option, room, NULL);
    load = load_start(&(struct load_plan){
        .port = server_port(server), .clients = 6, .target = "/a", .body = "a", .body_length = 1});
    for (int i = 0; i < 3; i++) {
        load_pass(load, LOAD_STEP / 5);
        assert_int_equal(server_workers(server, before, 16), WORKERS);
        server_do(server, "restart all");
        check_renewed(server, before, WORKERS, WORKERS);
    }
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
}

SERVER_TEST(restart_all_under_load_loses_no_request)
{
    restart_all_under_load(server, "workers.dispatch=kernel", "workers.max_processes=16");
    restart_all_under_load(server, "workers.dispatch=master", "workers.max_processes=16");
}

SERVER_TEST(restart_all_without_spare_slots_loses_no_request)
{
    restart_all_under_load(server, "workers.dispatch=kernel", "workers.max_processes=3");
    restart_all_under_load(server, "workers.dispatch=master", "workers.max_processes=3");
}

/* The worker is stopped, and the watchdog leaves it alone. */
SERVER_TEST(command_that_a_worker_ignores_gets_an_error)
{
    pid_t worker;

    server_start(server, "workers.processes=1", "workers.heartbeat_timeout=1h",
                 "workers.drain_timeout=0", NULL);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    server_signal(worker, SIGSTOP);
    server_rejects(server, "threads 3", "a worker does not respond");
    server_do(server, "ping");
    server_signal(worker, SIGCONT);
    server_do(server, "threads 2");
    server_stop(server);
}

SERVER_TEST(restart_replaces_one_worker)
{
    pid_t before[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=3", NULL);
    assert_int_equal(server_workers(server, before, 16), 3);
    server_do(server, "restart 1");
    check_renewed(server, before, 3, 1);
    http_expect(server_port(server), "/a", 200);
    server_rejects(server, "restart 15", "worker 15 does not serve");
    server_rejects(server, "restart some", "invalid worker number");
    server_stop(server);
}

SERVER_TEST(drain_under_load_loses_no_request)
{
    struct load_result result;
    struct load *load;
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=3", NULL);
    load = load_start(&(struct load_plan){
        .port = server_port(server), .clients = 6, .target = "/a", .body = "a", .body_length = 1});
    load_pass(load, LOAD_STEP / 5);
    server_do(server, "drain 0");
    WAIT_UNTIL(server_workers(server, pids, 16) == 2);
    server_rejects(server, "drain 0", "worker 0 does not serve");
    load_pass(load, LOAD_STEP / 5);
    server_do(server, "drain 2");
    server_rejects(server, "drain 1", "it is the only worker");
    load_pass(load, LOAD_STEP / 5);
    server_do(server, "workers 3");
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
}

SERVER_TEST(stop_now_does_not_wait_for_requests)
{
    struct http_client client;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.drain_timeout=1h", NULL);
    http_open(&client, server_port(server));
    http_send(&client, "GET /a HTTP/1.1\r\nHost:"); /* in progress: a graceful stop would wait */
    server_expect_metric(server, "connections_open", 1);
    server_rejects(server, "stop soon", "usage: stop [now]");
    server_do(server, "stop now");
    server_stopped(server);
    http_close(&client);
}

/* --- Permissions --- */

/*
 * Runs LINE in a child as user and group 65534. Returns 0 rejected, 1 done, 2 not permitted to
 * connect.
 */
static int as_nobody(const struct server *server, const char *line)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct control_client client;
        const char *reply = "";
        char why[256];

        if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0 ||
            control_connect(&client, server_socket(server), why, sizeof(why)) != CONTROL_PENDING)
            _exit(2);
        control_send(&client, line, why, sizeof(why));
        control_receive(&client, PATIENCE_S * 1000, &reply, why, sizeof(why));
        _exit(strstr(reply, "\"ok\":true") != NULL ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

SERVER_TEST(control_group_can_read_but_not_change)
{
    static const char *const looking[] = {"ping", "status", "threads", "config", "cache-size"};
    static const char *const touching[] = {"threads 3", "stop", "cache-flush", "log-level debug"};
    char directory[SCRATCH_PATH_MAX];

    if (geteuid() != 0)
        skip();
    server_start(server, NULL);
    assert_int_equal(as_nobody(server, "ping"), 2);
    server_stop(server);
    server_start(server, "control.group=65534", NULL);
    snprintf(directory, sizeof(directory), "%s", server_directory(server));
    assert_int_equal(chmod(directory, 0755), 0); /* directories on the path to the socket */
    for (size_t i = 0; i < ARRAY_LENGTH(looking); i++)
        assert_int_equal(as_nobody(server, looking[i]), 1);
    for (size_t i = 0; i < ARRAY_LENGTH(touching); i++)
        assert_int_equal(as_nobody(server, touching[i]), 0);
    server_do(server, "threads 3");
    server_stop(server);
}
