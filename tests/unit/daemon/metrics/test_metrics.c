/* The connections of the metrics process. The test runs its event loop and calls its timer. */
#include "daemon/metrics/metrics.h"

#include "common/instance.h"
#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

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
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS_MAX = 64, STREAMS_MAX = 8, REQUEST_SECONDS = 5 }; /* of metrics.c */
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
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* Not root: the process keeps its user. */
uid_t __wrap_geteuid(void)
{
    return 12345;
}

/* The test keeps its descriptors. */
int __wrap_close_range(unsigned int first, unsigned int last, int flags)
{
    const int kept[] = {listen_fd[0], listen_fd[1], setup.master_fd};

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
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0 ||
        open_listen_socket(0) != 0 || open_listen_socket(1) != 0)
        return -1;
    master_fd = fds[0];
    setup = (struct metrics_setup){.config = &config,
                                   .segment = &segment,
                                   .listen_fd = listen_fd,
                                   .listen_count = LISTEN_SOCKETS,
                                   .master_fd = fds[1]};
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

const struct test_fixture test_fixture = {begin, end};

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
    char file[INSTANCE_PATH_MAX];
    int status;

    assert_int_equal(own_segment_create(&own, (struct segment_plan){0}), 0);
    memcpy(file, own.file, sizeof(file));
    calls.script = script;
    setup.segment = &own;
    status = metrics_run(&setup);
    setup.segment = &segment;
    segment_forget(&own);
    assert_int_equal(shm_unlink(file), 0);
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

TEST(connection_ends_after_the_client_has)
{
    int before = count_open();

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

TEST(connection_without_memory_ends)
{
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

TEST(request_has_five_seconds)
{
    run(wait_too_long);
}

/* Streams stay. */
static void connect_too_many(void)
{
    int before = count_open(), fd[2 * CLIENTS_MAX], streams[STREAMS_MAX];

    for (int i = 0; i < STREAMS_MAX; i++)
        streams[i] = request(stream);
    for (int i = 0; i < 2 * CLIENTS_MAX; i++) {
        fd[i] = connect_to(i % LISTEN_SOCKETS);
        step();
        assert_in_range(count_open(), before, before + STREAMS_MAX + i + 1 + CLIENTS_MAX);
    }
    put(fd[2 * CLIENTS_MAX - 1], health);
    step();
    expect_response(fd[2 * CLIENTS_MAX - 1], "HTTP/1.1 ", true);
    for (int i = 0; i < CLIENTS_MAX; i++)
        expect_response(fd[i], "", true);
    expect_response(fd[2 * CLIENTS_MAX - 2], "", false);
    for (int i = 0; i < STREAMS_MAX; i++) {
        expect_response(streams[i], "HTTP/1.1 200 ", false);
        close(streams[i]);
    }
    for (int i = 0; i < 2 * CLIENTS_MAX; i++)
        close(fd[i]);
    step();
    assert_int_equal(count_open(), before);
}

TEST(further_client_takes_the_place_of_the_oldest)
{
    run(connect_too_many);
}

static int left[3];

static void leave_clients(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(left); i++)
        left[i] = request("");
}

TEST(clients_end_with_the_process)
{
    int before = count_open();

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

TEST(transient_error_ends_no_connection)
{
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

TEST(streams_are_limited_and_stay)
{
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

TEST(clients_that_wait_are_answered_at_the_end)
{
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

TEST(open_request_delays_the_end_by_seconds)
{
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

TEST(without_clients_it_ends_with_the_master)
{
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

TEST(failed_logins_are_reported_in_bytes)
{
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

TEST(wait_for_a_password_is_not_limited)
{
    config.metrics_logins.count = 1;
    assert_int_equal(run(wait_for_a_password), EXIT_SUCCESS);
}

/* Start */

static void end_at_once(void)
{
}

TEST(failed_start_is_a_failure)
{
    int before = count_open();
    struct sigaction action;

    config.server_user = "no such user";
    assert_int_equal(run(end_at_once), EXIT_FAILURE);
    config.server_user = "";
    assert_int_equal(calls.scripts, 0);
    calls.loop = -1;
    assert_int_equal(run(end_at_once), EXIT_FAILURE);
    assert_int_equal(calls.scripts, 1);
    calls.loop = 0;
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(run(end_at_once), EXIT_SUCCESS);
    sigaction(SIGHUP, NULL, &action);
    assert_true(action.sa_handler == SIG_IGN);
    assert_int_equal(count_open(), before);
}

static void log_in_without_a_thread(void)
{
    int fd;

    calls.thread_error = EAGAIN;
    fd = request_as_ann(RIGHT);
    expect_response(fd, "HTTP/1.1 503 ", true);
    calls.thread_error = 0;
    close(fd);
}

TEST(login_without_a_thread_is_answered_503)
{
    config.metrics_logins.count = 1;
    assert_int_equal(run(log_in_without_a_thread), EXIT_SUCCESS);
}

static int open_permits(void **state)
{
    (void)state;
    return sem_init(&permits, 0, 0);
}

const struct test_fixture test_group_fixture = {open_permits, NULL};
