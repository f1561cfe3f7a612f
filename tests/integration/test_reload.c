/*
 * A new configuration for a running server, by command or SIGHUP, valid or not. Clients must not
 * notice.
 */
#include "descriptors.h"
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static json_int_t generation_of(const struct server *server)
{
    json_t *status = server_control(server, "status");
    json_int_t generation = json_integer_value(json_object_get(status, "generation"));

    json_decref(status);
    return generation;
}

/*
 * Reloads and checks that exactly the keys of CHANGED (separated by spaces) are reported as
 * changed.
 */
static void reload_changes(const struct server *server, const char *changed)
{
    json_t *response = server_control(server, "reload"), *keys, *key;
    char text[1024] = "";
    size_t i;

    if (!json_is_true(json_object_get(response, "ok")))
        fail_msg("refused: %s", json_string_value(json_object_get(response, "error")));
    keys = json_object_get(response, "changed");
    json_array_foreach(keys, i, key)
    {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? " " : "",
                 json_string_value(key));
    }
    assert_string_equal(text, changed);
    json_decref(response);
}

static void start_load(const struct server *server, struct load **load, unsigned clients)
{
    *load = load_start(&(struct load_plan){.port = server_port(server),
                                           .clients = clients,
                                           .target = "/a",
                                           .body = "a",
                                           .body_length = 1});
}

static void end_load(struct load *load)
{
    struct load_result result = load_finish(load);

    load_check(&result);
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool yes = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return yes;
}

/* A free port of those that the kernel does not choose: no other test gets it meanwhile. */
static uint16_t some_free_port(void)
{
    enum { FIRST = 10000, COUNT = 20000 };
    static unsigned tries;
    unsigned port;

    do
        port = FIRST + ((unsigned)getpid() * 16 + tries++) % COUNT;
    while (!is_free((uint16_t)port));
    return (uint16_t)port;
}

static bool connects(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool yes = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return yes;
}

/* --- Valid configurations --- */

SERVER_TEST(every_kind_of_key_changes_under_load)
{
    struct load *load;
    struct http_response response;
    pid_t pids[16];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 2\n");
    server_start(server, NULL);
    start_load(server, &load, 4);
    load_pass(load, LOAD_STEP / 5);
    server_write_config(server, "[workers]\nprocesses = 3\nthreads = 1\n");
    reload_changes(server, "workers.processes workers.threads");
    assert_int_equal(server_workers(server, pids, 16), 3);
    load_pass(load, LOAD_STEP / 5);
    server_write_config(server, "[workers]\nprocesses = 1\nthreads = 3\n[cache]\nsize = 5M\n"
                                "[headers]\nX-New = yes\n");
    reload_changes(server, "workers.processes workers.threads cache.size [headers]");
    http_get(server_port(server), "/a", 200, &response);
    assert_string_equal(http_field(&response, "X-New"), "yes");
    http_response_free(&response);
    load_pass(load, LOAD_STEP / 5);
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 2\ndispatch = master\n"
                                "[mime]\na = text/x-a\n");
    reload_changes(server,
                   "workers.processes workers.threads workers.dispatch cache.size [headers] "
                   "[mime]");
    load_pass(load, LOAD_STEP / 5);
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 2\n");
    reload_changes(server, "workers.dispatch [mime]");
    load_pass(load, LOAD_STEP / 5);
    end_load(load);
    server_stop(server);
}

SERVER_TEST(root_changes)
{
    char other[SCRATCH_PATH_MAX + 16];
    struct http_response response;

    server_put_text(server, "/a", "old root");
    snprintf(other, sizeof(other), "%s/other/", server_directory(server));
    scratch_make_directories(other);
    snprintf(other, sizeof(other), "%s/other/a", server_directory(server));
    scratch_write(other, "new root", 8);
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0\n");
    server_start(server, NULL);
    server_write_config(server, "[server]\nroot = other\nlisten = 127.0.0.1:0\n");
    reload_changes(server, "server.root");
    http_get(server_port(server), "/a", 200, &response);
    assert_string_equal(response.body, "new root");
    http_response_free(&response);
    server_stop(server);
}

SERVER_TEST(addresses_are_added_and_removed_under_load)
{
    uint16_t kept = some_free_port(), other = some_free_port();
    struct load *load;

    server_put_text(server, "/a", "a");
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:%u\n", kept);
    server_start(server, NULL);
    start_load(server, &load, 3);
    for (int i = 0; i < 4; i++) {
        WAIT_UNTIL(
            !connects(other)); /* leaving workers close their listen sockets after the reply */
        load_pass(load, LOAD_STEP / 10);
        server_write_config(server,
                            "[server]\nroot = www\nlisten = 127.0.0.1:%u 127.0.0.1:%u\n"
                            "[workers]\ndispatch = %s\n",
                            kept, other, i % 2 == 0 ? "kernel" : "master");
        server_do(server, "reload");
        http_expect(other, "/a", 200);
        load_pass(load, LOAD_STEP / 10);
        server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:%u\n", kept);
        server_do(server, "reload");
    }
    end_load(load);
    server_stop(server);
}

