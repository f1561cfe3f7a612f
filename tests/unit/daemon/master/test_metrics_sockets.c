/* Which listen sockets for metrics are new, copied or inherited, and which are reported. */
#include "daemon/master/internal.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "tests/test.h"
#include "tests/unit/last_event.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 3 };

static struct {
    struct config config;
    struct config_address listen[ADDRESSES];
    struct metrics_sockets current, sockets, next;
    struct segment segment; /* for events */
    uint64_t events_before;
    bool fake;         /* any address can be bound, to nothing */
    bool listen_fails; /* but not that of a check */
    int descriptors;   /* before the test */
    char why[256];
} scene;

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return scene.fake ? 0 : __real_bind(fd, address, length);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return scene.fake ? 0 : __real_getsockname(fd, address, length);
}

int __wrap_listen(int fd, int backlog)
{
    if (!scene.listen_fails || backlog == 1)
        return __real_listen(fd, backlog);
    errno = EADDRINUSE;
    return -1;
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.config.metrics_listen.item = scene.listen;
    if (own_segment_create(&scene.segment, (struct segment_plan){0}) != 0)
        return -1;
    events_attach(&scene.segment, SEGMENT_RING_MASTER);
    atomic_store(&segment_master(&scene.segment)->log_level, LEVEL_INFO);
    scene.descriptors = open_descriptors();
    return 0;
}

