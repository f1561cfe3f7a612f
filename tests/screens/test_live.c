/* The console with a real server: changes take effect, and counts are correct. */
#include "http_client.h"
#include "patience.h"
#include "server.h"
#include "terminal.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct terminal *terminal;
static char state_home[512];

static int set_up(void **state)
{
    if (server_set_up(state) != 0)
        return -1;
    server_put_text(*state, "/index.html", "hello");
    server_write_config(*state, "[workers]\nprocesses = 2\nthreads = 1\n");
    server_start(*state, NULL);
    return 0;
}

static int tear_down(void **state)
{
    if (terminal != NULL)
        terminal_stop(terminal);
    terminal = NULL;
    return server_tear_down(state);
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void start_console(const struct server *server, const char *view, int rows, int columns)
{
    const char *const arguments[] = {WSCONSOLE, "-n", server_name(server), view, NULL};
    const char *const environment[] = {state_home, NULL};

    snprintf(state_home, sizeof(state_home), "XDG_STATE_HOME=%s/state", server_directory(server));
    terminal = terminal_start(rows, columns, arguments, environment);
}

/* Ends the console first: no child of the test may be left. */
static void end(struct server *server)
{
    terminal_stop(terminal);
    terminal = NULL;
    server_stop(server);
}

/* Clears the next field of the form and enters TEXT. */
static void fill_in(const char *text)
{
    terminal_type(terminal, "\x1bOB\r");
    terminal_type(terminal, "\x15"); /* Ctrl-U */
    terminal_type(terminal, text);
    terminal_type(terminal, "\r");
}

TEST(load_run_counts_agree_at_both_ends)
{
    struct server *server = *state;

    start_console(server, "load", 40, 120);
    ASSERT_SHOWS("r runs");
    fill_in("7"); /* connections */
    ASSERT_SHOWS("connections  7");
    fill_in("3000"); /* requests */
    ASSERT_SHOWS("requests     3000");
    fill_in(""); /* duration */
    ASSERT_SHOWS("duration     -");
    TYPE_SHOWS("r",
               "Run load with 7 connections, 3000 requests against the server on this screen?");
    TYPE_HIDES("n", "Run load");
    assert_int_equal(server_metric(server, "requests"), 0);
    TYPE_SHOWS("r" AGREE, "3000 responses = 3000 counted by the server", "latency p99");
    assert_int_equal(server_metric(server, "requests"), 3000);
    TYPE_SHOWS("v", "7 connections, 3000 requests", "COUNTS");
    terminal_save(terminal, "load-past-120x40");
    end(server);
}

TEST(running_load_is_changed_marked_and_stopped)
{
    struct server *server = *state;

    start_console(server, "load", 50, 120);
    ASSERT_SHOWS("r runs");
    TYPE_SHOWS("nr" AGREE, "running", "client"); /* the first preset: a steady rate */
    TYPE_SHOWS("+" AGREE, "serving threads per worker changed from 1 to 2");
    TYPE_SHOWS("e", "change the run");
    TYPE_SHOWS("\x15rate 300\r", "client: 300/s, 50 connections");
    assert_true(terminal_shows_no_more(terminal, "answered 0 "));
    TYPE_SHOWS("x", "counted by the server", "done");
    end(server);
}

/* Goes BACK seconds back; true if the screen then has ROW and, on its line, VALUE. */
static bool past_shows(int back, const char *row, const char *value)
{
    const char *line, *found;
    bool past;

    for (int i = 0; i < back; i++)
        terminal_type(terminal, "\x1bOD");
    if (!terminal_settle(terminal))
        fail_msg("the console has ended");
    past = strstr(terminal_text(terminal), " ago") != NULL;
    line = strstr(terminal_text(terminal), row);
    found = line != NULL ? strstr(line, value) : NULL;
    terminal_type(terminal, " ");
    return past && found != NULL && found - line <= (ptrdiff_t)strcspn(line + 1, "\n");
}

/* Seconds from before the console started have none; a CPU time needs two readings. */
TEST(past_seconds_have_processes_and_threads)
{
    struct server *server = *state;

    start_console(server, "overview", 50, 120);
    ASSERT_SHOWS("logger: 0");
    WAIT_UNTIL(past_shows(2, "logger: 0", ""));
    TYPE_SHOWS("2", "[2 threads]");
    WAIT_UNTIL(past_shows(1, "\n  0.0 ", "%"));
    end(server);
}

TEST(failed_load_run_reports_reason)
{
    struct server *server = *state;

    start_console(server, "load", 24, 80);
    ASSERT_SHOWS("r runs");
    TYPE_SHOWS("\r", "target:"); /* the target */
    TYPE_SHOWS("http://nowhere.invalid/\r", "http://nowhere.invalid/");
    TYPE_SHOWS("r", "against http://nowhere.invalid/?");
    TYPE_SHOWS(AGREE, "done");
    end(server);
}

TEST(long_reply_opens_page)
{
    struct server *server = *state;

    start_console(server, "overview", 24, 80);
    ASSERT_SHOWS(" total");
    TYPE_SHOWS(":status\r", "wanted  actual", "Esc closes");
    terminal_resize(terminal, 12, 60);
    ASSERT_SHOWS("PgUp PgDn");
    terminal_type(terminal, "q"); /* closes the page, not the console */
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    TYPE_SHOWS(":help threads\r", "threads [N]"); /* one line: in the foot */
    terminal_type(terminal, ":view threds\r");
    ASSERT_SHOWS("unknown view 'threds'; did you mean"); /* continued on the next line */
    end(server);
}

TEST(json_has_origins_of_values)
{
    struct server *server = *state;
    const char *path = server_config_path(server);
    char command[256], file[256], line[512];
    bool told = false;
    FILE *pipe;

    snprintf(command, sizeof(command), "'%s' -n %s --csv config", WSCONSOLE, server_name(server));
    snprintf(file, sizeof(file), "%s:", strrchr(path, '/') + 1);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof(line), pipe) != NULL)
        told = told || (strncmp(line, "workers.threads,1,", 18) == 0 &&
                        strstr(line, file) != NULL && strstr(line, ",live,auto") != NULL);
    assert_int_equal(pclose(pipe), 0);
    assert_true(told);
    server_stop(server);
}

