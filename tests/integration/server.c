#include "server.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/event_ring.h"
#include "common/instance.h"
#include "common/macros.h"
#include "patience.h"
#include "scratch.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64, WORD_MAX = SCRATCH_PATH_MAX + 32, OPTIONS_MAX = 24 };

struct server {
    char directory[SCRATCH_PATH_MAX];
    char name[INSTANCE_NAME_MAX + 1];
    char run_dir[SCRATCH_PATH_MAX], socket[SCRATCH_PATH_MAX + 64];
    char log[SCRATCH_PATH_MAX], output[SCRATCH_PATH_MAX];
    char program[SCRATCH_PATH_MAX];
    char config[SCRATCH_PATH_MAX]; /* path of the configuration file; empty: none */
    pid_t pid;                     /* 0: not running */
    uint16_t port;
};

/* Set-up and tear-down */

static void write_path(char *path, const struct server *server, const char *below)
{
    int length = snprintf(path, SCRATCH_PATH_MAX, "%s/%s", server->directory, below);

    assert_in_range(length, 1, SCRATCH_PATH_MAX - 1);
}

int server_set_up(void **state)
{
    static unsigned number;
    struct server *server = calloc(1, sizeof(*server));
    char site[SCRATCH_PATH_MAX];

    assert_non_null(server);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    scratch_make(server->directory);
    snprintf(server->name, sizeof(server->name), "test-%d-%u", getpid(), number++);
    snprintf(server->program, sizeof(server->program), "%s", WEBSERVERD_BINARY);
    write_path(server->run_dir, server, "run");
    write_path(server->log, server, "access.log");
    write_path(server->output, server, "output");
    snprintf(server->socket, sizeof(server->socket), "%s/%s.sock", server->run_dir, server->name);
    write_path(site, server, "www/");
    scratch_make_directories(site);
    *state = server;
    return 0;
}

static size_t list_children(pid_t of, pid_t *pids, size_t most)
{
    char path[64];
    FILE *file;
    size_t count = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
    file = fopen(path, "r");
    while (file != NULL && count < most && fscanf(file, "%d", &pids[count]) == 1)
        count++;
    if (file != NULL)
        fclose(file);
    return count;
}

static void end_leftovers(void)
{
    pid_t children[64];
    size_t count;

    while ((count = list_children(getpid(), children, 64)) > 0) { /* also adopted orphans */
        for (size_t i = 0; i < count; i++)
            kill(children[i], SIGKILL);
        for (size_t i = 0; i < count; i++)
            waitpid(children[i], NULL, 0);
    }
}

int server_tear_down(void **state)
{
    struct server *server = *state;

    if (server->pid != 0) {
        char *printed = server_output(server);

        fprintf(stderr, "the test left its webserverd running; its output:\n%s\n", printed);
        free(printed);
    }
    end_leftovers();
    instance_remove_segments(server->name, false);
    scratch_remove(server->directory);
    free(server);
    return 0;
}

/* The site */

void server_put(const struct server *server, const char *path, const void *bytes, size_t length)
{
    char full[SCRATCH_PATH_MAX];
    int written = snprintf(full, sizeof(full), "%s/www%s", server->directory, path);

    assert_in_range(written, 1, sizeof(full) - 1);
    scratch_write(full, bytes, length);
}

void server_put_text(const struct server *server, const char *path, const char *text)
{
    server_put(server, path, text, strlen(text));
}

static void write_numbered_path(char *path, const struct server *server, const char *prefix,
                                unsigned number)
{
    char below[SCRATCH_PATH_MAX];

    snprintf(below, sizeof(below), "www%s%u", prefix, number);
    write_path(path, server, below);
}

void server_put_links(const struct server *server, const char *prefix, unsigned count,
                      const void *bytes, size_t length)
{
    char path[SCRATCH_PATH_MAX], first[SCRATCH_PATH_MAX];

    write_numbered_path(first, server, prefix, 0);
    scratch_write(first, bytes, length);
    for (unsigned i = 1; i < count; i++) {
        write_numbered_path(path, server, prefix, i);
        if (link(first, path) != 0)
            fail_msg("cannot link %s: %s", path, strerror(errno));
    }
}

