#include "wsload_fixture.h"

#include "common/clock.h"
#include "common/macros.h"
#include "patience.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ARGUMENTS_MAX = 40,
    HEAD_BYTES = 8192,
    REPORT_BYTES = 4 * 1024 * 1024,
    STALLING_MAX = 1 << 15,
    SLOW_MS = 5
};

/* ---- The server ---- */

#define OK_HEAD     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define OK_RESPONSE OK_HEAD "hello"

const char *wsload_engine = "curl";
static _Atomic uint64_t requests_read, connections_accepted, stall_origin_ns, gate;
static pthread_mutex_t heads_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two fields */
static uint64_t heads;
static char kept_heads[KEPT_HEADS][KEPT_HEAD_BYTES];
static pthread_mutex_t stalling_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static size_t stalling_count;
static struct stalling_request stalling[STALLING_MAX];
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static int last_fd = -1; /* connection of the last OK response; -1: closed */
static int tcp_listener, unix_listener;
static uint16_t tcp_port;
static char socket_path[64];
static pthread_t acceptors[2];

/* Reads one request head. Returns false if the client has disconnected. */
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

static void keep_head(const char *head)
{
    pthread_mutex_lock(&heads_lock);
    if (heads < KEPT_HEADS)
        snprintf(kept_heads[heads], KEPT_HEAD_BYTES, "%.*s", KEPT_HEAD_BYTES - 1, head);
    heads++;
    pthread_mutex_unlock(&heads_lock);
}

static void say(int fd, const char *text)
{
    send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* The number of a new entry with the time of its arrival. */
static size_t keep_arrival(uint64_t ready_ns)
{
    size_t number;

    pthread_mutex_lock(&stalling_lock);
    number = stalling_count < STALLING_MAX ? stalling_count++ : STALLING_MAX - 1;
    stalling[number] = (struct stalling_request){ready_ns, clock_monotonic_ns(), 0, 0};
    pthread_mutex_unlock(&stalling_lock);
    return number;
}

static uint64_t keep_answer(size_t number)
{
    uint64_t now_ns = clock_monotonic_ns();

    pthread_mutex_lock(&stalling_lock);
    stalling[number].answered_ns = now_ns;
    pthread_mutex_unlock(&stalling_lock);
    return now_ns;
}

static void keep_next(size_t number)
{
    pthread_mutex_lock(&stalling_lock);
    stalling[number].next_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&stalling_lock);
}