TEST(file_is_checked_before_reload)
{
    struct server *server = *state;

    start_console(server, "config", 40, 120);
    ASSERT_SHOWS("workers.processes");
    ASSERT_SHOWS("  default "); /* the origins have arrived */
    TYPE_SHOWS("c", "the file is valid");
    server_write_config(server, "[workers]\nprocesses = 2\nthreeds = 1\n");
    TYPE_SHOWS("r", "Reload the file? Values set by commands return");
    TYPE_SHOWS(AGREE, "has no key 'threeds'", "did you mean 'threads'?",
               "the server keeps its configuration");
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 2\n");
    TYPE_SHOWS("r" AGREE, "reloaded; changed: workers.threads", "threads 4 of 4");
    end(server);
}

TEST(cache_policy_size_and_purge_take_effect)
{
    struct server *server = *state;

    start_console(server, "cache", 24, 80);
    TYPE_SHOWS("n", "Set the eviction policy of the caches to lru?");
    TYPE_SHOWS(AGREE, "policy lru", "sieve -> ");
    TYPE_SHOWS("e", "cache size of each worker");
    TYPE_SHOWS("\x15"
               "32M\r",
               "Set the cache memory of each worker to 32M? It is ");
    TYPE_SHOWS(AGREE, "32M in each worker");
    terminal_type(terminal, "x" AGREE);
    TYPE_SHOWS("9", "commands of this console", "cache-flush", "cache-size 32M");
    end(server);
}

/* With a filter that leaves one row, its key is edited without selecting it first. */
TEST(only_row_is_edited)
{
    struct server *server = *state;

    start_console(server, "config", 24, 80);
    ASSERT_SHOWS("workers.processes", "  default ");
    TYPE_SHOWS("/key:log.level\r", "1 of ");
    TYPE_SHOWS("e", "log.level: ");
    TYPE_SHOWS("\x15"
               "warn\r",
               "Set the minimum level of the error log to warn? It is info.");
    TYPE_SHOWS(AGREE, "warn ");
    end(server);
}

