/*
 * The metrics process. Its connections, where the test runs its event loop and calls its timer; and
 * the process as the master sees it: its start, its signs of life, and its end.
 */
#include "daemon/metrics/metrics.h"

#include "common/clock.h"
#include "common/instance.h"
#include "common/macros.h"
#include "tests/unit/event_output.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <crypt.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS_MAX = 32, STREAMS_MAX = 8, REQUEST_SECONDS = 5 }; /* of metrics.c */
enum {
    LISTEN_SOCKETS = 2,
    DESCRIPTORS_MAX = 256,
    RESPONSE_BYTES = 65536,
    STEPS = 50,
    NO_PROCESS = INT32_MAX
};

#define BEGIN_NS (1000 * NS_PER_S)

static const char health[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char stream[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

static struct segment segment;
static char users_file[] = "users";
static struct config_user user = {.name = (char[]){"ann"}, .hash = (char[]){"secret"}};
static struct config config;
static struct metrics_setup setup;
static int listen_fd[LISTEN_SOCKETS], master_fd; /* the master's end */
static struct sockaddr_un address[LISTEN_SOCKETS];
static socklen_t address_length[LISTEN_SOCKETS];

/* What the process calls. */
static struct {
    void (*script)(void); /* runs in the place of the event loop; NULL: the loop runs */
    int loop, scripts;
    struct event_base *base;
    event_callback_fn on_second;
    void *second_argument;
    bool ended;                               /* the loop is to end */
    int recv_error, send_error, calloc_error; /* of the next call */
    int thread_error, sends;
    int ranges_closed,
        kept_closed; /* calls of close_range(), and descriptors that it must not close */
    bool no_sockets, no_fork;
    int interruptions; /* calls of waitpid() that a signal interrupts */
} calls;

static sem_t permits; /* passwords that the thread may verify */

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
uid_t __wrap_geteuid(void);
int __wrap_close_range(unsigned int first, unsigned int last, int flags);
char *__wrap_crypt_r(const char *phrase, const char *hash, struct crypt_data *data);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __real_event_base_dispatch(struct event_base *base);
int __wrap_event_base_dispatch(struct event_base *base);
int __real_event_base_loopbreak(struct event_base *base);
int __wrap_event_base_loopbreak(struct event_base *base);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *argument);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *argument);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* Not root: the process keeps its user. */
uid_t __wrap_geteuid(void)
{
    return 12345;
}

/* The test keeps its descriptors. */
int __wrap_close_range(unsigned int first, unsigned int last, int flags)
{
    const int kept[] = {listen_fd[0], listen_fd[1], setup.master_fd, setup.lock_fd};

    (void)flags;
    calls.ranges_closed++;
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        calls.kept_closed += (unsigned int)kept[i] >= first && (unsigned int)kept[i] <= last;
    return 0;
}

/* "Hash" and password are the same text. */
char *__wrap_crypt_r(const char *phrase, const char *hash, struct crypt_data *data)
{
    static char failure[] = "*0";

    (void)data;
    while (sem_wait(&permits) != 0)
        continue;
    return strcmp(phrase, hash) == 0 ? (char *)(uintptr_t)hash : failure;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    return calls.thread_error != 0 ? calls.thread_error
                                   : __real_pthread_create(thread, attributes, start, argument);
}

int __wrap_event_base_dispatch(struct event_base *base)
{
    if (calls.script == NULL)
        return __real_event_base_dispatch(base);
    calls.base = base;
    calls.scripts++;
    calls.script();
    return calls.loop;
}

int __wrap_event_base_loopbreak(struct event_base *base)
{
    calls.ended = true;
    return __real_event_base_loopbreak(base);
}

/* The test calls on_second() itself, however long it takes. */
static void ignore_second(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument;
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn callback, void *argument)
{
    if (fd < 0 && calls.script != NULL) {
        calls.on_second = callback;
        calls.second_argument = argument;
        callback = ignore_second;
    }
    return __real_event_new(base, fd, what, callback, argument);
}

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
    errno = EMFILE;
    return calls.no_sockets ? -1 : __real_socketpair(domain, type, protocol, fds);
}

pid_t __wrap_fork(void)
{
    errno = EAGAIN;
    return calls.no_fork ? -1 : __real_fork();
}