SERVER_TEST(log_change_loses_no_line)
{
    char path[SCRATCH_PATH_MAX + 16], *text;
    struct load_result result;
    struct load *load;
    uint64_t lines = 0;
    size_t length;

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 2\n");
    server_start(server, NULL);
    start_load(server, &load, 4);
    load_pass(load, LOAD_STEP / 2);
    server_write_config(server, "[server]\nroot = www\nlisten = 127.0.0.1:0\n"
                                "[log]\naccess = second.log\nformat = json\n");
    server_do(server, "reload");
    load_pass(load, LOAD_STEP / 2);
    result = load_finish(load);
    load_check(&result);
    server_stop(server);
    snprintf(path, sizeof(path), "%s/second.log", server_directory(server));
    text = scratch_read(path, &length);
    assert_int_equal(text[0], '{');
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    free(text);
    assert_true(lines > 0);
    assert_int_equal(lines + log_count_lines(server), result.responses);
}

SERVER_TEST(reload_overrides_values_set_by_commands)
{
    server_write_config(server, "[workers]\nthreads = 2\n");
    server_start(server, NULL);
    server_do(server, "threads 4");
    server_do(server, "cache-size 8M");
    reload_changes(server, "workers.threads cache.size");
    reload_changes(server, "");
    server_stop(server);
}

SERVER_TEST(changed_sections_are_reported)
{
    static const char first[] =
        "[headers /a]\nX-A = 1\n[access /a]\ndeny = 10.0.0.1\n"
        "[host one.example]\nindex = one.html\n[redirect]\n/old = 302 /new\n";

    server_write_config(server, "%s", first);
    server_start(server, NULL);
    server_write_config(server, "%s[mime]\nabc = text/plain\n", first);
    reload_changes(server, "[mime]");
    server_write_config(server, "%s[access /b]\ndeny = 10.0.0.2\n", first);
    reload_changes(server, "[access /b] [mime]");
    server_write_config(server, "%s", first);
    reload_changes(server, "[access /b]");
    server_write_config(server,
                        "[headers /a]\nX-A = 2\n"
                        "[access /a]\ndeny = 10.0.0.1\n[cors /a]\norigins = *\n"
                        "[host one.example]\nindex = two.html\n[redirect]\n/old = 302 /newer\n");
    reload_changes(server, "[headers /a] [redirect] [cors /a] [host one.example]");
    server_stop(server);
}

