/*
 * Starts and killed processes, mostly under load. No response that was begun is lost, and no file or
 * process left behind prevents the next start.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const struct test_fixture test_fixture = {server_set_up, server_tear_down};

enum { CLIENTS = 12, WORKERS = 2, THREADS = 2 /* of each kind */ };

static const char page[] = "<p>a page of the test</p>\n";

static const char *const dispatches[] = {"workers.dispatch=kernel", "workers.dispatch=master"};

static struct load_plan plan_for(const struct server *server)
{
    return (struct load_plan){.port = server_port(server),
                              .clients = CLIENTS,
                              .target = "/page.html",
                              .body = page,
                              .body_length = sizeof(page) - 1};
}

/* --- Killed workers --- */

/* Number of open connections of worker SLOT. */
static uint64_t connections_of(const struct segment_reader *reader, uint32_t slot)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_THREADS); i++) {
        const struct segment_thread_slot *tenant = segment_thread_slot(&reader->map, i);

        if (segment_thread_reserved(&reader->map, i) && atomic_load(&tenant->worker) == slot)
            count += segment_reader_metric(reader, segment_thread(&reader->map, i),
                                           METRIC_connections_open);
    }
    return count;
}

static pid_t pid_of(const struct segment_reader *reader, uint32_t slot)
{
    return atomic_load(&segment_worker_slot(&reader->map, slot)->pid);
}

/* Kills the worker in SLOT and waits until its replacement serves. */
static void replace_worker(const struct server *server, const struct segment_reader *reader,
                           uint32_t slot)
{
    uint64_t died = server_metric(server, "workers_died");
    pid_t before = pid_of(reader, slot), pids[8];

    server_signal(before, SIGKILL);
    server_expect_metric(server, "workers_died", died + 1);
    WAIT_UNTIL(server_workers(server, pids, 8) == WORKERS && pid_of(reader, slot) != before);
}

static void ask_for_page(struct http_client *client)
{
    struct http_response response;

    http_send(client, "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n");
    http_receive(client, HTTP_WITH_BODY, &response);
    assert_string_equal(response.body, page);
    http_response_free(&response);
}

SERVER_TEST(killed_worker_closes_only_its_connections)
{
    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct http_client client[CLIENTS];
        struct segment_reader reader;
        uint64_t doomed, open = 0;

        server_start(server, dispatches[i], NULL);
        server_attach(server, &reader);
        for (int n = 0; n < CLIENTS; n++) {
            http_open(&client[n], server_port(server));
            ask_for_page(&client[n]);
        }
        doomed = connections_of(&reader, 0);
        assert_int_equal(doomed + connections_of(&reader, 1), CLIENTS);
        replace_worker(server, &reader, 0);
        for (int n = 0; n < CLIENTS; n++) {
            open += http_is_open(&client[n]);
            if (http_is_open(&client[n]))
                ask_for_page(&client[n]);
            http_close(&client[n]);
        }
        assert_int_equal(open, CLIENTS - doomed);
        http_expect(server_port(server), "/page.html", 200);
        segment_detach(&reader);
        server_stop(server);
    }
}

/* True if every record published by live or killed threads is in the file. */
static bool rings_are_drained(const struct segment_reader *reader)
{
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_RINGS); i++) {
        const struct log_ring ring = segment_ring(&reader->map, i);

        if (segment_thread_reserved(&reader->map, i) &&
            atomic_load(&ring.cursor->position) != atomic_load(&ring.words->head))
            return false;
    }
    return true;
}

SERVER_TEST(workers_killed_under_load_are_replaced)
{
    enum { KILLS = 4 };

    server_put_text(server, "/page.html", page);
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct segment_reader reader;
        struct load_plan plan;
        struct load_result result;
        struct load *load;
        uint64_t doomed = 0, requests, lines, died_on_the_way;

        server_start(server, dispatches[i], NULL);
        server_attach(server, &reader);
        plan = plan_for(server);
        load = load_start(&plan);
        for (uint32_t kill = 0; kill < KILLS; kill++) {
            load_pass(load, LOAD_STEP);
            server_expect_metric(server, "connections_open", CLIENTS);
            server_freeze(pid_of(&reader, kill % 2)); /* so that its connections can be counted */
            doomed +=
                CLIENTS - connections_of(&reader, 1 - kill % 2); /* also those it gives away */
            replace_worker(server, &reader, kill % 2);
        }
        load_pass(load, LOAD_STEP);
        result = load_finish(load);
        assert_int_equal(result.wrong, 0);
        assert_int_equal(result.not_connected, 0);
        /* Some connections may have been on their way to the killed worker. */
        died_on_the_way = server_metric(server, "connections_dispatched") -
                          server_metric(server, "connections_received");
        assert_in_range(result.lost, 0, doomed + died_on_the_way);
        server_expect_metric(server, "connections_open", 0); /* their last requests are counted */
        WAIT_UNTIL(rings_are_drained(&reader));
        requests = server_metric(server, "requests");
        lines = log_count_lines(server);
        /* A thread may have died between publishing the record of a request and counting it, */
        assert_in_range(lines - requests, 0, KILLS * THREADS);
        /* or after it sent the responses of its connections */
        assert_in_range(lines, result.responses - doomed, result.responses + result.lost);
        segment_detach(&reader);
        server_stop(server);
        assert_int_equal(remove(server_log(server)), 0);
    }
}