/* Process 0 would be the group of the test. */
int __wrap_kill(pid_t pid, int number)
{
    assert_true(pid > 0);
    return __real_kill(pid, number);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (calls.interruptions == 0)
        return __real_waitpid(pid, status, options);
    calls.interruptions--;
    errno = EINTR;
    return -1;
}

/* Returns true if the next call fails with *ERROR. */
static bool fails(int *error)
{
    errno = *error;
    *error = 0;
    return errno != 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(&calls.calloc_error) ? NULL : __real_calloc(count, size);
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    if (fails(&calls.recv_error))
        return -1;
    errno = EAGAIN; /* of an earlier call */
    return __real_recv(fd, data, size, flags);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    calls.sends++;
    return fails(&calls.send_error) ? -1 : __real_send(fd, data, size, flags);
}

/* The kernel chooses the name. */
static int open_listen_socket(int i)
{
    address[i] = (struct sockaddr_un){.sun_family = AF_UNIX};
    address_length[i] = sizeof(address[i]);
    listen_fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return listen_fd[i] >= 0 &&
                   bind(listen_fd[i], (struct sockaddr *)&address[i], sizeof(sa_family_t)) == 0 &&
                   listen(listen_fd[i], 2 * CLIENTS_MAX) == 0 &&
                   getsockname(listen_fd[i], (struct sockaddr *)&address[i], &address_length[i]) ==
                       0
               ? 0
               : -1;
}

static int begin(void **state)
{
    int fds[2];

    (void)state;
    memset(&calls, 0, sizeof(calls));
    config = (struct config){.metrics_hosts = "",
                             .metrics_realm = "Metrics",
                             .metrics_logins = {.file = users_file, .item = &user},
                             .server_user = "",
                             .server_group = "",
                             .server_jail = JAIL_OFF};
    events_forget();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0 ||
        open_listen_socket(0) != 0 || open_listen_socket(1) != 0)
        return -1;
    master_fd = fds[0];
    setup = (struct metrics_setup){.config = &config,
                                   .segment = &segment,
                                   .listen_fd = listen_fd,
                                   .listen_count = LISTEN_SOCKETS,
                                   .master_fd = fds[1],
                                   .lock_fd = fds[1]};
    return own_segment_create(&segment, (struct segment_plan){0});
}

static void close_if_open(int fd)
{
    if (fcntl(fd, F_GETFD) >= 0)
        close(fd);
}

static int end(void **state)
{
    (void)state;
    close_if_open(master_fd);
    close_if_open(listen_fd[0]);
    close_if_open(listen_fd[1]);
    close_if_open(setup.master_fd);
    segment_destroy(&segment);
    return 0;
}

static int count_open(void)
{
    int count = 0;

    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* The process makes its segment read-only, so it gets one of its own. */
static int run(void (*script)(void))
{
    struct segment own = {0};
    char name[INSTANCE_PATH_MAX + 8];
    int status;

    assert_int_equal(own_segment_create(&own, (struct segment_plan){0}), 0);
    assert_int_equal(instance_segment_name(own.header.name, name, INSTANCE_PATH_MAX), 0);
    calls.script = script;
    setup.segment = &own;
    status = metrics_run(&setup);
    setup.segment = &segment;
    segment_forget(&own);
    assert_true(shm_unlink(name) == 0 || shm_unlink(strcat(name, ".new")) == 0);
    return status;
}

/* Runs the loop until no event is left. */
static void step(void)
{
    for (int i = 0; i < STEPS; i++)
        event_base_loop(calls.base, EVLOOP_NONBLOCK);
}

static void second(void)
{
    calls.on_second(-1, EV_TIMEOUT, calls.second_argument);
    step();
}

static int connect_to(int i)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address[i], address_length[i]), 0);
    return fd;
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* A connection with REQUEST. */
static int request(const char *text)
{
    int fd = connect_to(0);

    put(fd, text);
    step();
    return fd;
}