static bool is_one_of(pid_t pid, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool serves(const struct server *server, pid_t worker)
{
    pid_t pids[16];

    return is_one_of(worker, pids, server_workers(server, pids, 16));
}

/* Starts a reload and stops its new worker before it serves. Returns its process id; 0: too late. */
static pid_t reload_until_worker_starts(const struct server *server)
{
    pid_t before[16], after[16], found = 0;
    size_t count = server_children(server, before, 16), now;

    server_signal(server_pid(server), SIGHUP);
    do {
        now = server_children(server, after, 16);
        for (size_t i = 0; i < now && found == 0; i++)
            found = is_one_of(after[i], before, count) ? 0 : after[i];
    } while (found == 0);
    server_signal(found, SIGSTOP);
    if (!serves(server, found))
        return found;
    server_signal(found, SIGCONT);
    return 0;
}

/* It runs with the configuration that is in force until the new workers serve. */
SERVER_TEST(logger_that_starts_during_a_reload_writes)
{
    struct http_response response;
    pid_t worker = 0, logger;

    server_put_text(server, "/a", "a");
    while (worker == 0) {
        server_write_config(server, "[workers]\nprocesses = 1\nheartbeat_timeout = 1h\n");
        server_start(server, NULL);
        worker = reload_until_worker_starts(server);
        if (worker == 0)
            server_stop(server);
    }
    logger = server_logger(server);
    server_signal(logger, SIGKILL);
    WAIT_UNTIL(server_logger(server) != 0 && server_logger(server) != logger);
    http_get(server_port(server), "/a", 200, &response);
    http_response_free(&response);
    free(log_with_lines(server, 1));
    assert_false(serves(server, worker));
    server_signal(worker, SIGCONT);
    WAIT_UNTIL(serves(server, worker));
    server_stop(server);
}

/* --- Rejected configurations --- */

SERVER_TEST(invalid_file_changes_nothing)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[workers]\nprocesses = many\n", "webserver.ini:7:13: error:"},
        {"[workers]\nthreds = 2\n", "did you mean 'threads'?"},
        {"[workers]\nthreads = 65\n", "max_threads"},
        {"[workers]\nmax_threads = 32\n", "webserver.ini:7: error: workers.max_threads cannot"},
        {"[cache]\nmax_entries = 32\n", "cannot change while the server runs: it is 'auto'"},
        {"[server]\nname = other\nroot = nowhere\n", "nowhere"},
        {"[server]\nlisten = 192.0.2.1:80\nroot = www\n", "cannot listen on 192.0.2.1:80"},
        {"[server]\nuser = nobody-of-that-name\nroot = www\nlisten = 127.0.0.1:0\n", "user"},
        {"[server]\nroot = www\nlisten = 127.0.0.1:0\n[log]\naccess = nowhere/a.log\n",
         "cannot open the access log"},
    };
    struct load *load;
    pid_t before[16], after[16];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 2\n");
    server_start(server, NULL);
    assert_int_equal(server_workers(server, before, 16), 2);
    start_load(server, &load, 2);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        server_write_config(server, cases[i].text[1] == 's' ? "[server]%s" : "%s",
                            cases[i].text + (cases[i].text[1] == 's' ? 8 : 0));
        server_rejects(server, "reload", cases[i].words);
        server_signal(server_pid(server), SIGHUP);
    }
    assert_int_equal(unlink(server_config_path(server)), 0);
    server_rejects(server, "reload", "No such file");
    load_pass(load, LOAD_STEP / 10);
    end_load(load);
    assert_int_equal(server_workers(server, after, 16), 2);
    assert_memory_equal(before, after, 2 * sizeof(pid_t));
    assert_int_equal(generation_of(server), 1);
    server_write_config(server, "[workers]\nprocesses = 2\n[cache]\nsize = 8M\n");
    reload_changes(server, "cache.size");
    server_stop(server);
}

#ifndef TEST_SANITIZER
/* The memory limit is so low that no new worker can start its threads. */
SERVER_TEST(old_workers_serve_if_new_ones_fail)
{
    struct rlimit before, tight;
    struct load *load;
    pid_t pids[16], after[16];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 2\n");
    server_start(server, NULL);
    assert_int_equal(server_workers(server, pids, 16), 2);
    start_load(server, &load, 2);
    assert_int_equal(prlimit(server_pid(server), RLIMIT_AS, NULL, &before), 0);
    tight = before;
    tight.rlim_cur = server_address_space(server_pid(server)) + 4 * 1024 * 1024;
    assert_int_equal(prlimit(server_pid(server), RLIMIT_AS, &tight, NULL), 0);
    server_write_config(server, "[workers]\nprocesses = 3\n[cache]\nsize = 8M\n");
    server_rejects(server, "reload", "a new worker ended with status 1 before it served");
    assert_int_equal(server_workers(server, after, 16), 2);
    assert_memory_equal(pids, after, 2 * sizeof(pid_t));
    assert_int_equal(prlimit(server_pid(server), RLIMIT_AS, &before, NULL), 0);
    load_pass(load, LOAD_STEP / 10);
    server_do(server, "reload");
    assert_int_equal(server_workers(server, pids, 16), 3);
    end_load(load);
    server_stop(server);
}
#endif

/* --- Repeated reloads --- */

static void reload_repeatedly(struct server *server, unsigned count, const char *dispatch)
{
    for (unsigned i = 0; i < count; i++) {
        server_write_config(server, "[workers]\ndispatch = %s\nthreads = %u\n", dispatch,
                            1 + i % 2);
        if (i % 10 == 9)
            server_signal(server_pid(server), SIGHUP);
        server_do(server, "reload");
    }
}

#ifdef TEST_SANITIZER
enum { TIMES = 15 };

static void expect_no_growth(struct server *server, unsigned count, const char *dispatch)
{
    reload_repeatedly(server, count, dispatch);
}
#else
enum { TIMES = 120 };

static uint64_t private_kib(pid_t pid)
{
    char path[64], line[256];
    uint64_t kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "RssAnon: %lu kB", &kib);
    fclose(file);
    return kib;
}

/*
 * A leak adds to the memory in each series of reloads. If more generations than before were alive at
 * once, on a busy machine, one series adds to it.
 */
static void expect_no_growth(struct server *server, unsigned count, const char *dispatch)
{
    enum { SERIES = 4, GROWTH_KIB = 512 };
    uint64_t before, after = private_kib(server_pid(server));
    int series = 0;

    do {
        before = after;
        reload_repeatedly(server, count, dispatch);
        after = private_kib(server_pid(server));
        if (++series > SERIES)
            fail_msg("the master has grown from %" PRIu64 " to %" PRIu64 " KiB", before, after);
    } while (after > before + GROWTH_KIB);
}
#endif

