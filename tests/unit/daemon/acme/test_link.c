/* The channel of the ACME process, whose other end the test is. The clock is replaced. */
#include "common/clock.h"
#include "daemon/acme/link.h"
#include "daemon/base/channel.h"
#include "daemon/config/acme.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FOREVER_MS = 3600 * 1000, TEXT_BYTES = ACME_EVENT_BYTES };

/* The end of the master, and the last message of each kind there. */
static struct scene {
    struct link *link;
    struct event_base *base;
    struct channel *master;
    int socket; /* of the master */
    unsigned alive, certificates, events, clock_reads;
    uint64_t now_ns, step_ns;
    struct message_acme_challenge challenge;
    struct message_acme_plan plan;
    struct message_acme_key_changed key_changed;
    uint32_t level;
    char text[TEXT_BYTES];
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): name of the linker */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    time->tv_sec = (time_t)(scene.now_ns / NS_PER_S);
    time->tv_nsec = (long)(scene.now_ns % NS_PER_S);
    scene.now_ns += scene.step_ns;
    scene.clock_reads++;
    return 0;
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct message_acme_event *event = data;

    (void)owner, (void)fd;
    switch (kind) {
    case MESSAGE_ACME_ALIVE:
        scene.alive++;
        break;
    case MESSAGE_ACME_CERTIFICATE:
        scene.certificates++;
        break;
    case MESSAGE_ACME_CHALLENGE:
        memcpy(&scene.challenge, data, sizeof(scene.challenge));
        break;
    case MESSAGE_ACME_PLAN:
        memcpy(&scene.plan, data, sizeof(scene.plan));
        break;
    case MESSAGE_ACME_KEY_CHANGED:
        memcpy(&scene.key_changed, data, sizeof(scene.key_changed));
        break;
    default:
        assert_int_equal(kind, MESSAGE_ACME_EVENT);
        assert_int_equal(length, sizeof(*event) + strlen(event->text) + 1);
        scene.events++;
        scene.level = event->level;
        strcpy(scene.text, event->text);
    }
}

static void on_closed(void *owner)
{
    (void)owner;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("the link %s", what);
}

static int set_up(void **state)
{
    const struct channel_owner owner = {
        .message = on_message, .closed = on_closed, .fault = on_fault, .owner = &scene};
    int fds[2];

    (void)state;
    scene = (struct scene){.base = event_base_new(), .now_ns = 100 * NS_PER_S};
    assert_int_equal(channel_pair(fds), 0);
    scene.socket = fds[1];
    scene.link = link_new(fds[0]);
    scene.master = channel_open(scene.base, fds[1], ROUTE_ACME_REPORTS, &owner);
    assert_true(scene.link != NULL && scene.master != NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    link_free(scene.link);
    channel_close(scene.master);
    event_base_free(scene.base);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void receive(void)
{
    event_base_loop(scene.base, EVLOOP_NONBLOCK);
}

static void order_renewal(uint32_t name, uint32_t renewal)
{
    const struct message_acme_renew message = {.name = name, .renewal = renewal};

    assert_int_equal(
        channel_send(scene.master, MESSAGE_ACME_RENEW, &message, sizeof(message), -1, false), 0);
}

static void order_key_change(uint32_t change)
{
    const struct message_acme_change_key message = {.change = change};

    assert_int_equal(
        channel_send(scene.master, MESSAGE_ACME_CHANGE_KEY, &message, sizeof(message), -1, false),
        0);
}

static void report_set(void)
{
    assert_int_equal(channel_send(scene.master, MESSAGE_ACME_CHALLENGE_SET, NULL, 0, -1, false), 0);
}

TEST(orders_are_kept_by_name)
{
    order_renewal(3, 7);
    order_renewal(ACME_NAMES_MAX - 1, 8);
    order_renewal(ACME_NAMES_MAX, 9); /* no such name */
    order_key_change(5);
    assert_int_equal(link_renewal(scene.link, 3), 0);
    assert_true(link_pulse(scene.link));
    assert_int_equal(link_renewal(scene.link, 2), 0);
    assert_int_equal(link_renewal(scene.link, 3), 7);
    assert_int_equal(link_renewal(scene.link, ACME_NAMES_MAX - 1), 8);
    assert_int_equal(link_key_change(scene.link), 5);
}

TEST(sign_of_life_is_sent_once_a_second)
{
    static const struct {
        uint64_t ns;
        unsigned alive;
    } times[] = {
        {0, 1}, {NS_PER_S - 1, 1}, {NS_PER_S, 2}, {2 * NS_PER_S - 1, 2}, {2 * NS_PER_S, 3}};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        scene.now_ns = 100 * NS_PER_S + times[i].ns;
        assert_true(link_pulse(scene.link));
        receive();
        assert_int_equal(scene.alive, times[i].alive);
    }
}

/* An order ends one wait; a wait that nothing ends reads the clock until its time is over. */
TEST(order_ends_a_wait)
{
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            order_renewal(0, 1);
        else
            order_key_change(1);
        assert_true(link_wait_for_request(scene.link, FOREVER_MS));
        scene.step_ns = NS_PER_MS;
        scene.clock_reads = 0;
        assert_true(link_wait_for_request(scene.link, 5));
        assert_true(scene.clock_reads > 2);
        scene.step_ns = 0;
    }
}

