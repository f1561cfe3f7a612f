/* Engine raw, a server that is faster than the client, and one that closes an idle connection. */
#include "common/clock.h"
#include "loadgen/engine/engine.h"
#include "loadgen/plan/request_plan.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n";

static struct plan plan;
static struct request_plan request_plan;
static struct event_base *base;
static struct engine *engine; /* with one slot */
static enum error_kind error; /* of the last request */
static int listener = -1, accepted = -1;
static size_t calls;
static bool real_recv; /* else there is always as much as the caller can take */
static time_t later_s; /* added to the test's clock */

enum { CALLS = 10 }; /* then the test's clock has passed the timeout */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
ssize_t __real_recv(int fd, void *buffer, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags)
{
    if (real_recv)
        return __real_recv(fd, buffer, size, flags);
    memset(buffer, 'x', size);
    if (calls++ == 0)
        memcpy(buffer, head, strlen(head));
    return (ssize_t)size;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (calls < CALLS ? 1000 : 2000) + later_s};
    return 0;
}

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return -1;
    return ntohs(address.sin_port);
}

static void on_connected(void *context, uint32_t slot)
{
    (void)context;
    (void)slot;
}

static void on_end(void *context, uint32_t slot, struct transaction *transaction, uint64_t now_ns)
{
    (void)context;
    (void)slot;
    (void)now_ns;
    error = transaction->error;
    event_base_loopbreak(base);
}

static int begin(void **state)
{
    static char url[64];
    static struct error_texts error_texts;
    static struct negotiations negotiations;
    struct engine_config config = {
        .plan = &plan,
        .request_plan = &request_plan,
        .owner = {.connected = on_connected, .ended = on_end},
        .error_texts = &error_texts,
        .negotiations = &negotiations,
    };
    char why[256];
    int port = listen_anywhere();

    (void)state;
    calls = 0;
    later_s = 0;
    real_recv = false;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
    plan = (struct plan){.urls = {url},
                         .url_count = 1,
                         .method = "GET",
                         .connections = 1,
                         .streams = 1,
                         .keepalive = true,
                         .timeout_ms = 60 * 1000};
    config.base = base = event_base_new();
    if (port <= 0 || base == NULL ||
        request_plan_prepare(&request_plan, &plan, why, sizeof(why)) != 0)
        return -1;
    engine = engine_raw.create(&config);
    return engine != NULL && engine_raw.reserve(engine, 1) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    engine_raw.destroy(engine);
    request_plan_free(&request_plan);
    event_base_free(base);
    return close(listener);
}

const struct test_fixture test_fixture = {begin, end};

/* The byte that it sends makes the client's socket readable until the end. */
static void on_connecting(evutil_socket_t fd, short events, void *context)
{
    (void)events;
    (void)context;
    accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(send(accepted, "x", 1, 0), 1);
}

/* It would be read for ever if the timer of the timeout had no turn. */
TEST(endless_body_ends_at_the_timeout)
{
    struct event *connecting = event_new(base, listener, EV_READ, on_connecting, NULL);

    engine_raw.begin(engine, 0, &request_plan.requests[0], clock_monotonic_ns());
    engine_raw.flush(engine);
    event_add(connecting, NULL);
    event_base_dispatch(base);
    assert_true(calls >= CALLS);
    assert_int_equal(error, ERROR_KIND_TIMEOUT);
    event_free(connecting);
    close(accepted);
}

/* Accepts, and answers the request that is on its way. */
static void on_request(evutil_socket_t fd, short events, void *context)
{
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    (void)events;
    (void)context;
    accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    calls++;
    assert_int_equal(send(accepted, response, sizeof(response) - 1, 0), sizeof(response) - 1);
}

/* A busy client has not polled the connection since the server closed it. */
TEST(closed_idle_connection_is_not_used)
{
    struct event *arriving = event_new(base, listener, EV_READ | EV_PERSIST, on_request, NULL);

    real_recv = true;
    event_add(arriving, NULL);
    for (int i = 0; i < 2; i++) {
        error = ERROR_KIND_OTHER;
        engine_raw.begin(engine, 0, &request_plan.requests[0], clock_monotonic_ns());
        engine_raw.flush(engine);
        event_base_dispatch(base);
        assert_int_equal(error, ERROR_KIND_NONE);
        close(accepted);
        later_s++;
    }
    assert_int_equal(calls, 2);
    event_free(arriving);
}