/* The configuration file */

void server_write_config(struct server *server, const char *format, ...)
{
    char text[8192];
    size_t used = 0;
    va_list arguments;

    write_path(server->config, server, "webserver.ini");
    if (strncmp(format, "[server]", 8) != 0)
        used = (size_t)snprintf(text, sizeof(text),
                                "[server]\nroot = www\nlisten = 127.0.0.1:0\n"
                                "[log]\naccess = access.log\n");
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    unlink(server->config); /* replacing an existing file makes ext4 flush it, which is slow */
    scratch_write(server->config, text, strlen(text));
}

const char *server_config_path(const struct server *server)
{
    return server->config;
}

/* Starting */

/* A command line under construction; TEXT holds its words. */
struct command_line {
    char *word[WORDS_MAX + 1];
    char text[WORDS_MAX][WORD_MAX];
    size_t count;
};

static void add_word(struct command_line *line, const char *word)
{
    assert_true(line->count < WORDS_MAX && strlen(word) < WORD_MAX);
    line->word[line->count] = strcpy(line->text[line->count], word);
    line->word[++line->count] = NULL;
}

PRINTF_LIKE(2, 3)
static void add_option(struct command_line *line, const char *format, ...)
{
    char option[WORD_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(option, sizeof(option), format, arguments);
    va_end(arguments);
    add_word(line, "-o");
    add_word(line, option);
}

bool server_has_own_model(void)
{
    return getenv("TEST_SERVER_OPTIONS") == NULL;
}

/* "workers.model=pool workers.threads=16": all tests with these settings. */
static void add_options_of_run(struct command_line *line)
{
    const char *text = getenv("TEST_SERVER_OPTIONS");
    char words[WORD_MAX], *rest = words, *option;

    snprintf(words, sizeof(words), "%s", text != NULL ? text : "");
    while ((option = strsep(&rest, " ")) != NULL)
        if (*option != '\0')
            add_option(line, "%s", option);
}

static void write_command_line(struct command_line *line, const struct server *server,
                               const char *const *wrapper, const char *const *options)
{
    line->count = 0;
    for (; wrapper != NULL && *wrapper != NULL; wrapper++)
        add_word(line, *wrapper);
    add_word(line, server->program);
    add_option(line, "server.name=%s", server->name);
    add_option(line, "server.run_dir=%s", server->run_dir);
    if (server->config[0] != '\0') {
        add_word(line, "-f");
        add_word(line, server->config);
    } else {
        add_option(line, "server.root=%s/www", server->directory);
        add_option(line, "server.listen=127.0.0.1:0");
        add_option(line, "log.access=%s", server->log);
        add_option(line, "workers.threads=2");
        add_option(line, "cache.max_entries=2048"); /* a start and a stop touch the whole table */
        add_option(line,
                   "workers.heartbeat_timeout=1h"); /* processes may stall, and tests stop some */
        add_option(line, "log.wait_timeout=1h");    /* after it, threads drop lines */
        add_option(line, "connections.header_timeout=1h");
        add_option(line, "connections.body_timeout=1h");
        add_option(line, "connections.keepalive_timeout=1h");
        add_option(line, "connections.send_timeout=1h");
    }
    for (; *options != NULL; options++)
        add_option(line, "%s", *options);
    add_options_of_run(line);
}

/* Redirects stdout and stderr, appending to OUTPUT. */
static pid_t launch(const struct command_line *line, const char *output)
{
    int fd = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pid_t pid;

    assert_true(fd >= 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execvp(line->word[0], line->word);
        dprintf(STDERR_FILENO, "cannot run %s: %s\n", line->word[0], strerror(errno));
        _exit(127);
    }
    close(fd);
    return pid;
}

/* The reply to LINE, or NULL: a starting server may not reply. */
static json_t *try_control(const struct server *server, const char *line)
{
    struct control_client client;
    const char *text;
    char why[256];
    json_t *reply = NULL;

    if (control_connect(&client, server->socket, why, sizeof(why)) != CONTROL_PENDING)
        return NULL;
    if (control_send(&client, line, why, sizeof(why)) == CONTROL_PENDING &&
        control_receive(&client, PATIENCE_S * 1000, &text, why, sizeof(why)) == CONTROL_REPLY)
        reply = json_loads(text, 0, NULL);
    control_close(&client);
    return reply;
}

static json_int_t number_at(const json_t *object, const char *group, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(object, group), key));
}

