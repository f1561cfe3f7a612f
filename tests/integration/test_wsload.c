/*
 * The real wsload against a small server in this process. The server counts the requests that it
 * reads, so that what wsload reports can be held against what really came; the path of a request
 * says how the server (mis)behaves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, ARGUMENTS_MAX = 24 };

/* ---- The server ---- */

static _Atomic uint64_t requests_read;
static uint16_t server_port;

/* Reads one request head; returns false when the client is gone. */
static bool read_request(int fd, char *head, size_t size)
{
    size_t length = 0;

    while (length + 1 < size) {
        ssize_t n = recv(fd, head + length, size - 1 - length, 0);

        if (n <= 0)
            return false;
        length += (size_t)n;
        head[length] = '\0';
        if (strstr(head, "\r\n\r\n") != NULL)
            return true;
    }
    return false;
}

static void say(int fd, const char *text)
{
    send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Answers as the path asks. Returns whether the connection goes on. */
static bool answer(int fd, const char *head, unsigned number_on_connection)
{
    const char *path = strchr(head, '/');
    bool goes_on = false;

    if (strncmp(path, "/ok ", 4) == 0) {
        say(fd, strncmp(head, "HEAD", 4) == 0
                    ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                    : "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        goes_on = strstr(head, "Connection: close") == NULL;
    } else if (strncmp(path, "/close ", 7) == 0) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    } else if (strncmp(path, "/missing ", 9) == 0) {
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        goes_on = true;
    } else if (strncmp(path, "/second-lost ", 13) == 0) {
        goes_on = number_on_connection == 1;
        if (goes_on)
            say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    } else if (strncmp(path, "/short ", 7) == 0) {
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred");
    } else if (strncmp(path, "/bad-chunk ", 11) == 0) {
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nhello\r\n0\r\n\r\n");
    } else if (strncmp(path, "/garbage ", 9) == 0) {
        say(fd, "220 this is a mail server\r\n");
    } else if (strncmp(path, "/silent ", 8) == 0) {
        char rest;

        while (recv(fd, &rest, 1, 0) > 0)
            continue;
    }
    return goes_on; /* "/lost": closed without a word */
}

static void *serve_connection(void *context)
{
    int fd = (int)(intptr_t)context;
    unsigned number = 0;
    char head[4096];

    while (read_request(fd, head, sizeof(head))) {
        atomic_fetch_add(&requests_read, 1);
        if (!answer(fd, head, ++number))
            break;
    }
    close(fd);
    return NULL;
}

static void *accept_connections(void *context)
{
    int listener = (int)(intptr_t)context, fd;
    pthread_attr_t detached;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t id;

        if (pthread_create(&id, &detached, serve_connection, (void *)(intptr_t)fd) != 0)
            close(fd);
    }
    pthread_attr_destroy(&detached);
    return NULL;
}

/* A socket on a free port of the loopback, and that port. */
static int bind_anywhere(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int listener_fd;
static pthread_t acceptor;

static int start_server(void **state)
{
    (void)state;
    listener_fd = bind_anywhere(&server_port);
    if (listen(listener_fd, 1024) != 0)
        return -1;
    return pthread_create(&acceptor, NULL, accept_connections, (void *)(intptr_t)listener_fd);
}

static int stop_server(void **state)
{
    (void)state;
    shutdown(listener_fd, SHUT_RDWR);
    pthread_join(acceptor, NULL);
    close(listener_fd);
    return 0;
}

/* ---- wsload ---- */

struct program {
    pid_t pid;
    int out, err; /* what it writes */
};

static rlim_t descriptor_limit = RLIM_INFINITY; /* of wsload, where it is lower than ours */

static void lower_descriptor_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (descriptor_limit < limit.rlim_max)
        limit = (struct rlimit){descriptor_limit, descriptor_limit};
    setrlimit(RLIMIT_NOFILE, &limit);
}

static const char *engine = "curl"; /* that the runs use */

/* Starts wsload --json with the words of OPTIONS and the URL. */
static struct program start_wsload(const char *options, uint16_t port, const char *path)
{
    char words[512], url[128], engine_words[32];
    char *arguments[ARGUMENTS_MAX] = {(char *)"wsload", (char *)"--json", engine_words};
    int out[2], err[2], count = 3;
    struct program program;