static void reload_often(struct server *server, unsigned times, const char *dispatch)
{
    struct load *load;
    rlim_t descriptors;

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\ndispatch = %s\nthreads = 2\n", dispatch);
    server_start(server, NULL);
    start_load(server, &load, 4);
    reload_repeatedly(server, times / 2, dispatch); /* several generations are alive at once */
    descriptors = descriptors_open(server_pid(server));
    expect_no_growth(server, times - times / 2, dispatch);
    end_load(load);
    server_do(server, "threads 2");
    WAIT_UNTIL(descriptors_open(server_pid(server)) <= descriptors + 2);
    assert_true(generation_of(server) >= times);
    server_stop(server);
}

static unsigned times(void)
{
    const char *text = getenv("WEBSERVERD_TEST_RELOADS"); /* for longer manual runs */

    return text != NULL ? (unsigned)atoi(text) : TIMES;
}

SERVER_TEST(many_reloads_lose_no_request)
{
    reload_often(server, times(), "kernel");
}

SERVER_TEST(many_reloads_with_dispatch_master_lose_no_request)
{
    reload_often(server, times(), "master");
}

/* A request without its end: a slow client. */
static void begin_slowly(const struct server *server, struct http_client *slow, uint64_t number)
{
    static const char begun[] = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12";

    http_open(slow, server_port(server));
    http_send(slow, begun);
    server_expect_metric(server, "bytes_received", number * strlen(begun));
}

/* Each generation has a slow client. Only the oldest of nine old ones has to end. */
SERVER_TEST(reloads_do_not_wait_for_slow_clients)
{
    enum { OLD_MAX = 8, RELOADS = OLD_MAX + 1 };
    static const char late[] = "too many older generations have not finished";
    struct http_client slow[RELOADS];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 1\ndrain_timeout = 0\n[connections]\n"
                                "body_timeout = 1h\n");
    server_start(server, NULL);
    for (unsigned i = 0; i < RELOADS; i++) {
        begin_slowly(server, &slow[i], i + 1);
        assert_false(server_has_printed(server, late));
        server_do(server, "reload");
        assert_int_equal(generation_of(server), i + 2);
    }
    WAIT_UNTIL(server_has_printed(server, late));
    assert_int_equal(server_metric(server, "generations_old"), OLD_MAX);
    http_expect_closed(&slow[0]);
    http_close(&slow[0]);
    for (unsigned i = 1; i < RELOADS; i++) {
        http_send(&slow[i], "345");
        http_expect_response(&slow[i], 405, NULL);
        http_close(&slow[i]);
    }
    server_expect_metric(server, "generations_old", 0);
    server_stop(server);
}

/* With two slots, a third generation needs that of the first one. */
SERVER_TEST(reload_without_a_slot_ends_the_oldest_worker)
{
    struct http_client slow[2];

    server_put_text(server, "/a", "a");
    server_write_config(server, "[workers]\nprocesses = 1\nmax_processes = 2\ndrain_timeout = 0\n"
                                "[connections]\nbody_timeout = 1h\n");
    server_start(server, NULL);
    for (unsigned i = 0; i < 2; i++) {
        begin_slowly(server, &slow[i], i + 1);
        server_do(server, "reload");
    }
    WAIT_UNTIL(generation_of(server) == 3);
    WAIT_UNTIL(server_has_printed(server, "a new worker needs its place"));
    http_expect_closed(&slow[0]);
    http_send(&slow[1], "345");
    http_expect_response(&slow[1], 405, NULL);
    http_close(&slow[0]);
    http_close(&slow[1]);
    server_stop(server);
}

/* It ends with its last response, not by drain_timeout. */
SERVER_TEST(stop_does_not_wait_for_a_worker_whose_reload_timeout_is_over)
{
    struct http_client slow;

    server_put_text(server, "/a", "a");
    server_write_config(server,
                        "[workers]\nprocesses = 1\ndrain_timeout = 1h\nreload_timeout = 1s\n"
                        "[connections]\nbody_timeout = 1h\n");
    server_start(server, NULL);
    begin_slowly(server, &slow, 1);
    server_do(server, "reload");
    WAIT_UNTIL(server_has_printed(server, "reload_timeout is over"));
    server_signal(server_pid(server), SIGTERM);
    WAIT_UNTIL(server_has_printed(server, "stopping: finishing open requests"));
    http_send(&slow, "345");
    http_expect_response(&slow, 405, NULL);
    http_close(&slow);
    server_stopped(server);
}