TEST(leaving_asks_during_a_load_run)
{
    struct server *server = *state;

    start_console(server, "load", 40, 120);
    ASSERT_SHOWS("r runs");
    TYPE_SHOWS("nr" AGREE, "running");
    TYPE_SHOWS("q", "A load run is in progress. Stop it and leave?");
    TYPE_HIDES("n", "Stop it and leave?");
    TYPE_SHOWS("I", "Stop it and leave?");
    TYPE_HIDES("ny", "Stop it and leave?");
    terminal_type(terminal, "q" AGREE);
    assert_true(WIFEXITED(terminal_wait_end(terminal)));
    end(server);
}

TEST(names_beyond_ascii_are_readable)
{
    struct server *server = *state;
    char target[2100] = "/";

    server_put_text(server, "/caf\xc3\xa9.html", "x");
    memset(target + 1, 'a', 2000);
    http_expect(server_port(server), "/caf%C3%A9.html", 200);
    http_expect(server_port(server), target, 404);
    start_console(server, "log", 24, 80);
    ASSERT_SHOWS("GET /caf\xc3\xa9.ht", "GET /aaa");
    terminal_type(terminal, "k\r"); /* the details of the long one */
    ASSERT_SHOWS("2014 bytes; the rest is not shown");
    ASSERT_SHOWS("Esc closes"); /* drawn last: the next key is not a part of Alt */
    TYPE_HIDES("\x1b", "Esc closes");
    TYPE_SHOWS("4", "/caf\xc3\xa9.html");
    TYPE_SHOWS("/caf\r", "1 of ");
    TYPE_SHOWS("d", "from the caches?");
    TYPE_SHOWS(AGREE, "dropped 1");
    end(server);
}

TEST(offload_threads_keep_their_minimum)
{
    struct server *server = *state;

    start_console(server, "threads", 40, 120);
    TYPE_SHOWS(":offload-threads 2-4\r", "Reduce the offload threads per worker from 8 to 2-4?");
    TYPE_SHOWS(AGREE, "(2-4 in each)");
    TYPE_SHOWS("o" AGREE, "(2-5 in each)");
    TYPE_SHOWS("O", "Reduce the offload threads per worker from 5 to 2-4?");
    TYPE_SHOWS(AGREE, "(2-4 in each)");
    TYPE_SHOWS("O" AGREE, "(2-3 in each)");
    TYPE_SHOWS("O" AGREE, "(2 in each)");
    TYPE_SHOWS("o" AGREE, "(3 in each)");
    end(server);
}

TEST(workers_are_added_and_drained)
{
    struct server *server = *state;

    start_console(server, "threads", 40, 120);
    TYPE_SHOWS(":restart x\r", "not done: ", "workers 2 of 2"); /* invalid: no confirmation */
    TYPE_SHOWS("w" AGREE, "workers 3 of 3");
    terminal_type(terminal, "\x1bOB"); /* worker 0 */
    TYPE_SHOWS("d", "Drain worker 0?");
    TYPE_SHOWS(AGREE, "workers 2 of 2");
    end(server);
}

/* The first screen of a server without a request, at every size. Keys for rows are not offered. */
TEST(idle_server_says_what_to_do)
{
    static const struct {
        const char *key, *tab, *keys;
    } empty[] = {{"3", "[3 latency]", " m menu  Space freeze"},
                 {"4", "[4 cache]", " n policy  e size  x flush  / filter  m menu"},
                 {"5", "[5 log]", " m menu  Space freeze"},
                 {"6", "[6 top]", " m menu  Space freeze"},
                 {"0", "[0 hosts]", " m menu  Space freeze"},
                 {"C", "[C certificates]", " m menu  Space freeze"}};
    struct server *server = *state;

    start_console(server, "overview", 24, 80);
    ASSERT_SHOWS("no requests yet: 7 runs load, L plays a guided scenario");
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        terminal_type(terminal, empty[i].key);
        assert_true(terminal_shows(terminal, empty[i].tab));
        assert_true(terminal_shows(terminal, empty[i].keys));
        assert_null(strstr(terminal_line(terminal, 23), "Enter"));
    }
    terminal_type(terminal, "1");
    terminal_resize(terminal, 10, 40);
    ASSERT_SHOWS("no requests yet: 7 load, L scenarios");
    end(server);
}