/* All that has arrived at FD, in a static buffer. *ENDED: nothing follows. */
static const char *take(int fd, bool *ended)
{
    static char text[RESPONSE_BYTES];
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length < sizeof(text) - 1) {
        got = read(fd, text + length, sizeof(text) - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    *ended = got == 0 || (got < 0 && errno != EAGAIN);
    return text;
}

static void expect_response(int fd, const char *start, bool end_follows)
{
    bool ended;
    const char *text = take(fd, &ended);

    if (strncmp(text, start, strlen(start)) != 0 || ended != end_follows)
        fail_msg("not '%s', end %d: %s", start, ended, text);
}

/* Requests and their time */

static void use_requests(void)
{
    int before = count_open(), fd;

    for (int i = 0; i < LISTEN_SOCKETS; i++) {
        fd = connect_to(i);
        put(fd, "GET /healthz HT");
        step();
        expect_response(fd, "", false);
        put(fd, "TP/1.1\r\nHost: localhost\r\n\r\n");
        step();
        expect_response(fd, "HTTP/1.1 ", true);
        put(fd, "more");
        step();
        assert_int_equal(count_open(), before + 2); /* it waits for the end of the client's */
        close(fd);
        step();
        assert_int_equal(count_open(), before);
    }
}

static void connection_ends_after_the_client_has(void **state)
{
    int before = count_open();

    (void)state;
    assert_int_equal(run(use_requests), EXIT_SUCCESS);
    assert_int_equal(count_open(), before);
    assert_true(calls.ranges_closed > 0);
    assert_int_equal(calls.kept_closed, 0);
}

static void connect_without_memory(void)
{
    int before = count_open(), fd = connect_to(0);

    calls.calloc_error = ENOMEM;
    event_base_loop(calls.base, EVLOOP_NONBLOCK);
    assert_int_equal(calls.calloc_error, 0);
    expect_response(fd, "", true);
    assert_int_equal(count_open(), before + 1);
    close(fd);
    close(request(health));
}

static void connection_without_memory_ends(void **state)
{
    (void)state;
    assert_int_equal(run(connect_without_memory), EXIT_SUCCESS);
}

static void wait_too_long(void)
{
    int idle = connect_to(0), answered = request(health);

    step();
    for (int i = 0; i < REQUEST_SECONDS; i++)
        second();
    expect_response(idle, "", false);
    second();
    expect_response(idle, "", true);
    expect_response(answered, "HTTP/1.1 ", true);
    assert_false(calls.ended);
    close(idle);
    close(answered);
}

static void request_has_five_seconds(void **state)
{
    (void)state;
    run(wait_too_long);
}

static void connect_too_many(void)
{
    int before = count_open(), fd[CLIENTS_MAX + 1];

    for (int i = 0; i <= CLIENTS_MAX; i++)
        fd[i] = request("");
    assert_int_equal(count_open(), before + CLIENTS_MAX + 1 + CLIENTS_MAX);
    close(fd[3]);
    step();
    assert_int_equal(count_open(), before + 2 * CLIENTS_MAX);
    put(fd[CLIENTS_MAX], health);
    step();
    expect_response(fd[CLIENTS_MAX], "HTTP/1.1 ", true);
    for (int i = 0; i <= CLIENTS_MAX; i++)
        if (i != 3)
            close(fd[i]);
    step();
    assert_int_equal(count_open(), before);
    fd[0] = request(health);
    expect_response(fd[0], "HTTP/1.1 ", true);
    close(fd[0]);
}

static void further_clients_wait(void **state)
{
    (void)state;
    run(connect_too_many);
}

static int left[3];

static void leave_clients(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(left); i++)
        left[i] = request("");
}

static void clients_end_with_the_process(void **state)
{
    int before = count_open();

    (void)state;
    assert_int_equal(run(leave_clients), EXIT_SUCCESS);
    assert_int_equal(count_open(), before + (int)ARRAY_LENGTH(left));
    for (size_t k = 0; k < ARRAY_LENGTH(left); k++)
        close(left[k]);
}

/* Errors of the sockets */

static void interrupt_calls(void)
{
    static const int transient[] = {EAGAIN, EINTR};
    int fd, sends;

    for (size_t i = 0; i < ARRAY_LENGTH(transient); i++) {
        sends = calls.sends;
        calls.recv_error = transient[i];
        calls.send_error = transient[i];
        fd = request(health);
        expect_response(fd, "HTTP/1.1 ", true);
        step();
        assert_int_equal(calls.sends, sends + 2); /* none after the last byte */
        close(fd);
    }
    calls.recv_error = ECONNRESET;
    fd = connect_to(0);
    put(fd, health);
    step();
    expect_response(fd, "", true);
    close(fd);
    calls.send_error = EPIPE;
    fd = request(health);
    expect_response(fd, "", true);
    close(fd);
}