/* True if wanted and actual state agree. */
static bool all_serve(const json_t *status)
{
    const json_t *workers = json_object_get(json_object_get(status, "workers"), "list");
    const json_t *worker;
    size_t i;

    json_array_foreach(workers, i, worker)
    {
        if (strcmp(json_string_value(json_object_get(worker, "state")), "serving") != 0)
            return false;
    }
    return json_is_true(json_object_get(status, "ok")) &&
           json_array_size(workers) == (size_t)number_at(status, "workers", "wanted") &&
           number_at(status, "threads", "wanted") == number_at(status, "threads", "actual");
}

static void read_port(struct server *server, const json_t *status)
{
    const char *address =
        json_string_value(json_array_get(json_object_get(status, "listening"), 0));

    assert_non_null(address);
    server->port = (uint16_t)atoi(strrchr(address, ':') + 1);
    assert_int_not_equal(server->port, 0);
}

/*
 * Reports of sanitizers go to the same output, and of events that the life cycle excludes. A report
 * from any process fails the test.
 */
static void check_output(const struct server *server)
{
    static const char *const reports[] = {"Sanitizer", "runtime error:", "Assertion",
                                          "is impossible when"};
    char *printed = server_output(server);

    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        if (strstr(printed, reports[i]) != NULL) {
            fprintf(stderr, "%s\n", printed);
            fail_msg("report in the output of webserverd: %s", reports[i]);
        }
    }
    free(printed);
}

/*
 * The server prints this once all threads serve. Polling `status` instead would allocate memory,
 * which some tests count.
 */
static bool has_announced(const struct server *server)
{
    char *printed = server_output(server);
    bool yes = strstr(printed, "watch it: wsconsole") != NULL;

    free(printed);
    return yes;
}

static bool serves(struct server *server)
{
    json_t *status = has_announced(server) ? try_control(server, "status") : NULL;
    bool yes = status != NULL && all_serve(status);
    int ended;

    if (yes)
        read_port(server, status);
    json_decref(status);
    if (!yes && waitpid(server->pid, &ended, WNOHANG) == server->pid) {
        char *printed = server_output(server);

        server->pid = 0;
        fprintf(stderr, "webserverd printed:\n%s\n", printed);
        free(printed);
        fail_msg("webserverd exited during start, wait status %d", ended);
    }
    check_output(server);
    return yes;
}

void server_start_under(struct server *server, const char *const *wrapper,
                        const char *const *options)
{
    struct command_line line;

    assert_int_equal(server->pid, 0);
    write_command_line(&line, server, wrapper, options);
    server->pid = launch(&line, server->output);
    WAIT_UNTIL(serves(server));
}

void server_start(struct server *server, ...)
{
    const char *options[OPTIONS_MAX + 1];
    size_t count = 0;
    va_list arguments;

    va_start(arguments, server);
    while ((options[count] = va_arg(arguments, const char *)) != NULL)
        assert_true(++count <= OPTIONS_MAX);
    va_end(arguments);
    server_start_under(server, NULL, options);
}

int server_start_rejected(const struct server *server, char **printed, const char *const *options)
{
    char output[SCRATCH_PATH_MAX];
    struct command_line line;
    size_t length;
    int status = 0;
    pid_t pid;

    write_path(output, server, "rejection");
    write_command_line(&line, server, NULL, options);
    pid = launch(&line, output);
    WAIT_UNTIL(waitpid(pid, &status, WNOHANG) == pid);
    *printed = scratch_read(output, &length);
    unlink(output);
    if (!WIFEXITED(status))
        fail_msg("webserverd was killed by signal %d; its output: %s", WTERMSIG(status), *printed);
    return WEXITSTATUS(status);
}

/* Ending */