/* --- Killed master --- */

/*
 * Stores an option with a port for a server that starts twice. Returns the socket that keeps the port: between the
 * starts, the kernel gives it to no other program.
 */
static int keep_port(char *option, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(option, size, "server.listen=127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

SERVER_TEST(start_after_killed_master_succeeds)
{
    char segment[128], listen[64];
    int port = keep_port(listen, sizeof(listen));

    server_put_text(server, "/page.html", page);
    snprintf(segment, sizeof(segment), "webserverd.%s", server_name(server));
    for (size_t i = 0; i < ARRAY_LENGTH(dispatches); i++) {
        struct load_plan plan;
        struct load *load;
        struct load_result result;

        server_start(server, dispatches[i], listen, NULL);
        plan = plan_for(server);
        plan.until_failure = true;
        load = load_start(&plan);
        load_pass(load, LOAD_STEP);
        server_signal(server_pid(server), SIGKILL);
        server_all_gone(server);
        result = load_finish(load);
        assert_int_equal(result.wrong, 0);
        /* Its workers exit at once. At worst each thread is between an response and its record. */
        assert_in_range(log_count_lines(server), result.responses - WORKERS * THREADS,
                        result.responses + result.lost);
        server_start(server, dispatches[i], listen, NULL);
        http_expect(server_port(server), "/page.html", 200);
        assert_int_equal(scratch_count("/dev/shm", segment), 1);
        server_stop(server);
        assert_int_equal(remove(server_log(server)), 0);
    }
    close(port);
}

/* A start does not wait longer for the workers of a killed master than they need to exit. */
SERVER_TEST(start_right_after_kill_serves)
{
    struct http_client client;
    char listen[64];
    int port = keep_port(listen, sizeof(listen));
    pid_t killed;

    server_put_text(server, "/page.html", page);
    server_start(server, listen, NULL);
    http_open(&client, server_port(server));
    ask_for_page(&client);
    killed = server_pid(server);
    server_signal(killed, SIGKILL);
    assert_int_equal(waitpid(killed, NULL, 0), killed);
    server_mark_stopped(server);
    server_start(server, listen, NULL);
    http_expect(server_port(server), "/page.html", 200);
    http_close(&client);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue; /* workers of the killed master: the start waits for their exit */
    server_stop(server);
    close(port);
}

/*
 * The master is a zombie, because nobody reaps it, and one worker is stopped. Somebody holds a lock
 * on the pid file, which everybody may open.
 */
SERVER_TEST(start_ends_what_a_killed_master_left)
{
    char path[SCRATCH_PATH_MAX + 128], listen[64];
    int port = keep_port(listen, sizeof(listen)), pid_file;
    pid_t workers[WORKERS], killed;

    server_put_text(server, "/page.html", page);
    server_start(server, listen, NULL);
    killed = server_pid(server);
    assert_int_equal(server_workers(server, workers, WORKERS), WORKERS);
    server_freeze(workers[0]);
    snprintf(path, sizeof(path), "%s/run/%s.pid", server_directory(server), server_name(server));
    pid_file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(pid_file, LOCK_EX | LOCK_NB), 0);
    server_signal(killed, SIGKILL);
    server_mark_stopped(server);
    server_start(server, listen, NULL);
    http_expect(server_port(server), "/page.html", 200);
    assert_int_equal(waitpid(killed, NULL, 0), killed);
    assert_int_equal(waitpid(workers[0], NULL, 0), workers[0]);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    server_stop(server);
    close(pid_file);
    close(port);
}

/* A worker that is stopped when its master dies may still log requests. */
SERVER_TEST(logger_outlives_workers_of_killed_master)
{
    pid_t workers[WORKERS], logger;

    server_start(server, NULL);
    logger = server_logger(server);
    assert_int_equal(server_workers(server, workers, WORKERS), WORKERS);
    for (int i = 0; i < WORKERS; i++)
        server_freeze(workers[i]);
    server_signal(server_pid(server), SIGKILL);
    WAIT_UNTIL(waitpid(logger, NULL, WNOHANG) != -1); /* its parent has ended */
    let_others_act();
    assert_int_equal(waitpid(logger, NULL, WNOHANG), 0);
    for (int i = 0; i < WORKERS; i++)
        server_signal(workers[i], SIGCONT);
    server_all_gone(server);
}

/* --- Failed starts --- */

SERVER_TEST(second_start_fails_and_first_is_unaffected)
{
    const char *const no_options[] = {NULL};
    char segment[128], *printed;

    server_put_text(server, "/page.html", page);
    server_start(server, NULL);
    snprintf(segment, sizeof(segment), "webserverd.%s", server_name(server));
    assert_int_equal(server_start_rejected(server, &printed, no_options), 1);
    assert_non_null(strstr(printed, server_name(server)));
    assert_non_null(strstr(printed, "already running"));
    free(printed);
    http_expect(server_port(server), "/page.html", 200);
    server_do(server, "ping");
    assert_int_equal(scratch_count("/dev/shm", segment), 1);
    server_stop(server);
}

SERVER_TEST(start_on_used_port_fails_and_leaves_nothing)
{
    char name[64], listen[64], segment[128], run_dir[SCRATCH_PATH_MAX], *printed;
    const char *const options[] = {name, listen, NULL};

    server_put_text(server, "/page.html", page);
    server_start(server, NULL);
    snprintf(name, sizeof(name), "server.name=%s-other", server_name(server));
    snprintf(listen, sizeof(listen), "server.listen=127.0.0.1:%u", server_port(server));
    snprintf(segment, sizeof(segment), "webserverd.%s", server_name(server));
    snprintf(run_dir, sizeof(run_dir), "%s/run", server_directory(server));
    assert_int_equal(server_start_rejected(server, &printed, options), 1);
    assert_non_null(strstr(printed, strchr(listen, '=') + 1));
    assert_non_null(strstr(printed, strerror(EADDRINUSE)));
    free(printed);
    assert_int_equal(scratch_count("/dev/shm", segment), 1);
    assert_int_equal(scratch_count(run_dir, ""), 3); /* socket, lock and pid file of the first */
    http_expect(server_port(server), "/page.html", 200);
    server_stop(server);
}

/*
 * The lock is in the run directory but the segment is not: the running server must keep its
 * segment.
 */
SERVER_TEST(second_start_with_other_run_dir_keeps_segment_of_first)
{
    char run_dir[SCRATCH_PATH_MAX], option[SCRATCH_PATH_MAX + 32], segment[128], *printed;
    const char *const options[] = {option, NULL};
    struct stat before, after;

    server_put_text(server, "/page.html", page);
    server_start(server, NULL);
    snprintf(run_dir, sizeof(run_dir), "%s/other", server_directory(server));
    snprintf(option, sizeof(option), "server.run_dir=%s", run_dir);
    server_segment_path(server, segment, sizeof(segment));
    assert_int_equal(stat(segment, &before), 0);
    assert_int_equal(server_start_rejected(server, &printed, options), 1);
    assert_non_null(strstr(printed, server_name(server)));
    assert_non_null(strstr(printed, "already running"));
    assert_non_null(strstr(printed, "another run_dir"));
    free(printed);
    assert_int_equal(stat(segment, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(scratch_count(run_dir, ""), 0);
    http_expect(server_port(server), "/page.html", 200);
    server_do(server, "ping");
    server_stop(server);
}

/*
 * Only root can play the other user. The planted segment looks like that of a running server; a
 * directory has the name that other servers use.
 */
SERVER_TEST(start_ignores_segment_of_another_user)
{
    const struct segment_plan plan = {.name = server_name(server),
                                      .socket_path = "/tmp/planted.sock",
                                      .listening = "127.0.0.1:1",
                                      .max_workers = 1,
                                      .max_threads = 1,
                                      .cache_entries = 1,
                                      .ring_bytes = 4096};
    struct segment segment;
    char path[128], why[256];

    if (geteuid() != 0)
        skip();
    assert_int_equal(segment_create(&segment, &plan, why, sizeof(why)), 0);
    segment_publish(&segment);
    atomic_store(&segment_master(&segment)->heartbeat_ns, UINT64_MAX / 2);
    server_segment_path(server, path, sizeof(path));
    assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
    snprintf(path, sizeof(path), "/dev/shm/webserverd.%s", server_name(server));
    assert_int_equal(mkdir(path, 0755), 0);
    server_start(server, NULL);
    server_do(server, "ping");
    segment_destroy(&segment);
    assert_int_equal(rmdir(path), 0);
    server_stop(server);
}

/* Descriptors of process PID on the file PATH. */
static unsigned count_descriptors(pid_t pid, const char *path)
{
    char name[64], target[SCRATCH_PATH_MAX];
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++) {
        ssize_t length;

        snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, fd);
        length = readlink(name, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        count += strcmp(target, path) == 0;
    }
    return count;
}

SERVER_TEST(only_the_master_holds_the_lock)
{
    struct stat status;
    char path[SCRATCH_PATH_MAX + 128];
    pid_t worker;

    server_start(server, "workers.processes=1", NULL);
    snprintf(path, sizeof(path), "%s/run/%s.lock", server_directory(server), server_name(server));
    assert_int_equal(server_workers(server, &worker, 1), 1);
    assert_int_equal(count_descriptors(worker, path), 0);
    WAIT_UNTIL(count_descriptors(server_logger(server), path) == 0); /* it has just been forked */
    assert_int_equal(count_descriptors(server_pid(server), path), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_uid, geteuid());
    server_stop(server);
}

SERVER_TEST(file_at_control_socket_path_is_not_removed)
{
    static const char precious[] = "not to be lost\n";
    char path[SCRATCH_PATH_MAX], option[SCRATCH_PATH_MAX + 32], *printed, *kept;
    const char *const options[] = {option, NULL};
    size_t length;

    snprintf(path, sizeof(path), "%s/precious", server_directory(server));
    snprintf(option, sizeof(option), "control.socket=%s", path);
    scratch_write(path, precious, sizeof(precious) - 1);
    assert_int_equal(server_start_rejected(server, &printed, options), 1);
    assert_non_null(strstr(printed, path));
    assert_non_null(strstr(printed, "not a socket"));
    free(printed);
    kept = scratch_read(path, &length);
    assert_string_equal(kept, precious);
    free(kept);
    server_check_nothing_left(server);
}

/* --- Stops during a start, and detached starts --- */

/* Starts with stdout and stderr on OUTPUT; DETACH is NULL or -d. */
static void become_server(const struct server *server, int output, const char *detach)
{
    char name[128], run_dir[SCRATCH_PATH_MAX + 32], root[SCRATCH_PATH_MAX + 32];

    snprintf(name, sizeof(name), "server.name=%s", server_name(server));
    snprintf(run_dir, sizeof(run_dir), "server.run_dir=%s/run", server_directory(server));
    snprintf(root, sizeof(root), "server.root=%s/www", server_directory(server));
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(WEBSERVERD_BINARY, WEBSERVERD_BINARY, "-o", name, "-o", run_dir, "-o", root, "-o",
          "server.listen=127.0.0.1:0", "-o", "log.access=off", detach, NULL);
    _exit(127);
}

/*
 * A stop signal before the server is ready stops it too and removes everything it created. A second
 * signal may find it exiting already.
 */
TEST(stop_signal_during_start_leaves_nothing)
{
    enum { STARTS = 60, STEP_US = 250, AGAIN_US = 40 };
    const struct server *server = *state;

    for (int i = 0; i < STARTS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            become_server(server, open("/dev/null", O_RDWR), NULL);
        usleep((useconds_t)(i * STEP_US));
        kill(pid, SIGTERM);
        usleep((useconds_t)(i * AGAIN_US));
        kill(pid, SIGTERM);
        WAIT_UNTIL(waitpid(pid, NULL, WNOHANG) == pid);
        WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) < 0);
        server_check_nothing_left(server);
    }
}

/* Returns the exit status of a start with -d. *PRINTED is its output, read to EOF. */
static int start_detached(const struct server *server, char *printed, size_t size)
{
    int ends[2], status = -1;
    ssize_t got = 1;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become_server(server, ends[1], "-d");
    close(ends[1]);
    for (size_t used = 0; got > 0; used += (size_t)got) {
        got = read(ends[0], printed + used, size - used - 1);
        assert_true(got >= 0);
        printed[used + (size_t)got] = '\0';
    }
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(detached_start_returns_when_serving_or_failed)
{
    const struct server *server = *state;
    char printed[4096];

    assert_int_equal(start_detached(server, printed, sizeof(printed)), 0);
    assert_non_null(strstr(printed, " serves "));
    assert_non_null(strstr(printed, "stop it: wsctl -n ")); /* no terminal: not "Ctrl-C" */
    server_do(server, "ping");
    assert_int_equal(start_detached(server, printed, sizeof(printed)), 1);
    assert_non_null(strstr(printed, "already running"));
    server_do(server, "stop");
    WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) < 0); /* orphans become children of this process */
    server_check_nothing_left(server);
}
