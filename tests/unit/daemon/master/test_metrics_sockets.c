/* Which listen sockets for metrics are new, copied or inherited, and which are reported. The test opens them. */
#include "daemon/master/internal.h"

#include "common/macros.h"
#include "tests/unit/logged_event.h"
#include "tests/unit/open_descriptors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 3, BOUND_PORT = 40000 };

static struct {
    struct config config;
    struct config_address listen[ADDRESSES];
    struct metrics_sockets current, sockets, next;
    const char *checked; /* the last address; NULL: none */
    int opened;          /* calls */
    int check_fails;     /* the number of the address; -1: none */
    int open_fails;
    int descriptors; /* before the test */
    char why[256];
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
int wrapped_check(const struct config_address *address, const char *key, char *why,
                  size_t size) __asm__("__wrap_listen_socket_check");
int wrapped_open(struct config_address *address, uint32_t backlog,
                 bool defer) __asm__("__wrap_listen_socket_open");

int wrapped_check(const struct config_address *address, const char *key, char *why, size_t size)
{
    assert_string_equal(key, "metrics.listen");
    scene.checked = address->text;
    if (scene.opened != scene.check_fails)
        return 0;
    snprintf(why, size, "in use");
    return -1;
}

/* A port that was 0 becomes BOUND_PORT. */
int wrapped_open(struct config_address *address, uint32_t backlog, bool defer)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&address->address;

    assert_true(backlog > 0);
    assert_false(defer); /* a connection is reported at once */
    errno = EADDRINUSE;
    if (scene.opened == scene.open_fails)
        return -1;
    scene.opened++;
    if (address->address.ss_family == AF_INET && four->sin_port == 0)
        four->sin_port = htons(BOUND_PORT);
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.check_fails = scene.open_fails = -1;
    scene.config.metrics_listen.item = scene.listen;
    scene.descriptors = open_descriptors();
    events = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    metrics_sockets_close(&scene.current);
    metrics_sockets_close(&scene.sockets);
    metrics_sockets_close(&scene.next);
    assert_int_equal(open_descriptors(), scene.descriptors);
    return 0;
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
    assert_string_equal(scene.why, why);
    assert_int_equal(scene.sockets.count, 0);
}

/* What is open from now on. */
static void open_current(const char *host, in_port_t port)
{
    configure(host, port);
    expect_opened(&scene.next, 1);
    metrics_sockets_replace(&scene.current, &scene.next);
    scene.config.metrics_listen.count = 0;
    scene.opened = 0;
    scene.checked = NULL;
    events = 0;
}

/* --- New sockets --- */

static void new_address_is_checked_and_opened(void **state)
{
    (void)state;
    configure("127.0.0.1", 9180);
    configure("127.0.0.2", 0);
    expect_opened(&scene.sockets, 2);
    assert_int_equal(scene.opened, 2);
    assert_string_equal(scene.checked, "127.0.0.2:0");
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), 9180);
    assert_int_equal(listen_socket_port(&scene.sockets.address[1]), BOUND_PORT);
    assert_int_equal(events, 2);
    assert_string_equal(logged, "metrics on http://127.0.0.2:40000/metrics");
}

static void address_that_is_in_use_is_an_error(void **state)
{
    (void)state;
    configure("127.0.0.1", 9180);
    configure("127.0.0.2", 9180);
    scene.check_fails = 1;
    expect_failure("in use", NULL);
    assert_int_equal(scene.opened, 1);
    assert_int_equal(events, 1); /* the first address */
}

static void address_that_cannot_be_opened_is_an_error(void **state)
{
    char why[128];

    (void)state;
    configure("127.0.0.1", 9180);
    configure("127.0.0.2", 9180);
    scene.open_fails = 1;
    snprintf(why, sizeof(why), "cannot listen on 127.0.0.2:9180: %s", strerror(EADDRINUSE));
    expect_failure(why, NULL);
    assert_int_equal(events, 1);
}

