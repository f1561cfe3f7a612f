/*
 * Processes that die, hang or crash in a loop: the master replaces them, reports what they were
 * doing, and loses nothing that was waiting for them.
 */
#include "held_thread.h"
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
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

static size_t worker_count(const struct server *server)
{
    pid_t pids[16];

    return server_workers(server, pids, 16);
}

/* --- Failures of the event loop --- */

#ifndef TEST_SANITIZER /* whose library must be the first one */

SERVER_TEST(worker_with_failed_event_loop_is_replaced)
{
    static const char preload[] = "LD_PRELOAD=" FAILING_LOOP;
    static const char *const options[] = {"workers.processes=1", NULL};
    char path[SCRATCH_PATH_MAX + 16], setting[SCRATCH_PATH_MAX + 32];
    const char *const wrapper[] = {"env", LIBRARY_PATH, preload, setting, NULL};
    pid_t before;
    int fd;

    snprintf(path, sizeof(path), "%s/fail", server_directory(server));
    snprintf(setting, sizeof(setting), "FAILING_LOOP=%s", path);
    scratch_write(path, "0", 1);
    fd = open(path, O_WRONLY);
    server_put_text(server, "/a", "a");
    server_start_under(server, wrapper, options);
    assert_int_equal(server_workers(server, &before, 1), 1);
    assert_int_equal(pwrite(fd, "1", 1, 0), 1);
    WAIT_UNTIL(
        server_has_printed(server, "the event loop of a serving thread failed: the worker ends"));
    assert_int_equal(pwrite(fd, "0", 1, 0), 1);
    close(fd);
    WAIT_UNTIL(!serves(server, before) && worker_count(server) == 1);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

#endif

/* --- Hangs --- */

static bool had_no_heartbeat(const struct server *server, pid_t pid)
{
    char words[64];

    snprintf(words, sizeof(words), "(pid %d) has had no heartbeat for", (int)pid);
    return server_has_printed(server, words);
}

/* A worker that gets no processor time for so long is not told from a hung one. */
static void expect_only_hung_replaced(const struct server *server, pid_t hung, pid_t other)
{
    WAIT_UNTIL(!serves(server, hung) && worker_count(server) == 2);
    WAIT_UNTIL(had_no_heartbeat(server, hung));
    WAIT_UNTIL(serves(server, other) || had_no_heartbeat(server, other));
}

SERVER_TEST(hung_worker_is_killed_and_replaced)
{
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=3s", NULL);
    WAIT_UNTIL(server_workers(server, pids, 16) == 2);
    server_signal(pids[0], SIGSTOP);
    expect_only_hung_replaced(server, pids[0], pids[1]);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

/* Its other threads and the main thread keep running. */
SERVER_TEST(worker_with_hung_thread_is_killed_and_replaced)
{
    pid_t pids[16], thread;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=3s", "workers.threads=4", NULL);
    WAIT_UNTIL(server_workers(server, pids, 16) == 2);
    thread = held_thread_find(pids[0]);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        skip(); /* if the test itself is sandboxed */
    assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    WAIT_UNTIL(had_no_heartbeat(server, pids[0]));
    assert_int_equal(waitpid(thread, NULL, __WALL), thread);
    waitpid(thread, NULL, __WALL); /* its exit, which the tracer must wait for */
    expect_only_hung_replaced(server, pids[0], pids[1]);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

SERVER_TEST(worker_that_does_not_exit_is_killed)
{
    pid_t pids[16];

    server_start(server, "workers.heartbeat_timeout=0", "workers.drain_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    server_signal(pids[0], SIGSTOP);
    server_do(server, "restart all"); /* the reply follows when the worker has exited */
    assert_false(serves(server, pids[0]));
    WAIT_UNTIL(server_has_printed(server, "has been leaving for"));
    server_stop(server);
}

/* Standard error is not the error log here. */
SERVER_TEST(master_prints_the_death_of_the_logger)
{
    char option[512], death[64];
    pid_t logger;

    snprintf(option, sizeof(option), "log.error=%s/error.log", server_directory(server));
    server_start(server, option, NULL);
    logger = server_logger(server);
    server_signal(logger, SIGKILL);
    snprintf(death, sizeof(death), "the logger (pid %d) was killed by signal 9", (int)logger);
    WAIT_UNTIL(server_has_printed(server, death));
    assert_false(server_has_printed(server, "serves with")); /* that is no error */
    server_stop(server);
}

SERVER_TEST(hung_logger_is_replaced_without_losing_lines)
{
    enum { REQUESTS = 50 };
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

SERVER_TEST(crash_loop_is_delayed_and_reported)
{
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.processes=1", NULL);
    while (!server_has_printed(server, "consecutive failures): starting another in "))
        if (server_workers(server, pids, 16) != 1 || kill(pids[0], SIGKILL) != 0)
            usleep(ASK_AGAIN_MS * 1000);
    WAIT_UNTIL(worker_count(server) == 1);
    http_expect(server_port(server), "/a", 200);
    server_stop(server);
}

static bool thread_is_stopped(pid_t pid, const char *thread)
{
    char path[64], state = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, thread);
    file = fopen(path, "re");
    if (file == NULL)
        return true; /* it has ended */
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    fclose(file);
    return state == 'T';
}

/* A signal stops the threads of a process one after the other. */
static bool is_stopped(pid_t pid)
{
    char path[64];
    struct dirent *entry;
    bool stopped = true;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.' && !thread_is_stopped(pid, entry->d_name))
            stopped = false;
    closedir(tasks);
    return stopped;
}

/* Stopped workers accept nothing. */
SERVER_TEST(accept_queue_is_shown)
{
    enum { CLIENTS = 20 };
    struct http_client client[CLIENTS];
    pid_t pids[16];
    size_t workers;

    server_put_text(server, "/a", "a");
    server_start(server, "workers.heartbeat_timeout=0", NULL);
    workers = server_workers(server, pids, ARRAY_LENGTH(pids));
    for (size_t i = 0; i < workers; i++)
        server_signal(pids[i], SIGSTOP);
    for (size_t i = 0; i < workers; i++)
        WAIT_UNTIL(is_stopped(pids[i]));
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    server_expect_metric(server, "accept_queue", CLIENTS);
    assert_int_equal(server_metric(server, "connections_accepted"), 0);
    for (size_t i = 0; i < workers; i++)
        server_signal(pids[i], SIGCONT);
    server_expect_metric(server, "accept_queue", 0);
    server_expect_metric(server, "connections_accepted", CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        http_close(&client[i]);
    server_stop(server);
}

/* Connections in the socketpair of a worker that never reads them go to other workers. */
SERVER_TEST(connections_unseen_by_dead_worker_go_to_others)
{
    enum { CLIENTS = 20 };
    struct http_client client[CLIENTS];
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_start(server, "workers.dispatch=master", "workers.heartbeat_timeout=0", NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    server_signal(pids[0], SIGSTOP);
    WAIT_UNTIL(is_stopped(pids[0]));
    for (int i = 0; i < CLIENTS; i++) {
        http_open(&client[i], server_port(server));
        http_send(&client[i], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    server_expect_metric(server, "connections_dispatched", CLIENTS);
    server_expect_metric(server, "connections_received", CLIENTS / 2);
    server_signal(pids[0], SIGKILL);
    for (int i = 0; i < CLIENTS; i++) {
        http_expect_response(&client[i], 200, NULL);
        http_close(&client[i]);
    }
    server_stop(server);
}

/* --- Post-mortem --- */

SERVER_TEST(post_mortem_has_last_requests)
{
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