static void transient_error_ends_no_connection(void **state)
{
    (void)state;
    run(interrupt_calls);
}

/* Streams */

static void stream_events(void)
{
    int fd[STREAMS_MAX + 1];

    for (int i = 0; i < STREAMS_MAX; i++) {
        fd[i] = request(stream);
        expect_response(fd[i], "HTTP/1.1 200 ", false);
    }
    fd[STREAMS_MAX] = request(stream);
    expect_response(fd[STREAMS_MAX], "HTTP/1.1 503 ", true);
    for (int i = 0; i < 2 * REQUEST_SECONDS; i++) {
        second();
        expect_response(fd[0], "data: {", false);
    }
    close(fd[STREAMS_MAX]);
    close(fd[1]);
    step();
    fd[1] = request(stream);
    expect_response(fd[1], "HTTP/1.1 200 ", false);
    for (int i = 0; i < STREAMS_MAX; i++)
        close(fd[i]);
}

static void streams_are_limited_and_stay(void **state)
{
    (void)state;
    run(stream_events);
}

/* The end of the master */

static bool is_refused(int i)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = connect(fd, (struct sockaddr *)&address[i], address_length[i]) != 0 &&
                   errno == ECONNREFUSED;

    close(fd);
    return refused;
}

static void end_master_while_clients_wait(void)
{
    int fd[CLIENTS_MAX + 2], answered = 0;

    for (int i = 0; i < CLIENTS_MAX + 2; i++) {
        fd[i] = connect_to(i % LISTEN_SOCKETS);
        put(fd[i], health);
    }
    close(master_fd);
    step();
    for (int i = 0; i < LISTEN_SOCKETS; i++)
        assert_true(is_refused(i));
    assert_false(calls.ended);
    for (int i = 0; i < CLIENTS_MAX + 2; i++) {
        bool ended;

        answered += strncmp(take(fd[i], &ended), "HTTP/1.1 ", 9) == 0;
        close(fd[i]);
    }
    assert_int_equal(answered, CLIENTS_MAX);
    second();
    assert_true(calls.ended);
}

static void clients_that_wait_are_answered_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(run(end_master_while_clients_wait), EXIT_SUCCESS);
}

static void end_master_with_an_open_request(void)
{
    int idle = connect_to(0), fd;

    step();
    fd = request(health);
    close(master_fd);
    step();
    second();
    expect_response(fd, "HTTP/1.1 ", true);
    for (int i = 1; i < REQUEST_SECONDS - 1; i++) {
        second();
        assert_false(calls.ended);
    }
    second();
    assert_true(calls.ended);
    close(idle);
    close(fd);
}

static void open_request_delays_the_end_by_seconds(void **state)
{
    (void)state;
    run(end_master_with_an_open_request);
}

static void end_master_only(void)
{
    second();
    assert_false(calls.ended);
    close(master_fd);
    step();
    assert_true(calls.ended);
}

static void without_clients_it_ends_with_the_master(void **state)
{
    (void)state;
    run(end_master_only);
}

/* Failed logins */

static void expect_byte(uint8_t expected)
{
    uint8_t bytes[2];

    assert_int_equal(read(master_fd, bytes, sizeof(bytes)), 1);
    assert_int_equal(bytes[0], expected);
}

/* Credentials of ann with passwords "secret" and "wrong". */
#define RIGHT "YW5uOnNlY3JldA=="
#define WRONG "YW5uOndyb25n"

static int request_as_ann(const char *credentials)
{
    char text[256];

    snprintf(text, sizeof(text),
             "GET /page.css HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n",
             credentials);
    return request(text);
}

/* Until the thread has verified the password, and the client has its response. */
static void await_response(int fd, const char *start)
{
    int arrived = 0;

    while (arrived == 0) {
        event_base_loop(calls.base, EVLOOP_ONCE);
        assert_int_equal(ioctl(fd, FIONREAD, &arrived), 0);
    }
    step();
    expect_response(fd, start, true);
}

static void fail_logins(int count)
{
    for (int i = 0; i < count; i++) {
        int fd = request_as_ann(WRONG);

        sem_post(&permits);
        await_response(fd, "HTTP/1.1 401 ");
        close(fd);
        step();
    }
}