    snprintf(engine_words, sizeof(engine_words), "--engine=%s", engine);
    snprintf(words, sizeof(words), "%s", options);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, path);
    for (char *rest, *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    arguments[count++] = url;
    arguments[count] = NULL;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    program = (struct program){fork(), out[0], err[0]};
    if (program.pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        lower_descriptor_limit();
        execv(WSLOAD_PROGRAM, arguments);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    assert_true(program.pid > 0);
    return program;
}

/* All that comes from FD until its end; the caller frees it. */
static char *read_all(int fd)
{
    size_t length = 0, room = 65536;
    char *text = malloc(room);
    ssize_t n;

    assert_non_null(text);
    while (length + 1 < room && (n = read(fd, text + length, room - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    return text;
}

/* Waits for the end. Returns the exit status and the report, NULL if there was none. */
static int finish_wsload(struct program program, json_t **report)
{
    char *text = read_all(program.out);
    int status;

    *report = text[0] != '\0' ? json_loads(text, 0, NULL) : NULL;
    if (text[0] != '\0' && *report == NULL)
        print_error("not JSON: %s\n", text);
    free(text);
    close(program.out);
    close(program.err);
    assert_int_equal(waitpid(program.pid, &status, 0), program.pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The number at "a.b" in REPORT; 0 where there is none. */
static json_int_t number_at(const json_t *report, const char *outer, const char *inner)
{
    return json_integer_value(json_object_get(json_object_get(report, outer), inner));
}

static bool has_note(const json_t *report, const char *name)
{
    const json_t *notes = json_object_get(report, "notes");

    for (size_t i = 0; i < json_array_size(notes); i++) {
        const json_t *note = json_object_get(json_array_get(notes, i), "name");

        if (strcmp(json_string_value(note), name) == 0)
            return true;
    }
    return false;
}

/* ---- Runs that end by themselves ---- */

struct run_case {
    const char *path, *options;
    int exit_status;
    json_int_t begun, answered, unanswered; /* answered -1: it depends on who meets whom */
    const char *error; /* the only kind that occurs, for all that is left; NULL: none */
    json_int_t read;   /* requests that the server must have read; -1: may be fewer than begun */
    json_int_t up, opened; /* connections; -1: not looked at */
    const char *note;      /* a note that must be there; NULL: none looked for */
};

static const struct run_case run_cases[] = {
    /* Counts are exact, with and without keep-alive, whatever the number of threads. */
    {"/ok", "-c 10 -n 1000 -t 2", 0, 1000, 1000, 0, NULL, 1000, 10, 10, NULL},
    {"/ok", "-c 7 -n 997 -t 3", 0, 997, 997, 0, NULL, 997, 7, 7, NULL},
    {"/ok", "-c 45 -n 1k -t 1", 0, 1000, 1000, 0, NULL, 1000, 45, 45, NULL},
    {"/ok", "-c 4 -n 100 -m HEAD", 0, 100, 100, 0, NULL, 100, 4, 4, NULL},
    {"/ok", "-c 1 -n 1", 0, 1, 1, 0, NULL, 1, 1, 1, NULL},
    {"/ok", "-c 4 -n 100 --no-keepalive", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/close", "-c 4 -n 100", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/ok", "-c 200 -n 200 -t 2", 0, 200, 200, 0, NULL, 200, 200, 200, NULL},
    {"/ok", "-c 10 -n 3", 0, 3, 3, 0, NULL, 3, 3, 3, "fewer_requests_than_connections"},
    /* Statuses that are errors, and how many are allowed. */
    {"/missing", "-c 2 -n 20", 3, 20, 20, 0, NULL, 20, 2, 2, "too_many_errors"},
    {"/missing", "-c 2 -n 20 --max-errors 100%", 0, 20, 20, 0, NULL, 20, 2, 2, NULL},
    /* Each way to fail, each request read once: nothing is sent again in silence. */
    {"/lost", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, "nothing_answered"},
    {"/second-lost", "-c 1 -n 20", 3, 20, 10, 0, "closed", 20, 1, -1, "latency_of_answers_only"},
    {"/second-lost", "-c 30 -t 2 -n 600", 3, 600, -1, 0, "closed", 600, 30, -1, NULL},
    {"/short", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, NULL},
    {"/bad-chunk", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/garbage", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/silent", "-c 2 -n 4 --timeout 100ms", 2, 4, 0, 0, "timeout", -1, -1, -1, NULL},
    /* What is under way at the end is given up and said. */
    {"/silent", "-c 5 -d 100ms --grace 0", 2, 5, 0, 5, NULL, -1, -1, -1, "nothing_answered"},
};

static void check_run(const struct run_case *c, const json_t *report, json_int_t read)
{
    json_int_t answered =
        c->answered >= 0 ? c->answered : number_at(report, "requests", "answered");
    json_int_t failed = c->begun - answered - c->unanswered;

    assert_int_equal(number_at(report, "requests", "begun"), c->begun);
    assert_int_equal(number_at(report, "requests", "answered"), answered);
    assert_int_equal(number_at(report, "requests", "unanswered"), c->unanswered);
    assert_int_equal(number_at(report, "requests", "failed"), failed);
    assert_int_equal(number_at(report, "latency_us", "count"), answered);
    if (c->error != NULL)
        assert_int_equal(number_at(report, "errors", c->error), failed);
    if (c->read >= 0)
        assert_int_equal(read, c->read);
    assert_true(read <= c->begun);
    if (c->up >= 0)
        assert_int_equal(number_at(report, "connections", "up"), c->up);
    if (c->opened >= 0)
        assert_int_equal(number_at(report, "connections", "opened"), c->opened);
    if (c->note != NULL)
        assert_true(has_note(report, c->note));
}

static void test_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(run_cases); i++) {
        const struct run_case *c = &run_cases[i];
        uint64_t before = atomic_load(&requests_read);
        json_t *report;
        int status = finish_wsload(start_wsload(c->options, server_port, c->path), &report);

        print_message("wsload --engine %s %s %s\n", engine, c->options, c->path);
        assert_int_equal(status, c->exit_status);
        assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), status);
        check_run(c, report, (json_int_t)(atomic_load(&requests_read) - before));
        json_decref(report);
    }
}

static void test_refused(void **state)
{
    uint16_t port;
    int fd = bind_anywhere(&port); /* taken, but nobody listens */
    json_t *report;

    (void)state;
    assert_int_equal(finish_wsload(start_wsload("-c 5 -n 50", port, "/"), &report), 2);
    assert_int_equal(number_at(report, "requests", "begun"), 50);
    assert_int_equal(number_at(report, "errors", "refused"), 50);
    assert_int_equal(number_at(report, "connections", "up"), 0);
    assert_true(has_note(report, "connections_missing"));
    json_decref(report);
    close(fd);
}

/* A timed run: as many as there was time for, all of them accounted for. */
static void test_duration(void **state)
{
    uint64_t before = atomic_load(&requests_read);
    json_t *report;

    (void)state;
    assert_int_equal(
        finish_wsload(start_wsload("-c 4 -z 300ms --grace 60s", server_port, "/ok"), &report), 0);
    assert_true(number_at(report, "requests", "begun") > 0);
    assert_int_equal(number_at(report, "requests", "answered"),
                     number_at(report, "requests", "begun"));
    assert_int_equal(atomic_load(&requests_read) - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* Nothing is run: a sentence on standard error, nothing on standard output, and exit status 1. */
static void test_wrong_use(void **state)
{
    json_t *report;

    (void)state;
    assert_int_equal(finish_wsload(start_wsload("-t 30s", server_port, "/ok"), &report), 1);
    assert_null(report);
    descriptor_limit = 200;
    assert_int_equal(finish_wsload(start_wsload("-c 500 -n 500", server_port, "/ok"), &report), 1);
    assert_null(report);
    descriptor_limit = RLIM_INFINITY;
}

/* ---- Runs that are interrupted ---- */

/* The next line of JSON from FD; fails the test when none comes for long. */
static json_t *read_json_line(int fd)
{
    char line[4096];
    size_t length = 0;

    while (length + 1 < sizeof(line)) {
        struct pollfd ready = {fd, POLLIN, 0};

        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        assert_int_equal(read(fd, line + length, 1), 1);
        if (line[length++] == '\n')
            break;
    }
    return json_loadb(line, length, 0, NULL);
}

/* Progress lines come while it runs; a signal ends it with a full report. */
static void test_interrupt(void **state)
{
    uint64_t before = atomic_load(&requests_read);
    struct program program = start_wsload("-c 4 -d 1h --grace 60s --progress", server_port, "/ok");
    json_int_t answered = 0;
    json_t *report;

    (void)state;
    while (answered == 0) {
        json_t *progress = read_json_line(program.err);

        assert_non_null(progress);
        answered = json_integer_value(json_object_get(progress, "answered"));
        json_decref(progress);
    }
    kill(program.pid, SIGINT);
    assert_int_equal(finish_wsload(program, &report), 130);
    assert_true(json_is_true(json_object_get(report, "interrupted")));
    assert_true(number_at(report, "requests", "answered") >= answered);
    assert_int_equal(number_at(report, "requests", "begun"),
                     number_at(report, "requests", "answered"));
    assert_int_equal(atomic_load(&requests_read) - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* The second signal does not wait for answers. */
static void test_interrupt_twice(void **state)
{
    struct program program =
        start_wsload("-c 3 -d 1h --timeout 1h --grace 1h --progress", server_port, "/silent");
    json_int_t begun = 0;
    json_t *report;

    (void)state;
    while (begun < 3) {
        json_t *progress = read_json_line(program.err);

        begun = json_integer_value(json_object_get(progress, "begun"));
        json_decref(progress);
    }
    kill(program.pid, SIGINT);
    json_decref(read_json_line(program.err)); /* the first one was taken, and it goes on */
    json_decref(read_json_line(program.err));
    kill(program.pid, SIGTERM);
    assert_int_equal(finish_wsload(program, &report), 130);
    assert_int_equal(number_at(report, "requests", "unanswered"), 3);
    json_decref(report);
}

static int use_curl(void **state)
{
    engine = "curl";
    return start_server(state);
}

static int use_raw(void **state)
{
    engine = "raw";
    return start_server(state);
}

/* All of it with both engines: they are to behave alike. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_duration),  cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_interrupt_twice),
    };
    int failed = cmocka_run_group_tests_name("curl", tests, use_curl, stop_server);

    return failed + cmocka_run_group_tests_name("raw", tests, use_raw, stop_server);
}
