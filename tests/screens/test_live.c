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

static void assert_shows(const char *text)
{
    if (!terminal_shows(terminal, text))
        fail_msg("'%s' is not on the screen:\n%s", text, terminal_text(terminal));
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
    assert_shows("r runs");
    fill_in("7"); /* connections */
    assert_shows("connections  7");
    fill_in("3000"); /* requests */
    assert_shows("requests     3000");
    fill_in(""); /* duration */
    assert_shows("duration     -");
    terminal_type(terminal, "r");
    assert_shows("Run load with 7 connections, 3000 requests against the server on this screen?");
    terminal_type(terminal, "n");
    assert_true(terminal_shows_no_more(terminal, "Run load"));
    assert_int_equal(server_metric(server, "requests"), 0);
    terminal_type(terminal, "r" AGREE);
    assert_shows("3000 responses = 3000 counted by the server");
    assert_shows("latency p99");
    assert_int_equal(server_metric(server, "requests"), 3000);
    terminal_type(terminal, "v");
    assert_shows("7 connections, 3000 requests");
    assert_shows("COUNTS");
    terminal_save(terminal, "load-past-120x40");
    end(server);
}

TEST(running_load_is_changed_marked_and_stopped)
{
    struct server *server = *state;

    start_console(server, "load", 50, 120);
    assert_shows("r runs");
    terminal_type(terminal, "nr" AGREE); /* the first preset: a steady rate */
    assert_shows("running");
    assert_shows("client");
    terminal_type(terminal, "+" AGREE);
    assert_shows("serving threads per worker changed from 1 to 2");
    terminal_type(terminal, "e");
    assert_shows("change the run");
    terminal_type(terminal, "\x15rate 300\r");
    assert_shows("client: 300/s, 50 connections");
    assert_true(terminal_shows_no_more(terminal, "answered 0 "));
    terminal_type(terminal, "x");
    assert_shows("counted by the server");
    assert_shows("done");
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
    assert_shows("logger: 0");
    WAIT_UNTIL(past_shows(2, "logger: 0", ""));
    terminal_type(terminal, "2");
    assert_shows("[2 threads]");
    WAIT_UNTIL(past_shows(1, "\n  0.0 ", "%"));
    end(server);
}

TEST(failed_load_run_reports_reason)
{
    struct server *server = *state;

    start_console(server, "load", 24, 80);
    assert_shows("r runs");
    terminal_type(terminal, "\r"); /* the target */
    assert_shows("target:");
    terminal_type(terminal, "http://nowhere.invalid/\r");
    assert_shows("http://nowhere.invalid/");
    terminal_type(terminal, "r");
    assert_shows("against http://nowhere.invalid/?");
    terminal_type(terminal, AGREE);
    assert_shows("done");
    end(server);
}

TEST(long_reply_opens_page)
{
    struct server *server = *state;

    start_console(server, "overview", 24, 80);
    assert_shows(" total");
    terminal_type(terminal, ":status\r");
    assert_shows("wanted  actual");
    assert_shows("Esc closes");
    terminal_resize(terminal, 12, 60);
    assert_shows("PgUp PgDn");
    terminal_type(terminal, "q"); /* closes the page, not the console */
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    terminal_type(terminal, ":help threads\r"); /* one line: in the foot */
    assert_shows("threads [N]");
    terminal_type(terminal, ":view threds\r");
    assert_shows("unknown view 'threds'; did you mean"); /* continued on the next line */
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
    assert_shows("workers.processes");
    assert_shows("  default "); /* the origins have arrived */
    terminal_type(terminal, "c");
    assert_shows("the file is valid");
    server_write_config(server, "[workers]\nprocesses = 2\nthreeds = 1\n");
    terminal_type(terminal, "r");
    assert_shows("Reload the file? Values set by commands return");
    terminal_type(terminal, AGREE);
    assert_shows("has no key 'threeds'");
    assert_shows("did you mean 'threads'?");
    assert_shows("the server keeps its configuration");
    server_write_config(server, "[workers]\nprocesses = 2\nthreads = 2\n");
    terminal_type(terminal, "r" AGREE);
    assert_shows("reloaded; changed: workers.threads");
    assert_shows("threads 4 of 4");
    end(server);
}

TEST(cache_policy_size_and_purge_take_effect)
{
    struct server *server = *state;

    start_console(server, "cache", 24, 80);
    terminal_type(terminal, "n");
    assert_shows("Set the eviction policy of the caches to lru?");
    terminal_type(terminal, AGREE);
    assert_shows("policy lru");
    assert_shows("sieve -> ");
    terminal_type(terminal, "e");
    assert_shows("cache size of each worker");
    terminal_type(terminal, "\x15"
                            "32M\r");
    assert_shows("Set the cache memory of each worker to 32M? It is ");
    terminal_type(terminal, AGREE);
    assert_shows("32M in each worker");
    terminal_type(terminal, "x" AGREE);
    terminal_type(terminal, "9");
    assert_shows("commands of this console");
    assert_shows("cache-flush");
    assert_shows("cache-size 32M");
    end(server);
}