static void report_failures(void)
{
    static const uint8_t expected[] = {255, 45, 0};

    fail_logins(300);
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        second();
        expect_byte(expected[i]);
    }
    fail_logins(7);
    calls.send_error = EAGAIN; /* the master reads nothing */
    second();
    second();
    expect_byte(7);
}

static void failed_logins_are_reported_in_bytes(void **state)
{
    (void)state;
    config.metrics_logins.count = 1;
    assert_int_equal(run(report_failures), EXIT_SUCCESS);
}

static void wait_for_a_password(void)
{
    int before = count_open(), fd = request(health), unread = 0;

    expect_response(fd, "HTTP/1.1 ", true); /* needs none */
    close(fd);
    step();
    fd = request_as_ann(RIGHT);
    put(fd, "more");
    step();
    assert_int_equal(ioctl(fd, SIOCOUTQ, &unread), 0);
    assert_true(unread > 0); /* it is not read meanwhile */
    for (int i = 0; i < 2 * REQUEST_SECONDS; i++)
        second();
    expect_response(fd, "", false);
    sem_post(&permits);
    await_response(fd, "HTTP/1.1 200 ");
    second();
    assert_int_equal(count_open(), before + 2); /* its time has begun again */
    close(fd);
    step();
    assert_int_equal(count_open(), before);
    fd = request_as_ann(WRONG);
    close(fd); /* it leaves while it waits, which is seen at its verdict */
    sem_post(&permits);
    while (count_open() > before)
        event_base_loop(calls.base, EVLOOP_ONCE);
}

static void wait_for_a_password_is_not_limited(void **state)
{
    (void)state;
    config.metrics_logins.count = 1;
    assert_int_equal(run(wait_for_a_password), EXIT_SUCCESS);
}

/* Start */

static void end_at_once(void)
{
}

static void failed_start_is_a_failure(void **state)
{
    int before = count_open();
    struct sigaction action;

    (void)state;
    config.server_user = "no such user";
    assert_int_equal(run(end_at_once), EXIT_FAILURE);
    config.server_user = "";
    config.metrics_logins.count = 1;
    calls.thread_error = EAGAIN;
    assert_int_equal(run(end_at_once), EXIT_FAILURE);
    assert_int_equal(calls.scripts, 0);
    config.metrics_logins.count = 0;
    calls.loop = -1;
    assert_int_equal(run(end_at_once), EXIT_FAILURE);
    assert_int_equal(calls.scripts, 1);
    calls.loop = 0;
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(run(end_at_once), EXIT_SUCCESS);
    sigaction(SIGHUP, NULL, &action);
    assert_true(action.sa_handler == SIG_IGN);
    assert_in_range(count_open(), before,
                    before + 8); /* the verifier that failed ends with the process */
}

/* The master's side */

static _Atomic int32_t shown_pid;
static struct metrics_process process;

static int begin_process(void **state)
{
    process =
        (struct metrics_process){.child = {.name = "metrics process", .shown_pid = &shown_pid},
                                 .fd = -1,
                                 .segment = &segment};
    shown_pid = 0;
    if (begin(state) != 0)
        return -1;
    close(setup.master_fd);
    setup.listen_count = 0;
    return 0;
}

static uint64_t failed_logins(void)
{
    return metric_get(segment_master(&segment)->metrics, METRIC_metrics_logins_failed);
}

/* A process that is not there. Returns its end of the socket. */
static int connect_process(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    process.child.pid = NO_PROCESS;
    process.fd = fds[0];
    return fds[1];
}

static void check(uint64_t now_ns)
{
    metrics_process_check(&process, 0, 0, now_ns);
}

/* Failed logins and signs of life */

static void bytes_are_numbers_of_failed_logins(void **state)
{
    static const uint8_t bytes[] = {3, 0, 200};
    int fd = connect_process();

    (void)state;
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    check(BEGIN_NS);
    assert_int_equal(failed_logins(), 203);
    assert_int_equal(process.failures, 203);
    check(BEGIN_NS + 1);
    assert_int_equal(failed_logins(), 203);
    close(fd);
    metrics_process_free(&process);
    assert_int_equal(process.fd, -1);
}

/* The socket holds back the rest. */
static void flood_is_read_in_parts(void **state)
{
    uint8_t bytes[150];
    int fd = connect_process();

    (void)state;
    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    check(BEGIN_NS);
    assert_int_equal(failed_logins(), 64);
    check(BEGIN_NS + 1);
    check(BEGIN_NS + 2);
    assert_int_equal(failed_logins(), sizeof(bytes));
    close(fd);
    metrics_process_free(&process);
}