/* Waits for the end of a stall. */
static void wait_out_stall(void)
{
    uint64_t none = 0, now_ns = clock_monotonic_ns(), origin_ns, phase_ns;
    const uint64_t begin_ns = STALL_AFTER_MS * NS_PER_MS;
    const uint64_t end_ns = begin_ns + STALL_MS * NS_PER_MS;

    atomic_compare_exchange_strong(&stall_origin_ns, &none, now_ns);
    origin_ns = atomic_load(&stall_origin_ns);
    phase_ns = now_ns > origin_ns ? (now_ns - origin_ns) % (STALL_PERIOD_MS * NS_PER_MS) : 0;
    if (phase_ns >= begin_ns && phase_ns < end_ns) {
        uint64_t until_ns = now_ns + end_ns - phase_ns;
        const struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

static void wait_at_gate(void)
{
    static _Atomic uint64_t passed;
    uint64_t number = atomic_fetch_add(&passed, 1);

    while (number >= atomic_load(&gate))
        usleep(ASK_AGAIN_MS * 1000);
}

static void stay_silent(int fd)
{
    char rest;

    while (recv(fd, &rest, 1, 0) > 0)
        continue;
}

/* Begins a response whose head has no end. */
static void say_endlessly(int fd, const char *text)
{
    static const char begin[] = "HTTP/1.1 200 OK\r\nX-Line: ";
    ssize_t n = send(fd, begin, strlen(begin), MSG_NOSIGNAL);

    while (n > 0)
        n = send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static const struct {
    const char *path, *response;
    bool goes_on;
} responses[] = {
    {"/close", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", false},
    {"/missing", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true},
    {"/short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred", false},
    {"/bad-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nhello\r\n0\r\n\r\n",
     false},
    {"/chunked",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", true},
    {"/garbage", "220 this is a mail server\r\n", false},
    {"/lost", "", false},
    {"/surplus",
     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
     true},
    {"/surplus-chunked",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nmore", true},
    {"/long-length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhi", false},
};

static bool is_path(const char *path, const char *name)
{
    return strncmp(path, name, strlen(name)) == 0 && path[strlen(name)] == ' ';
}

static void set_last(int fd)
{
    pthread_mutex_lock(&last_lock);
    last_fd = fd;
    pthread_mutex_unlock(&last_lock);
}

/* Responds according to the path. Returns true if the connection stays open. */
static bool response(int fd, const char *head, unsigned number_on_connection)
{
    const char *path = strchr(head, '/');

    for (size_t i = 0; i < ARRAY_LENGTH(responses); i++)
        if (is_path(path, responses[i].path)) {
            say(fd, responses[i].response);
            return responses[i].goes_on;
        }
    if (is_path(path, "/silent")) {
        stay_silent(fd);
        return false;
    }
    if (is_path(path, "/endless-head") || is_path(path, "/endless-line")) {
        say_endlessly(fd, is_path(path, "/endless-head") ? "X-Filler: filler\r\n" : "filler");
        return false;
    }
    if (is_path(path, "/gated-body")) {
        say(fd, OK_HEAD "he");
        wait_at_gate();
        say(fd, "llo");
        return true;
    }
    set_last(fd);
    if (is_path(path, "/second-lost") && number_on_connection > 1)
        return false;
    if (is_path(path, "/second-half") && number_on_connection > 1) {
        say(fd, OK_HEAD "he");
        stay_silent(fd);
        return false;
    }
    if (is_path(path, "/gated"))
        wait_at_gate();
    if (is_path(path, "/slow"))
        usleep(SLOW_MS * 1000);
    say(fd, strncmp(head, "HEAD", 4) == 0 ? OK_HEAD : OK_RESPONSE);
    return strstr(head, "Connection: close") == NULL;
}

/* Responds to the requests of a connection to /stalling, of which HEAD is the first. */
static void serve_stalling(int fd, char *head, size_t size)
{
    uint64_t ready_ns = 0;
    bool goes_on = true;

    while (goes_on) {
        size_t number = keep_arrival(ready_ns);

        wait_out_stall();
        ready_ns = keep_answer(number);
        say(fd, OK_RESPONSE);
        goes_on = read_request(fd, head, size);
        keep_next(number);
        if (goes_on)
            atomic_fetch_add(&requests_read, 1);
    }
}

static void *serve_connection(void *context)
{
    int fd = (int)(intptr_t)context;
    unsigned number = 0;
    char head[HEAD_BYTES];

    while (read_request(fd, head, sizeof(head))) {
        atomic_fetch_add(&requests_read, 1);
        keep_head(head);
        if (is_path(strchr(head, '/'), "/stalling")) {
            serve_stalling(fd, head, sizeof(head));
            break;
        }
        if (!response(fd, head, ++number))
            break;
    }
    pthread_mutex_lock(&last_lock);
    if (last_fd == fd)
        last_fd = -1;
    close(fd);
    pthread_mutex_unlock(&last_lock);
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

        atomic_fetch_add(&connections_accepted, 1);
        if (pthread_create(&id, &detached, serve_connection, (void *)(intptr_t)fd) != 0)
            close(fd);
    }
    pthread_attr_destroy(&detached);
    return NULL;
}

int wsload_bind_anywhere(uint16_t *port)
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

static int bind_unix(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(socket_path, sizeof(socket_path), "/tmp/test_wsload.%d.sock", (int)getpid());
    unlink(socket_path);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

int wsload_server_start(void **state)
{
    (void)state;
    if (getenv("WSLOAD_ENGINE") != NULL)
        wsload_engine = getenv("WSLOAD_ENGINE");
    tcp_listener = wsload_bind_anywhere(&tcp_port);
    unix_listener = bind_unix();
    if (listen(tcp_listener, 1024) != 0 || listen(unix_listener, 1024) != 0)
        return -1;
    return pthread_create(&acceptors[0], NULL, accept_connections, (void *)(intptr_t)tcp_listener) +
           pthread_create(&acceptors[1], NULL, accept_connections, (void *)(intptr_t)unix_listener);
}

int wsload_server_stop(void **state)
{
    (void)state;
    shutdown(tcp_listener, SHUT_RDWR);
    shutdown(unix_listener, SHUT_RDWR);
    pthread_join(acceptors[0], NULL);
    pthread_join(acceptors[1], NULL);
    close(tcp_listener);
    close(unix_listener);
    unlink(socket_path);
    return 0;
}

uint16_t wsload_server_port(void)
{
    return tcp_port;
}

const char *wsload_server_socket(void)
{
    return socket_path;
}

uint64_t wsload_server_read(void)
{
    return atomic_load(&requests_read);
}

uint64_t wsload_server_accepted(void)
{
    return atomic_load(&connections_accepted);
}

static bool all_times_are_known(void)
{
    bool known = true;

    pthread_mutex_lock(&stalling_lock);
    for (size_t i = 0; i < stalling_count; i++)
        known = known && stalling[i].next_ns != 0;
    pthread_mutex_unlock(&stalling_lock);
    return known;
}

const struct stalling_request *wsload_server_stalling(size_t *count)
{
    WAIT_UNTIL(all_times_are_known());
    *count = stalling_count;
    assert_in_range(*count, 0, STALLING_MAX - 1);
    return stalling;
}

void wsload_server_allow(uint64_t requests)
{
    atomic_fetch_add(&gate, requests);
}

void wsload_server_repeat(void)
{
    bool open;

    pthread_mutex_lock(&last_lock);
    open = last_fd >= 0;
    if (open)
        say(last_fd, OK_RESPONSE);
    pthread_mutex_unlock(&last_lock);
    assert_true(open);
}

void wsload_server_clear(void)
{
    pthread_mutex_lock(&heads_lock);
    heads = 0;
    pthread_mutex_unlock(&heads_lock);
    pthread_mutex_lock(&stalling_lock);
    stalling_count = 0;
    pthread_mutex_unlock(&stalling_lock);
    atomic_store(&stall_origin_ns, 0);
}

uint64_t wsload_server_heads(void)
{
    uint64_t count;

    pthread_mutex_lock(&heads_lock);
    count = heads;
    pthread_mutex_unlock(&heads_lock);
    return count;
}

/* A written head does not change until it is cleared. */
const char *wsload_server_head(uint64_t number)
{
    assert_true(number < wsload_server_heads() && number < KEPT_HEADS);
    return kept_heads[number];
}

/* ---- wsload ---- */

rlim_t wsload_descriptor_limit = RLIM_INFINITY;

static void lower_descriptor_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (wsload_descriptor_limit < limit.rlim_max)
        limit = (struct rlimit){wsload_descriptor_limit, wsload_descriptor_limit};
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void become_wsload(int in, int out, int err, char *const *arguments)
{
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    lower_descriptor_limit();
    signal(SIGHUP, SIG_DFL); /* nohup ignores it, and wsload would inherit that */
    execv(WSLOAD_PROGRAM, arguments);
    _exit(127);
}

struct program wsload_start_url(const char *options, const char *url)
{
    char words[1024], engine_words[32];
    char *arguments[ARGUMENTS_MAX] = {(char *)"wsload"};
    int in[2], out[2], err[2], count = 1;
    struct program program;

    if (strncmp(options, "sweep ", 6) == 0) {
        arguments[count++] = (char *)"sweep";
        options += 6;
    }
    snprintf(engine_words, sizeof(engine_words), "--engine=%s", wsload_engine);
    arguments[count++] = (char *)"--json";
    arguments[count++] = engine_words;
    arguments[count++] =
        (char *)"--connect-timeout=60s"; /* the process may be stopped for seconds */
    snprintf(words, sizeof(words), "%s", options);
    for (char *rest, *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    arguments[count++] = (char *)(uintptr_t)url;
    arguments[count] = NULL;
    assert_int_equal(pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC) + pipe2(err, O_CLOEXEC), 0);
    program = (struct program){fork(), out[0], err[0], in[1]};
    if (program.pid == 0)
        become_wsload(in[0], out[1], err[1], arguments);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    assert_true(program.pid > 0);
    return program;
}

struct program wsload_start(const char *options, uint16_t port, const char *path)
{
    char url[256];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, path);
    return wsload_start_url(options, url);
}

/* Reads FD to its end. The caller must free the result. */
static char *read_all(int fd)
{
    size_t length = 0;
    char *text = malloc(REPORT_BYTES);
    ssize_t n;

    assert_non_null(text);
    while (length + 1 < REPORT_BYTES &&
           (n = read(fd, text + length, REPORT_BYTES - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    return text;
}

int wsload_wait(struct program program, json_t **report)
{
    char *text = read_all(program.out);
    int status;

    *report = text[0] != '\0' ? json_loads(text, 0, NULL) : NULL;
    if (text[0] != '\0' && *report == NULL)
        print_error("not JSON: %s\n", text);
    free(text);
    close(program.out);
    close(program.err);
    close(program.control);
    assert_int_equal(waitpid(program.pid, &status, 0), program.pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

json_t *wsload_finish(struct program program, int status)
{
    json_t *report;

    assert_int_equal(wsload_wait(program, &report), status);
    return report;
}

json_t *wsload_run(const char *options, const char *path, int status)
{
    json_t *report;

    print_message("wsload --engine %s %s %s\n", wsload_engine, options, path);
    report = wsload_finish(wsload_start(options, tcp_port, path), status);
    assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), status);
    return report;
}

json_t *wsload_run_for_time(const char *options, uint16_t port, const char *path)
{
    json_t *report;
    int status;

    print_message("wsload --engine %s %s %s\n", wsload_engine, options, path);
    status = wsload_wait(wsload_start(options, port, path), &report);
    assert_int_equal(status, number_at(report, "requests", "begun") > 0 ? 0 : 2);
    return report;
}

void wsload_say(struct program program, const char *line)
{
    assert_int_equal(write(program.control, line, strlen(line)), strlen(line));
    assert_int_equal(write(program.control, "\n", 1), 1);
}

json_t *wsload_line(int fd)
{
    char line[4096];
    size_t length = 0;
    json_t *object;

    while (length + 1 < sizeof(line)) {
        struct pollfd ready = {fd, POLLIN, 0};

        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        assert_int_equal(read(fd, line + length, 1), 1);
        if (line[length++] == '\n')
            break;
    }
    object = json_loadb(line, length, 0, NULL);
    assert_non_null(object);
    return object;
}

json_int_t wsload_progress(struct program program, const char *member)
{
    json_t *line = wsload_line(program.err);
    json_int_t number = (json_int_t)json_number_value(json_object_get(line, member));

    json_decref(line);
    return number;
}

json_int_t number_at(const json_t *report, const char *outer, const char *inner)
{
    return json_integer_value(json_object_get(json_object_get(report, outer), inner));
}

double real_at(const json_t *report, const char *outer, const char *inner)
{
    return json_number_value(json_object_get(json_object_get(report, outer), inner));
}

bool has_note(const json_t *report, const char *name)
{
    const json_t *notes = json_object_get(report, "notes");

    for (size_t i = 0; i < json_array_size(notes); i++) {
        const json_t *note = json_object_get(json_array_get(notes, i), "name");

        if (strcmp(json_string_value(note), name) == 0)
            return true;
    }
    return false;
}