static int end(void **state)
{
    (void)state;
    metrics_sockets_close(&scene.current);
    metrics_sockets_close(&scene.sockets);
    metrics_sockets_close(&scene.next);
    assert_int_equal(open_descriptors(), scene.descriptors);
    events_attach(NULL, 0);
    segment_destroy(&scene.segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* Since the last call. */
static int new_events(void)
{
    uint64_t before = scene.events_before;

    scene.events_before = event_count(&scene.segment);
    return (int)(scene.events_before - before);
}

/* A socket of another program; it listens if LISTENS. Returns it and stores its port. */
static int other_socket(const char *host, bool listens, in_port_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    assert_int_equal(__real_bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(__real_getsockname(fd, (struct sockaddr *)&address, &length), 0);
    if (listens)
        assert_int_equal(__real_listen(fd, 1), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* One that nobody uses now. */
static in_port_t free_port(void)
{
    in_port_t port;

    close(other_socket("127.0.0.1", false, &port));
    return port;
}

static int option(int fd, int level, int name)
{
    socklen_t length = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

static struct config_address address_of(const char *host, in_port_t port)
{
    struct config_address address = {.length = sizeof(address.address)};
    struct sockaddr_in *four = (struct sockaddr_in *)&address.address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address.address;

    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        snprintf(address.text, sizeof(address.text), "%s:%u", host, port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, host, &six->sin6_addr), 1);
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        snprintf(address.text, sizeof(address.text), "[%s]:%u", host, port);
    }
    return address;
}

/* Adds an address to [metrics] listen. */
static void configure(const char *host, in_port_t port)
{
    assert_true(scene.config.metrics_listen.count < ADDRESSES);
    scene.listen[scene.config.metrics_listen.count++] = address_of(host, port);
}

static int open_sockets(struct metrics_sockets *sockets, struct inheritance *inheritance)
{
    sockets->count = CONFIG_LIST_MAX; /* may be anything before */
    return metrics_sockets_open(sockets, &scene.config, &scene.current, inheritance, scene.why,
                                sizeof(scene.why));
}

static void expect_opened(struct metrics_sockets *sockets, size_t count)
{
    if (open_sockets(sockets, NULL) != 0)
        fail_msg("%s", scene.why);
    assert_int_equal(sockets->count, count);
}

static void expect_failure(const char *why, struct inheritance *inheritance)
{
    assert_int_equal(open_sockets(&scene.sockets, inheritance), -1);
    if (strstr(scene.why, why) == NULL)
        fail_msg("'%s' is not in '%s'", why, scene.why);
    assert_int_equal(scene.sockets.count, 0);
}

/* What is open from now on. Returns its port. */
static in_port_t open_current(in_port_t port)
{
    configure("127.0.0.1", port);
    expect_opened(&scene.next, 1);
    metrics_sockets_replace(&scene.current, &scene.next);
    scene.config.metrics_listen.count = 0;
    new_events();
    return listen_socket_port(&scene.current.address[0]);
}

/* --- New sockets --- */

TEST(new_address_is_opened)
{
    in_port_t port = free_port();
    char line[64];

    configure("127.0.0.1", port);
    configure("127.0.0.2", 0);
    expect_opened(&scene.sockets, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(option(scene.sockets.fd[i], SOL_SOCKET, SO_ACCEPTCONN), 1);
        assert_int_equal(option(scene.sockets.fd[i], IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
    }
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), port);
    assert_int_equal(new_events(), 2);
    snprintf(line, sizeof(line), "metrics on http://127.0.0.2:%u/metrics",
             listen_socket_port(&scene.sockets.address[1]));
    assert_string_equal(last_event(&scene.segment), line);
}

TEST(address_that_is_in_use_is_an_error)
{
    in_port_t port;
    int other = other_socket("127.0.0.2", true, &port);

    configure("127.0.0.1", 0);
    configure("127.0.0.2", port);
    expect_failure(strerror(EADDRINUSE), NULL);
    expect_failure("or set metrics.listen to another port", NULL);
    assert_int_equal(new_events(), 2); /* the first address, each time */
    close(other);
}

TEST(address_that_cannot_be_opened_is_an_error)
{
    char why[128];

    configure("127.0.0.1", 9180);
    scene.fake = scene.listen_fails = true;
    snprintf(why, sizeof(why), "cannot listen on 127.0.0.1:9180: %s", strerror(EADDRINUSE));
    expect_failure(why, NULL);
    assert_int_equal(new_events(), 0);
}

TEST(address_that_other_machines_can_reach_is_warned_of)
{
    static const struct {
        const char *host;
        bool reachable;
    } cases[] = {
        {"127.0.0.1", false}, {"127.255.1.2", false}, {"126.0.0.1", true},   {"128.0.0.1", true},
        {"0.0.0.0", true},    {"::1", false},         {"2001:db8::1", true}, {"::", true},
    };

    scene.fake = true;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.config.metrics_listen.count = 0;
        configure(cases[i].host, 9180);
        expect_opened(&scene.sockets, 1);
        assert_int_equal(new_events(), cases[i].reachable ? 2 : 1);
        metrics_sockets_close(&scene.sockets);
    }
}

TEST(warning_says_whether_a_password_is_needed)
{
    scene.fake = true;
    configure("192.0.2.1", 9180);
    expect_opened(&scene.sockets, 1);
    assert_non_null(strstr(last_event(&scene.segment), "they need no password"));
    assert_non_null(strstr(last_event(&scene.segment), "set metrics.users, or set metrics.listen"));
    metrics_sockets_close(&scene.sockets);
    scene.config.metrics_logins.count = 1;
    expect_opened(&scene.sockets, 1);
    assert_non_null(
        strstr(last_event(&scene.segment), "passwords cross the network in clear text"));
    assert_null(strstr(last_event(&scene.segment), "metrics.users"));
}

/* --- Copies --- */

TEST(open_socket_is_copied)
{
    in_port_t port = open_current(0);

    configure("127.0.0.1", 0);
    configure("127.0.0.2", 0);
    expect_opened(&scene.sockets, 2);
    assert_int_equal(new_events(), 1); /* the other one */
    assert_int_not_equal(scene.sockets.fd[0], scene.current.fd[0]);
    assert_true((fcntl(scene.sockets.fd[0], F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), port);
}

TEST(socket_that_cannot_be_copied_is_an_error)
{
    char why[128];

    open_current(0);
    close(scene.current.fd[0]);
    configure("127.0.0.1", 0);
    snprintf(why, sizeof(why), "cannot listen on 127.0.0.1:0: %s", strerror(EBADF));
    expect_failure(why, NULL);
    scene.current.count = 0;
}

/* A check would find the socket that is replaced. */
TEST(port_of_an_open_socket_is_not_checked)
{
    in_port_t port = open_current(0);

    configure("0.0.0.0", port);
    expect_opened(&scene.sockets, 1);
}

TEST(socket_that_was_closed_is_not_copied)
{
    in_port_t port = open_current(0), taken;
    int other;

    metrics_sockets_close(&scene.current);
    assert_int_equal(scene.current.count, 0);
    other = other_socket("127.0.0.1", true, &taken);
    configure("127.0.0.1", port);
    configure("127.0.0.1", taken);
    expect_failure(strerror(EADDRINUSE), NULL); /* the second one: the first one is opened */
    assert_int_equal(new_events(), 1);
    close(other);
}

/* --- Inherited sockets --- */

TEST(inherited_socket_is_taken_over)
{
    in_port_t port;
    int fd = other_socket("127.0.0.1", true, &port);
    char line[64];
    struct inherited_socket inherited[] = {
        {.fd = 1000, .text = "127.0.0.1:0"},                  /* of [server] listen */
        {.fd = -1, .metrics = true, .text = "127.0.0.1:0"},   /* taken over before */
        {.fd = 1000, .metrics = true, .text = "127.0.0.2:0"}, /* another address */
        {.fd = fd, .metrics = true, .text = "127.0.0.1:0"},
    };
    struct inheritance inheritance = {.socket = inherited, .count = ARRAY_LENGTH(inherited)};

    configure("127.0.0.1", 0);
    assert_int_equal(open_sockets(&scene.sockets, &inheritance), 0);
    assert_int_equal(scene.sockets.fd[0], fd);
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), port);
    assert_int_equal(inherited[3].fd, -1);
    assert_int_equal(inherited[0].fd, 1000);
    assert_int_equal(inherited[2].fd, 1000);
    snprintf(line, sizeof(line), "metrics on http://127.0.0.1:%u/metrics", port);
    assert_string_equal(last_event(&scene.segment), line);
}

TEST(socket_that_is_not_inherited_is_opened)
{
    struct inherited_socket inherited[] = {
        {.fd = 1000, .text = "127.0.0.1:0"},
        {.fd = 1000, .metrics = true, .text = "127.0.0.1:0"}, /* beyond the number */
    };
    struct inheritance inheritance = {.socket = inherited, .count = 1};

    configure("127.0.0.1", 0);
    assert_int_equal(open_sockets(&scene.sockets, &inheritance), 0);
    assert_int_not_equal(scene.sockets.fd[0], 1000);
}

TEST(inherited_socket_is_closed_after_an_error)
{
    in_port_t port;
    struct inherited_socket inherited = {
        .fd = other_socket("127.0.0.1", true, &port), .metrics = true, .text = "127.0.0.1:0"};
    struct inheritance inheritance = {.socket = &inherited, .count = 1};

    configure("127.0.0.1", 0);
    configure("192.0.2.1", 9180);
    expect_failure(strerror(EADDRNOTAVAIL), &inheritance);
    assert_int_equal(inherited.fd, -1);
}

/* --- Replacement and export --- */

TEST(replacement_closes_the_previous_sockets)
{
    open_current(0);
    configure("127.0.0.1", 0);
    expect_opened(&scene.next, 1);
    assert_false(metrics_sockets_replace(&scene.current, &scene.next));
    assert_int_equal(scene.current.count, 1);
    assert_int_equal(scene.next.count, 0);
    assert_int_equal(open_descriptors(), scene.descriptors + 1);
}

TEST(replacement_reports_other_addresses)
{
    static const in_port_t ports[][2] = {{9180, 0}, {9180, 9181}, {9180, 9182}, {9180, 0}, {0, 0}};

    scene.fake = true;
    for (size_t i = 0; i < ARRAY_LENGTH(ports); i++) {
        scene.config.metrics_listen.count = 0;
        for (size_t j = 0; j < 2 && ports[i][j] > 0; j++)
            configure("127.0.0.1", ports[i][j]);
        expect_opened(&scene.next, scene.config.metrics_listen.count);
        assert_true(metrics_sockets_replace(&scene.current, &scene.next));
        assert_int_equal(scene.current.count, scene.config.metrics_listen.count);
    }
}

TEST(new_master_gets_all_sockets)
{
    struct inherited_socket exported[ADDRESSES];

    scene.fake = true;
    configure("127.0.0.1", 9180);
    configure("127.0.0.2", 0);
    expect_opened(&scene.sockets, 2);
    memset(exported, 0xff, sizeof(exported));
    assert_int_equal(metrics_sockets_export(&scene.sockets, exported), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(exported[i].fd, scene.sockets.fd[i]);
        assert_true(exported[i].metrics);
        assert_false(exported[i].shared || exported[i].tls || exported[i].proxy ||
                     exported[i].activated);
        assert_string_equal(exported[i].text, scene.listen[i].text); /* as configured */
    }
    assert_int_equal(exported[2].fd, -1);
}