/* A worker that SIGSTOP stops is named long before the master kills it. */
TEST(stopped_worker_is_named)
{
    struct server *server = *state;
    pid_t workers[2];

    start_console(server, "overview", 24, 80);
    ASSERT_SHOWS("  healthy");
    assert_int_equal(server_workers(server, workers, 2), 2);
    server_signal(workers[0], SIGSTOP);
    ASSERT_SHOWS("does not run (stopped): 2 threads");
    server_signal(workers[0], SIGCONT);
    ASSERT_SHOWS("  healthy");
    end(server);
}

/* Sends COUNT requests for TARGET on a new connection, whose responses nobody reads. */
static void request_unread(const struct server *server, struct http_client *client,
                           const char *target, unsigned count)
{
    char request[128];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    http_open(client, server_port(server));
    for (unsigned i = 0; i < count; i++)
        http_send(client, request);
}

/* True if the health line shows CAUSE; acknowledges what it shows instead. */
static bool is_named(const char *cause)
{
    terminal_take(terminal);
    if (strstr(terminal_text(terminal), cause) != NULL)
        return true;
    if (strstr(terminal_text(terminal), "a acknowledges") != NULL)
        terminal_type(terminal, "a");
    return false;
}

static void assert_named(const char *cause)
{
    WAIT_UNTIL(is_named(cause));
    terminal_type(terminal, "a");
}

/* The only thread keeps its connection: all others wait in the queue, until that drops some. */
TEST(full_connection_queue_is_named)
{
    enum { CLIENTS = 6, PLACES = 3 };
    struct server *server = *state;
    struct http_client client[CLIENTS];

    server_stop(server);
    server_start(server, "workers.model=pool", "workers.processes=1", "workers.threads=1",
                 "workers.connection_queue=3", NULL);
    start_console(server, "threads", 24, 120);
    ASSERT_SHOWS("  healthy");
    for (int i = 0; i < 1 + PLACES; i++)
        request_unread(server, &client[i], "/", 1);
    assert_named("connection queue full: the oldest waits ");
    TYPE_SHOWS(":queue drop-tail\r" AGREE, "drop-tail");
    for (int i = 1 + PLACES; i < CLIENTS; i++)
        request_unread(server, &client[i], "/", 1);
    assert_named("/s dropped");
    for (int i = 0; i < CLIENTS; i++)
        http_close(&client[i]);
    end(server);
}

#ifndef TEST_SANITIZER /* which must be loaded first */
static void start_with_slow_jobs(struct server *server)
{
    static const char *const sleeping[] = {"/usr/bin/env", "LD_LIBRARY_PATH=" SLEEPING_WORK_PATH,
                                           "LD_PRELOAD=" SLEEPING_WORK, NULL};
    static const char *const options[] = {"workers.processes=1",     "workers.offload_threads=1",
                                          "workers.offload_queue=3", "arithmetic.enabled=on",
                                          "log.access=/dev/full",    "log.ring=64K",
                                          "log.when_full=drop",      NULL};

    server_start_under(server, sleeping, options);
}

/* What goes wrong is named by its cause, the worst first. */
TEST(health_line_names_the_cause)
{
    enum { SLOW = 7, LARGE_BYTES = 16 << 20 };
    static const char slow[] = "/arithmetic/square?n=7&work=100ms";
    struct server *server = *state;
    struct http_client slow_client[SLOW], client;
    char *large = calloc(1, LARGE_BYTES);

    server_put(server, "/large.bin", large, LARGE_BYTES);
    free(large);
    server_stop(server);
    start_with_slow_jobs(server);
    start_console(server, "overview", 24, 160);
    ASSERT_SHOWS("  healthy");
    /* Three clients always have a job each, in a queue for three. */
    for (int i = 0; i < SLOW; i++)
        request_unread(server, &slow_client[i], slow, i < 3 ? 1000 : 1);
    assert_named("offload queue full: ");
    assert_named("slow disk or few offload threads: jobs wait ");
    for (int i = 0; i < SLOW; i++)
        http_close(&slow_client[i]);
    request_unread(server, &client, "/", 2000);
    assert_named("log lines dropped: ");
    http_close(&client);
    request_unread(server, &client, "/large.bin", 1);
    assert_named("connections whose client does not read: 1");
    http_close(&client);
    terminal_stop(terminal);
    terminal = NULL;
    server_do(server, "stop now");  /* without waiting for room in the log */
    server_stopped_with(server, 1); /* its last lines are lost */
}
#endif
