/* Addresses of metrics that other machines can reach, and inherited sockets after an error. */
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
#include <string.h>
#include <sys/socket.h>

enum { ADDRESSES = 2 };

static struct {
    struct config config;
    struct config_address listen[ADDRESSES];
    struct metrics_sockets sockets;
    struct segment segment; /* for events */
    bool any_address;       /* can be bound, to nothing */
    int descriptors;        /* before the test */
    char why[256];
} scene;

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return scene.any_address ? 0 : __real_bind(fd, address, length);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return scene.any_address ? 0 : __real_getsockname(fd, address, length);
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
    metrics_sockets_close(&scene.sockets);
    assert_int_equal(open_descriptors(), scene.descriptors);
    events_attach(NULL, 0);
    segment_destroy(&scene.segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* Adds an address to [metrics] listen. */
static void configure(const char *host, in_port_t port)
{
    struct config_address *address = &scene.listen[scene.config.metrics_listen.count++];
    struct sockaddr_in *four = (struct sockaddr_in *)&address->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->address;

    *address = (struct config_address){.length = sizeof(address->address)};
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, host, &six->sin6_addr), 1);
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
    }
    snprintf(address->text, sizeof(address->text), "%s:%u", host, port);
}

static int open_sockets(struct inheritance *inheritance)
{
    const struct metrics_sockets none = {.count = 0};

    return metrics_sockets_open(&scene.sockets, &scene.config, &none, inheritance, scene.why,
                                sizeof(scene.why));
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

    scene.any_address = true;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t before = event_count(&scene.segment);

        scene.config.metrics_listen.count = 0;
        configure(cases[i].host, 9180);
        assert_int_equal(open_sockets(NULL), 0);
        assert_int_equal(event_count(&scene.segment) - before, cases[i].reachable ? 2 : 1);
        metrics_sockets_close(&scene.sockets);
    }
}

/* The descriptors are as before: see end(). */
TEST(inherited_socket_is_closed_after_an_error)
{
    struct inherited_socket inherited = {
        .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .metrics = true, .text = "::1:0"};
    struct inheritance inheritance = {.socket = &inherited, .count = 1};

    configure("::1", 0);
    configure("192.0.2.1", 9180);
    assert_int_equal(open_sockets(&inheritance), -1);
    assert_non_null(strstr(scene.why, strerror(EADDRNOTAVAIL)));
    assert_int_equal(inherited.fd, -1);
    assert_int_equal(scene.sockets.count, 0);
}
