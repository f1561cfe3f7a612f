/*
 * Processes that die, hang or crash in a loop: the master replaces them, reports what they were
 * doing, and loses nothing that was waiting for them.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static bool serves(const struct server *server, pid_t pid)
{
    pid_t pids[16];
    size_t count = server_workers(server, pids, 16);

    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool has_printed(const struct server *server, const char *words)
{
    char *printed = server_output(server);
    bool yes = strstr(printed, words) != NULL;

    free(printed);
    return yes;
}

static size_t worker_count(const struct server *server)
{
    pid_t pids[16];

    return server_workers(server, pids, 16);
}

/* --- Hangs --- */

static void hung_worker_is_killed_and_replaced(void **state)
{
    struct server *server = *state;
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=3s", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    server_signal(pids[0], SIGSTOP);
    WAIT_UNTIL(!serves(server, pids[0]) && worker_count(server) == 2);
    assert_true(serves(server, pids[1]));
    WAIT_UNTIL(has_printed(server, "has had no heartbeat for"));
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

/* Thread id of one serving thread of a process. */
static pid_t serving_thread(pid_t pid)
{
    char path[64], name[32] = "";
    struct dirent *entry;
    pid_t found = 0;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    assert_non_null(tasks);
    while (found == 0 && (entry = readdir(tasks)) != NULL) {
        FILE *comm;

        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", pid, entry->d_name);
        comm = fopen(path, "r");
        if (comm == NULL)
            continue;
        if (fgets(name, sizeof(name), comm) != NULL && strcmp(name, "serving\n") == 0)
            found = atoi(entry->d_name);
        fclose(comm);
    }
    closedir(tasks);
    assert_true(found > 0);
    return found;
}

/* Its other threads and the main thread keep running. */
static void worker_with_hung_thread_is_killed_and_replaced(void **state)
{
    struct server *server = *state;
    pid_t pids[16], thread;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=3s", "workers.threads=4", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    thread = serving_thread(pids[0]);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        skip(); /* if the test itself is sandboxed */
    assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    WAIT_UNTIL(has_printed(server, "has had no heartbeat for"));
    assert_int_equal(waitpid(thread, NULL, __WALL), thread);
    waitpid(thread, NULL, __WALL); /* its exit, which the tracer must wait for */
    WAIT_UNTIL(!serves(server, pids[0]) && worker_count(server) == 2);
    assert_true(serves(server, pids[1]));
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

static void worker_that_does_not_exit_is_killed(void **state)
{
    struct server *server = *state;
    pid_t pids[16];

    server_start(server, "workers.heartbeat_timeout=0", "workers.drain_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    server_signal(pids[0], SIGSTOP);
    server_do(server, "restart all"); /* the reply follows when the worker has exited */
    assert_false(serves(server, pids[0]));
    WAIT_UNTIL(has_printed(server, "has been leaving for"));
    server_stop(server);
}

static void hung_logger_is_replaced_without_losing_lines(void **state)
{
    enum { REQUESTS = 50 };
    struct server *server = *state;
    pid_t before;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=3s", NULL);
    before = server_logger(server);
    server_signal(before, SIGSTOP);
    for (int i = 0; i < REQUESTS; i++)
        http_expect(server_port(server), "/a", 200);
    WAIT_UNTIL(server_logger(server) != before && server_logger(server) != 0);
    free(log_with_lines(server, REQUESTS));
    server_stop(server);
    assert_int_equal(log_count_lines(server), REQUESTS);
}

/* --- Crashes --- */

static void crash_loop_is_delayed_and_reported(void **state)
{
    struct server *server = *state;
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=1", NULL);
    while (!has_printed(server, "consecutive failures): starting another in "))
        if (server_workers(server, pids, 16) != 1 || kill(pids[0], SIGKILL) != 0)
            usleep(ASK_AGAIN_MS * 1000);
    WAIT_UNTIL(worker_count(server) == 1);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

/* Connections in the socketpair of a worker that never reads them go to other workers. */
static void connections_unseen_by_dead_worker_go_to_others(void **state)
{
    enum { CLIENTS = 20 };
    struct server *server = *state;
    struct http_client client[CLIENTS];
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.dispatch=master", "workers.heartbeat_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    server_signal(pids[0], SIGSTOP);
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    server_expect_metric(server, "connections_dispatched", CLIENTS);
    server_expect_metric(server, "connections_received", CLIENTS / 2);
    server_signal(pids[0], SIGKILL);
    for (int i = 0; i < CLIENTS; i++) {
        struct http_response response;

        http_receive(&client[i], HTTP_WITH_BODY, &response);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
        http_close(&client[i]);
    }
    server_stop(server);
}

/* --- Post-mortem --- */

static void post_mortem_has_last_requests(void **state)
{
    struct server *server = *state;
    json_t *response;
    const json_t *death, *thread;
    char *text;
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=1", NULL);
    response = server_control(server, "post-mortem");
    assert_int_equal(json_array_size(json_object_get(response, "deaths")), 0);
    json_decref(response);
    for (int i = 0; i < 40; i++)
        http_expect(server_port(server), i % 2 == 0 ? "/a" : "/missing", i % 2 == 0 ? 200 : 404);
    assert_int_equal(server_workers(server, pids, 16), 1);
    server_signal(pids[0], SIGKILL);
    WAIT_UNTIL(worker_count(server) == 1 && !serves(server, pids[0]));
    for (int i = 0; i < 20; i++) /* of the slot's next worker: the copy is unchanged */
        http_expect(server_port(server), "/other", 404);
    response = server_control(server, "post-mortem 8");
    assert_int_equal(json_array_size(json_object_get(response, "deaths")), 1);
    death = json_array_get(json_object_get(response, "deaths"), 0);
    assert_int_equal(json_integer_value(json_object_get(death, "pid")), pids[0]);
    assert_non_null(strstr(json_string_value(json_object_get(death, "how")), "signal 9"));
    assert_int_equal(json_array_size(json_object_get(death, "threads")), 2);
    thread = json_array_get(json_object_get(death, "threads"), 0);
    assert_true(json_array_size(json_object_get(thread, "last")) > 0);
    assert_true(json_array_size(json_object_get(thread, "last")) <= 10);
    text = json_dumps(response, 0);
    assert_non_null(strstr(text, "GET /a HTTP/1.1\\\" 200"));
    assert_non_null(strstr(text, "GET /missing HTTP/1.1\\\" 404"));
    assert_null(strstr(text, "/other"));
    free(text);
    json_decref(response);
    server_rejects(server, "post-mortem 0", "invalid number of deaths");
    server_stop(server);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, server_set_up, server_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hung_worker_is_killed_and_replaced),
        TEST(worker_with_hung_thread_is_killed_and_replaced),
        TEST(worker_that_does_not_exit_is_killed),
        TEST(hung_logger_is_replaced_without_losing_lines),
        TEST(crash_loop_is_delayed_and_reported),
        TEST(connections_unseen_by_dead_worker_go_to_others),
        TEST(post_mortem_has_last_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