void server_check_nothing_left(const struct server *server)
{
    char segment[sizeof(server->name) + 32];

    snprintf(segment, sizeof(segment), "webserverd.%s", server->name);
    assert_int_equal(scratch_count("/dev/shm", segment), 0);
    assert_int_equal(scratch_count(server->run_dir, ""), 0);
#ifdef TEST_SANITIZER
    /* A process killed during exit briefly leaves its leak checker behind. */
    while (waitpid(-1, NULL, 0) > 0)
        continue;
#endif
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

void server_stopped_with(struct server *server, int status)
{
    int ended = 0;

    WAIT_UNTIL(waitpid(server->pid, &ended, WNOHANG) == server->pid);
    server->pid = 0;
    check_output(server);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != status)
        fail_msg("webserverd exited with wait status %#x", (unsigned)ended);
    server_check_nothing_left(server);
}

void server_stopped(struct server *server)
{
    server_stopped_with(server, EXIT_SUCCESS);
}

void server_stop(struct server *server)
{
    server_signal(server->pid, SIGTERM);
    server_stopped(server);
}

static bool none_left(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

void server_all_gone(struct server *server)
{
    WAIT_UNTIL(none_left());
    server->pid = 0;
    check_output(server);
}

void server_mark_stopped(struct server *server)
{
    server->pid = 0;
}

/* Looking at it */

void server_use_program(struct server *server, const char *path)
{
    snprintf(server->program, sizeof(server->program), "%s", path);
}

static bool another_master_replies(struct server *server)
{
    json_t *pong = try_control(server, "ping");
    pid_t pid = (pid_t)json_integer_value(json_object_get(pong, "pid"));

    json_decref(pong);
    if (pid <= 0 || pid == server->pid)
        return false;
    WAIT_UNTIL(waitpid(server->pid, NULL, WNOHANG) == server->pid);
    server->pid = pid;
    return true;
}

void server_succeeded(struct server *server)
{
    WAIT_UNTIL(another_master_replies(server));
    check_output(server);
}

pid_t server_pid(const struct server *server)
{
    return server->pid;
}

void server_set_port(struct server *server, uint16_t port)
{
    server->port = port;
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

const char *server_name(const struct server *server)
{
    return server->name;
}

const char *server_directory(const struct server *server)
{
    return server->directory;
}

const char *server_socket(const struct server *server)
{
    return server->socket;
}

const char *server_log(const struct server *server)
{
    return server->log;
}

char *server_output(const struct server *server)
{
    size_t length;

    return scratch_read(server->output, &length);
}

bool server_has_printed(const struct server *server, const char *words)
{
    char *printed = server_output(server);
    bool yes = strstr(printed, words) != NULL;

    free(printed);
    return yes;
}

int server_count_printed(const struct server *server, const char *words)
{
    char *printed = server_output(server);
    int count = 0;

    for (const char *at = printed; (at = strstr(at, words)) != NULL; at++)
        count++;
    free(printed);
    return count;
}

void server_clear_output(const struct server *server)
{
    assert_int_equal(unlink(server->output), 0);
}

/* Controlling it */

PRINTF_LIKE(2, 0)
static json_t *control(const struct server *server, const char *format, va_list arguments)
{
    char line[CONTROL_LINE_MAX];
    json_t *reply;

    vsnprintf(line, sizeof(line), format, arguments);
    reply = try_control(server, line);
    if (reply == NULL)
        fail_msg("no reply to control line '%s'", line);
    return reply;
}

json_t *server_control(const struct server *server, const char *format, ...)
{
    va_list arguments;
    json_t *reply;

    va_start(arguments, format);
    reply = control(server, format, arguments);
    va_end(arguments);
    return reply;
}

void server_do(const struct server *server, const char *format, ...)
{
    va_list arguments;
    json_t *reply;

    va_start(arguments, format);
    reply = control(server, format, arguments);
    va_end(arguments);
    if (!json_is_true(json_object_get(reply, "ok")))
        fail_msg("'%s' failed: %s", format, json_string_value(json_object_get(reply, "error")));
    json_decref(reply);
}

void server_rejects(const struct server *server, const char *line, const char *words)
{
    json_t *reply = server_control(server, "%s", line);
    const char *error = json_string_value(json_object_get(reply, "error"));

    if (!json_is_false(json_object_get(reply, "ok")) || error == NULL)
        fail_msg("'%s' did not fail", line);
    else if (strstr(error, words) == NULL)
        fail_msg("'%s' failed with '%s', which does not contain '%s'", line, error, words);
    json_decref(reply);
}

void server_begin(const struct server *server, struct control_client *client, const char *line)
{
    char why[256];

    assert_int_equal(control_connect(client, server->socket, why, sizeof(why)), CONTROL_PENDING);
    assert_int_equal(control_send(client, line, why, sizeof(why)), CONTROL_PENDING);
}

uint64_t server_metric(const struct server *server, const char *name)
{
    json_t *status = server_control(server, "status");
    const json_t *value = json_object_get(json_object_get(status, "metrics"), name);
    uint64_t number;

    if (!json_is_integer(value))
        fail_msg("status has no metric '%s'", name);
    number = (uint64_t)json_integer_value(value);
    json_decref(status);
    return number;
}

void server_expect_metric(const struct server *server, const char *name, uint64_t value)
{
    uint64_t give_up_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S, now;
    unsigned pause_ms = ASK_AGAIN_MS;

    while ((now = server_metric(server, name)) != value) {
        if (clock_monotonic_ns() > give_up_ns)
            fail_msg("%s is %" PRIu64 ", not %" PRIu64, name, now, value);
        patience_pause(&pause_ms);
    }
}

size_t server_workers(const struct server *server, pid_t *pids, size_t most)
{
    json_t *status = server_control(server, "status");
    const json_t *workers = json_object_get(json_object_get(status, "workers"), "list");
    const json_t *worker;
    size_t i, count = 0;

    json_array_foreach(workers, i, worker)
    {
        if (count < most &&
            strcmp(json_string_value(json_object_get(worker, "state")), "serving") == 0)
            pids[count++] = (pid_t)json_integer_value(json_object_get(worker, "pid"));
    }
    json_decref(status);
    return count;
}

size_t server_children(const struct server *server, pid_t *pids, size_t most)
{
    return list_children(server_pid(server), pids, most);
}

pid_t server_logger(const struct server *server)
{
    json_t *status = server_control(server, "status");
    pid_t pid = (pid_t)number_at(status, "logger", "pid");

    json_decref(status);
    return pid;
}

rlim_t server_address_space(pid_t pid)
{
    char path[64];
    unsigned long pages = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

void server_signal(pid_t pid, int signal)
{
    assert_true(pid > 1);
    assert_int_equal(kill(pid, signal), 0);
}

/* True if SIGSTOP has stopped all threads of the process. */
static bool all_threads_are_stopped(pid_t pid)
{
    char pattern[64];
    glob_t threads;
    bool stopped = true;

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)pid);
    assert_int_equal(glob(pattern, 0, NULL, &threads), 0);
    for (size_t i = 0; i < threads.gl_pathc; i++) {
        FILE *file = fopen(threads.gl_pathv[i], "re");
        char state = '\0';

        stopped &= file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
        if (file != NULL)
            fclose(file);
    }
    globfree(&threads);
    return stopped;
}

void server_freeze(pid_t pid)
{
    server_signal(pid, SIGSTOP);
    WAIT_UNTIL(all_threads_are_stopped(pid));
}

void server_segment_path(const struct server *server, char *path, size_t size)
{
    char file[INSTANCE_PATH_MAX], why[256];

    if (instance_find_segment(server->name, file, sizeof(file), why, sizeof(why)) != 0)
        fail_msg("no segment of %s: %s", server->name, why);
    snprintf(path, size, INSTANCE_SHARED_MEMORY "%s", file);
}

void server_attach(const struct server *server, struct segment_reader *reader)
{
    char why[256];

    if (segment_attach(reader, server->name, why, sizeof(why)) != SEGMENT_ATTACHED)
        fail_msg("cannot attach to the segment: %s", why);
}

int server_count_events(const struct segment_reader *reader, const char *words)
{
    struct event_merge *merge = event_merge_new(segment_event_rings(&reader->map), false);
    struct event_record event;
    int count = 0;

    assert_non_null(merge);
    event_merge_begin(merge, &reader->map);
    while (event_merge_take(merge, clock_wall_ns(), &event) >= 0)
        count += strstr(event.text, words) != NULL;
    event_merge_free(merge);
    return count;
}