TEST(other_message_does_not_end_a_wait)
{
    report_set();
    order_renewal(ACME_NAMES_MAX, 1);
    assert_true(link_pulse(scene.link));
    scene.step_ns = NS_PER_MS;
    scene.clock_reads = 0;
    assert_true(link_wait_for_request(scene.link, 5));
    assert_true(scene.clock_reads > 2);
}

TEST(wait_shows_life)
{
    scene.step_ns = NS_PER_MS;
    assert_true(link_wait(scene.link, 5));
    receive();
    assert_int_equal(scene.alive, 1);
    assert_true(link_wait(scene.link, 0));
}

TEST(end_of_the_master_ends_all_waits)
{
    const struct message_acme_challenge challenge = {.token = "t"};

    order_renewal(0, 1);
    shutdown(scene.socket, SHUT_WR);
    assert_false(link_wait(scene.link, FOREVER_MS));
    assert_false(link_wait_for_request(scene.link, FOREVER_MS));
    assert_false(link_pulse(scene.link));
    assert_int_equal(link_publish(scene.link, &challenge), -1);
}

TEST(invalid_message_ends_the_process)
{
    assert_int_equal(send(scene.socket, "garbage", 7, 0), 7);
    assert_false(link_wait(scene.link, FOREVER_MS));
}

/* Each challenge needs its own answer. */
TEST(challenge_is_published)
{
    const struct message_acme_challenge challenge = {
        .name = 3, .kind = CHALLENGE_TLS_ALPN_01, .token = "tok", .thumbprint = "print"};

    report_set();
    assert_int_equal(link_publish(scene.link, &challenge), 0);
    receive();
    assert_memory_equal(&scene.challenge, &challenge, sizeof(challenge));
    assert_int_equal(scene.alive, 1);
    shutdown(scene.socket, SHUT_WR);
    assert_int_equal(link_publish(scene.link, &challenge), -1);
}

TEST(events_are_cut)
{
    char text[2 * ACME_EVENT_BYTES];

    link_log(scene.link, LEVEL_WARN, "%s is %d", "a", 7);
    receive();
    assert_int_equal(scene.level, LEVEL_WARN);
    assert_string_equal(scene.text, "a is 7");
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    link_log(scene.link, LEVEL_ERROR, "%s", text);
    receive();
    assert_int_equal(scene.events, 2);
    assert_int_equal(scene.level, LEVEL_ERROR);
    assert_int_equal(strlen(scene.text), ACME_EVENT_BYTES - 1);
}

TEST(results_are_reported)
{
    const struct message_acme_plan plan = {
        .name = 3, .failures = 4, .attempted = 1, .next_s = 5, .error = "refused"};
    const struct message_acme_key_changed changed = {.change = 6, .error = "not now"};

    link_report(scene.link, MESSAGE_ACME_PLAN, &plan, sizeof(plan));
    link_report(scene.link, MESSAGE_ACME_KEY_CHANGED, &changed, sizeof(changed));
    link_report(scene.link, MESSAGE_ACME_CERTIFICATE, &(struct message_acme_certificate){1},
                sizeof(struct message_acme_certificate));
    receive();
    assert_int_equal(scene.plan.name, 3);
    assert_int_equal(scene.plan.next_s, 5);
    assert_string_equal(scene.plan.error, "refused");
    assert_int_equal(scene.key_changed.change, 6);
    assert_string_equal(scene.key_changed.error, "not now");
    assert_int_equal(scene.certificates, 1);
}