/* With a filter that leaves one row, its key is edited without selecting it first. */
TEST(only_row_is_edited)
{
    struct server *server = *state;

    start_console(server, "config", 24, 80);
    assert_shows("workers.processes");
    assert_shows("  default ");
    terminal_type(terminal, "/key:log.level\r");
    assert_shows("1 of ");
    terminal_type(terminal, "e");
    assert_shows("log.level: ");
    terminal_type(terminal, "\x15"
                            "warn\r");
    assert_shows("Set the minimum level of the error log to warn? It is info.");
    terminal_type(terminal, AGREE);
    assert_shows("warn ");
    end(server);
}

TEST(leaving_asks_during_a_load_run)
{
    struct server *server = *state;

    start_console(server, "load", 40, 120);
    assert_shows("r runs");
    terminal_type(terminal, "nr" AGREE);
    assert_shows("running");
    terminal_type(terminal, "q");
    assert_shows("A load run is in progress. Stop it and leave?");
    terminal_type(terminal, "n");
    assert_true(terminal_shows_no_more(terminal, "Stop it and leave?"));
    terminal_type(terminal, "I");
    assert_shows("Stop it and leave?");
    terminal_type(terminal, "ny");
    assert_true(terminal_shows_no_more(terminal, "Stop it and leave?"));
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
    assert_shows("GET /caf\xc3\xa9.ht");
    assert_shows("GET /aaa");
    terminal_type(terminal, "k\r"); /* the details of the long one */
    assert_shows("2014 bytes; the rest is not shown");
    assert_shows("Esc closes"); /* drawn last: the next key is not a part of Alt */
    terminal_type(terminal, "\x1b");
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    terminal_type(terminal, "4");
    assert_shows("/caf\xc3\xa9.html");
    terminal_type(terminal, "/caf\r");
    assert_shows("1 of ");
    terminal_type(terminal, "d");
    assert_shows("from the caches?");
    terminal_type(terminal, AGREE);
    assert_shows("dropped 1");
    end(server);
}

TEST(offload_threads_keep_their_minimum)
{
    struct server *server = *state;

    start_console(server, "threads", 40, 120);
    terminal_type(terminal, ":offload-threads 2-4\r");
    assert_shows("Reduce the offload threads per worker from 8 to 2-4?");
    terminal_type(terminal, AGREE);
    assert_shows("(2-4 in each)");
    terminal_type(terminal, "o" AGREE);
    assert_shows("(2-5 in each)");
    terminal_type(terminal, "O");
    assert_shows("Reduce the offload threads per worker from 5 to 2-4?");
    terminal_type(terminal, AGREE);
    assert_shows("(2-4 in each)");
    terminal_type(terminal, "O" AGREE);
    assert_shows("(2-3 in each)");
    terminal_type(terminal, "O" AGREE);
    assert_shows("(2 in each)");
    terminal_type(terminal, "o" AGREE);
    assert_shows("(3 in each)");
    end(server);
}

TEST(workers_are_added_and_drained)
{
    struct server *server = *state;

    start_console(server, "threads", 40, 120);
    terminal_type(terminal, ":restart x\r"); /* invalid: no confirmation */
    assert_shows("not done: ");
    assert_shows("workers 2 of 2");
    terminal_type(terminal, "w" AGREE);
    assert_shows("workers 3 of 3");
    terminal_type(terminal, "\x1bOB"); /* worker 0 */
    terminal_type(terminal, "d");
    assert_shows("Drain worker 0?");
    terminal_type(terminal, AGREE);
    assert_shows("workers 2 of 2");
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
    assert_shows("no requests yet: 7 runs load, L plays a guided scenario");
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        terminal_type(terminal, empty[i].key);
        assert_shows(empty[i].tab);
        assert_shows(empty[i].keys);
        assert_null(strstr(terminal_line(terminal, 23), "Enter"));
    }
    terminal_type(terminal, "1");
    terminal_resize(terminal, 10, 40);
    assert_shows("no requests yet: 7 load, L scenarios");
    end(server);
}

/* A worker that SIGSTOP stops is named long before the master kills it. */
TEST(stopped_worker_is_named)
{
    struct server *server = *state;
    pid_t workers[2];

    start_console(server, "overview", 24, 80);
    assert_shows("  healthy");
    assert_int_equal(server_workers(server, workers, 2), 2);
    server_signal(workers[0], SIGSTOP);
    assert_shows("does not run (stopped): 2 threads");
    server_signal(workers[0], SIGCONT);
    assert_shows("  healthy");
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
    assert_shows("  healthy");
    for (int i = 0; i < 1 + PLACES; i++)
        request_unread(server, &client[i], "/", 1);
    assert_named("connection queue full: the oldest waits ");
    terminal_type(terminal, ":queue drop-tail\r" AGREE);
    assert_shows("drop-tail");
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
    assert_shows("  healthy");
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