static void address_that_other_machines_can_reach_is_warned_of(void **state)
{
    static const struct {
        const char *host;
        bool reachable;
    } cases[] = {
        {"127.0.0.1", false}, {"127.255.1.2", false}, {"126.0.0.1", true},   {"128.0.0.1", true},
        {"0.0.0.0", true},    {"::1", false},         {"2001:db8::1", true}, {"::", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.config.metrics_listen.count = 0;
        configure(cases[i].host, 9180);
        events = 0;
        expect_opened(&scene.sockets, 1);
        assert_int_equal(events, cases[i].reachable ? 2 : 1);
        metrics_sockets_close(&scene.sockets);
    }
}

static void warning_says_whether_a_password_is_needed(void **state)
{
    (void)state;
    configure("192.0.2.1", 9180);
    expect_opened(&scene.sockets, 1);
    assert_non_null(strstr(logged, "they need no password"));
    assert_non_null(strstr(logged, "set metrics.users, or set metrics.listen"));
    metrics_sockets_close(&scene.sockets);
    scene.config.metrics_logins.count = 1;
    expect_opened(&scene.sockets, 1);
    assert_non_null(strstr(logged, "passwords cross the network in clear text"));
    assert_null(strstr(logged, "metrics.users"));
}

/* --- Copies --- */

static void open_socket_is_copied(void **state)
{
    (void)state;
    open_current("127.0.0.1", 0);
    configure("127.0.0.1", 0);
    configure("127.0.0.2", 9180);
    expect_opened(&scene.sockets, 2);
    assert_int_equal(scene.opened, 1);
    assert_string_equal(scene.checked, "127.0.0.2:9180");
    assert_int_equal(events, 1); /* the other one */
    assert_int_not_equal(scene.sockets.fd[0], scene.current.fd[0]);
    assert_true((fcntl(scene.sockets.fd[0], F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), BOUND_PORT);
}

static void socket_that_cannot_be_copied_is_an_error(void **state)
{
    char why[128];

    (void)state;
    open_current("127.0.0.1", 9180);
    close(scene.current.fd[0]);
    configure("127.0.0.1", 9180);
    snprintf(why, sizeof(why), "cannot listen on 127.0.0.1:9180: %s", strerror(EBADF));
    expect_failure(why, NULL);
    scene.current.count = 0;
}

/* The check would find the socket that is replaced. */
static void port_of_an_open_socket_is_not_checked(void **state)
{
    (void)state;
    open_current("127.0.0.1", 9180);
    configure("0.0.0.0", 9180);
    expect_opened(&scene.sockets, 1);
    assert_null(scene.checked);
    assert_int_equal(scene.opened, 1);
}

static void socket_that_was_closed_is_not_copied(void **state)
{
    (void)state;
    open_current("127.0.0.1", 9180);
    metrics_sockets_close(&scene.current);
    assert_int_equal(scene.current.count, 0);
    configure("127.0.0.1", 9180);
    expect_opened(&scene.sockets, 1);
    assert_non_null(scene.checked);
    assert_int_equal(scene.opened, 1);
}

/* --- Inherited sockets --- */

static int listening_socket(in_port_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void inherited_socket_is_taken_over(void **state)
{
    in_port_t port;
    int fd = listening_socket(&port);
    char line[64];
    struct inherited_socket inherited[] = {
        {.fd = 1000, .text = "127.0.0.1:0"},                  /* of [server] listen */
        {.fd = -1, .metrics = true, .text = "127.0.0.1:0"},   /* taken over before */
        {.fd = 1000, .metrics = true, .text = "127.0.0.2:0"}, /* another address */
        {.fd = fd, .metrics = true, .text = "127.0.0.1:0"},
    };
    struct inheritance inheritance = {.socket = inherited, .count = ARRAY_LENGTH(inherited)};

    (void)state;
    configure("127.0.0.1", 0);
    assert_int_equal(open_sockets(&scene.sockets, &inheritance), 0);
    assert_int_equal(scene.sockets.fd[0], fd);
    assert_int_equal(listen_socket_port(&scene.sockets.address[0]), port);
    assert_null(scene.checked);
    assert_int_equal(scene.opened, 0);
    assert_int_equal(inherited[3].fd, -1);
    assert_int_equal(inherited[0].fd, 1000);
    assert_int_equal(inherited[2].fd, 1000);
    snprintf(line, sizeof(line), "metrics on http://127.0.0.1:%u/metrics", port);
    assert_string_equal(logged, line);
}

static void socket_that_is_not_inherited_is_opened(void **state)
{
    struct inherited_socket inherited[] = {
        {.fd = 1000, .text = "127.0.0.1:0"},
        {.fd = 1000, .metrics = true, .text = "127.0.0.1:0"}, /* beyond the number */
    };
    struct inheritance inheritance = {.socket = inherited, .count = 1};

    (void)state;
    configure("127.0.0.1", 0);
    assert_int_equal(open_sockets(&scene.sockets, &inheritance), 0);
    assert_int_equal(scene.opened, 1);
}

static void inherited_socket_is_closed_after_an_error(void **state)
{
    in_port_t port;
    struct inherited_socket inherited = {
        .fd = listening_socket(&port), .metrics = true, .text = "127.0.0.1:0"};
    struct inheritance inheritance = {.socket = &inherited, .count = 1};

    (void)state;
    configure("127.0.0.1", 0);
    configure("127.0.0.2", 9180);
    scene.check_fails = 0;
    expect_failure("in use", &inheritance);
    assert_int_equal(inherited.fd, -1);
}

/* --- Replacement and export --- */

static void replacement_closes_the_previous_sockets(void **state)
{
    (void)state;
    open_current("127.0.0.1", 9180);
    configure("127.0.0.1", 9180);
    expect_opened(&scene.next, 1);
    assert_false(metrics_sockets_replace(&scene.current, &scene.next));
    assert_int_equal(scene.current.count, 1);
    assert_int_equal(scene.next.count, 0);
    assert_int_equal(open_descriptors(), scene.descriptors + 1);
}

static void replacement_reports_other_addresses(void **state)
{
    static const in_port_t ports[][2] = {{9180, 0}, {9180, 9181}, {9180, 9182}, {9180, 0}, {0, 0}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(ports); i++) {
        scene.config.metrics_listen.count = 0;
        for (size_t j = 0; j < 2 && ports[i][j] > 0; j++)
            configure("127.0.0.1", ports[i][j]);
        expect_opened(&scene.next, scene.config.metrics_listen.count);
        assert_true(metrics_sockets_replace(&scene.current, &scene.next));
        assert_int_equal(scene.current.count, scene.config.metrics_listen.count);
    }
}

static void new_master_gets_all_sockets(void **state)
{
    struct inherited_socket exported[ADDRESSES];

    (void)state;
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(new_address_is_checked_and_opened),
        TEST(address_that_is_in_use_is_an_error),
        TEST(address_that_cannot_be_opened_is_an_error),
        TEST(address_that_other_machines_can_reach_is_warned_of),
        TEST(warning_says_whether_a_password_is_needed),
        TEST(open_socket_is_copied),
        TEST(socket_that_cannot_be_copied_is_an_error),
        TEST(port_of_an_open_socket_is_not_checked),
        TEST(socket_that_was_closed_is_not_copied),
        TEST(inherited_socket_is_taken_over),
        TEST(socket_that_is_not_inherited_is_opened),
        TEST(inherited_socket_is_closed_after_an_error),
        TEST(replacement_closes_the_previous_sockets),
        TEST(replacement_reports_other_addresses),
        TEST(new_master_gets_all_sockets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