static void only_a_byte_is_a_sign_of_life(void **state)
{
    int fd = connect_process();

    (void)state;
    process.child.heard_ns = BEGIN_NS;
    check(BEGIN_NS + 1);
    assert_int_equal(process.child.heard_ns, BEGIN_NS);
    assert_int_equal(write(fd, "\0", 1), 1);
    check(BEGIN_NS + 2);
    assert_int_equal(process.child.heard_ns, BEGIN_NS + 2);
    close(fd);
    check(BEGIN_NS + 3); /* its end of the socket has ended */
    assert_int_equal(process.child.heard_ns, BEGIN_NS + 2);
    assert_int_equal(failed_logins(), 0);
    metrics_process_free(&process);
}

static void failed_logins_are_logged_once_a_minute(void **state)
{
    uint64_t first_ns = BEGIN_NS + NS_PER_S;
    int fd = connect_process();

    (void)state;
    check(BEGIN_NS);
    assert_int_equal(event_count(), 0);
    assert_int_equal(write(fd, "\5", 1), 1);
    check(BEGIN_NS);
    check(first_ns);
    assert_string_equal(last_event(), "failed logins on metrics.listen: 5");
    assert_int_equal(event_count(), 1);
    assert_int_equal(process.failures, 0);
    assert_int_equal(write(fd, "\1", 1), 1);
    check(first_ns + 1);
    check(first_ns + 60 * NS_PER_S - 1);
    assert_int_equal(event_count(), 1);
    process.child.pid = 0; /* also after its end */
    check(first_ns + 60 * NS_PER_S);
    assert_string_equal(last_event(), "failed logins on metrics.listen: 1");
    assert_int_equal(event_count(), 2);
    process.failures = 1;
    check(first_ns + 61 * NS_PER_S);
    assert_int_equal(event_count(), 2);
    close(fd);
    metrics_process_free(&process);
}

static void without_a_process_nothing_is_read(void **state)
{
    int fd = connect_process();

    (void)state;
    process.child.pid = 0;
    assert_int_equal(write(fd, "\1", 1), 1);
    check(BEGIN_NS);
    assert_int_equal(failed_logins(), 0);
    assert_int_equal(process.child.heard_ns, 0);
    close(fd);
    metrics_process_free(&process);
}

/* A real process */

/* What the master does in each child. */
static void after_fork(void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    metrics_process_free(context);
}

static pid_t start(void)
{
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_true(process.child.pid > 0);
    return process.child.pid;
}

/* Expects that process PID ends with STATUS of wait(2). */
static void expect_end(pid_t pid, int expected)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, expected);
}

static void process_runs_until_its_socket_ends(void **state)
{
    int before = count_open();
    pid_t pid = start();

    (void)state;
    assert_int_equal(shown_pid, pid);
    assert_int_equal(count_open(), before + 1);
    start();
    assert_int_equal(process.child.pid, pid); /* it runs already */
    metrics_process_free(&process);
    assert_int_equal(count_open(), before);
    metrics_process_free(&process);
    expect_end(pid, 0);
}

static void failed_start_leaves_nothing_open(void **state)
{
    int before = count_open();

    (void)state;
    calls.no_sockets = true;
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_string_equal(last_event(), "cannot start the metrics process: Too many open files");
    assert_int_equal(process.fd, -1);
    calls.no_sockets = false;
    assert_int_equal(process.child.backoff.failures, 1);
    process.child.backoff.not_before_ns = UINT64_MAX;              /* however long this takes */
    metrics_process_start(&process, &setup, after_fork, &process); /* waits for its back-off */
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(event_count(), 1);
    process.child.backoff = (struct backoff){0};
    calls.no_fork = true;
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_string_equal(last_event(),
                        "cannot start the metrics process: Resource temporarily unavailable");
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(process.fd, -1);
    assert_int_equal(count_open(), before);
}

static void silent_process_is_killed_once(void **state)
{
    pid_t pid = start();

    (void)state;
    process.child.heard_ns = BEGIN_NS;
    metrics_process_check(&process, 1000, 0, BEGIN_NS + NS_PER_S);
    assert_int_equal(event_count(), 0);
    metrics_process_check(&process, 1000, 0, BEGIN_NS + 2 * NS_PER_S);
    assert_int_equal(event_count(), 1);
    assert_int_equal(process.child.heard_ns, BEGIN_NS + 2 * NS_PER_S);
    metrics_process_check(&process, 1000, 0, BEGIN_NS + 2 * NS_PER_S + 1);
    assert_int_equal(event_count(), 1);
    expect_end(pid, SIGKILL);
    metrics_process_free(&process);
}

static void end_of_the_process_is_counted(void **state)
{
    int before = count_open();
    pid_t pid = start();

    (void)state;
    assert_int_equal(kill(pid, SIGKILL), 0);
    expect_end(pid, SIGKILL);
    assert_false(metrics_process_ended(&process, NO_PROCESS, "exited"));
    assert_int_equal(process.child.pid, pid);
    process.child.started_ns = clock_monotonic_ns(); /* however long that took */
    assert_true(metrics_process_ended(&process, pid, "was killed"));
    assert_non_null(strstr(last_event(), " was killed: starting another"));
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(shown_pid, 0);
    assert_int_equal(process.fd, -1);
    assert_int_equal(count_open(), before);
    assert_int_equal(process.child.backoff.failures, 1);
}

static void released_process_ends_without_a_message(void **state)
{
    pid_t pid = start();

    (void)state;
    process.child.backoff.failures = 3;
    metrics_process_release(&process);
    assert_int_equal(process.leaving, pid);
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(shown_pid, 0);
    assert_int_equal(process.fd, -1);
    assert_int_equal(process.child.backoff.failures, 0);
    expect_end(pid, 0);
    metrics_process_release(&process); /* without a process the leaving one stays */
    assert_int_equal(process.leaving, pid);
    assert_true(metrics_process_ended(&process, pid, "exited"));
    assert_int_equal(process.leaving, 0);
    assert_int_equal(event_count(), 0);
}

/* A process that answers its last requests, and does not look at its socket. */
static pid_t start_one_that_stays(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void second_release_kills_the_first_process(void **state)
{
    pid_t first = start_one_that_stays(), second;

    (void)state;
    process.leaving = first;
    second = start();
    calls.interruptions = 2;
    metrics_process_release(&process);
    assert_int_equal(waitpid(first, NULL, WNOHANG), -1); /* killed and reaped */
    assert_int_equal(errno, ECHILD);
    assert_int_equal(process.leaving, second);
    metrics_process_kill(&process);
    assert_int_equal(process.leaving, 0);
    assert_int_equal(waitpid(second, NULL, WNOHANG), -1);
    metrics_process_kill(&process);
}

static int open_permits(void **state)
{
    (void)state;
    return sem_init(&permits, 0, 0);
}

#define TEST(test)         cmocka_unit_test_setup_teardown(test, begin, end)
#define TEST_PROCESS(test) cmocka_unit_test_setup_teardown(test, begin_process, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* They fork, so they come before the threads of other tests. */
        TEST_PROCESS(bytes_are_numbers_of_failed_logins),
        TEST_PROCESS(flood_is_read_in_parts),
        TEST_PROCESS(only_a_byte_is_a_sign_of_life),
        TEST_PROCESS(failed_logins_are_logged_once_a_minute),
        TEST_PROCESS(without_a_process_nothing_is_read),
        TEST_PROCESS(process_runs_until_its_socket_ends),
        TEST_PROCESS(failed_start_leaves_nothing_open),
        TEST_PROCESS(silent_process_is_killed_once),
        TEST_PROCESS(end_of_the_process_is_counted),
        TEST_PROCESS(released_process_ends_without_a_message),
        TEST_PROCESS(second_release_kills_the_first_process),
        TEST(connection_ends_after_the_client_has),
        TEST(connection_without_memory_ends),
        TEST(request_has_five_seconds),
        TEST(further_clients_wait),
        TEST(clients_end_with_the_process),
        TEST(transient_error_ends_no_connection),
        TEST(streams_are_limited_and_stay),
        TEST(clients_that_wait_are_answered_at_the_end),
        TEST(open_request_delays_the_end_by_seconds),
        TEST(without_clients_it_ends_with_the_master),
        TEST(failed_logins_are_reported_in_bytes),
        TEST(wait_for_a_password_is_not_limited),
        TEST(failed_start_is_a_failure),
    };

    return cmocka_run_group_tests(tests, open_permits, NULL);
}
