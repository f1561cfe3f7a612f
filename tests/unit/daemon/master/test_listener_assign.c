/* Which worker gets which listen socket, seen from the workers' ends of their channels. */
#include "daemon/master/listeners.h"

#include "common/macros.h"
#include "daemon/base/messages.h"
#include "daemon/config/load.h"
#include "tests/test.h"

#include <string.h>
#include <unistd.h>

enum { WORKERS = 3, ROWS = 4, LOG_MAX = 64 };

/* A worker's end of its channel. */
struct end {
    struct channel *sender, *receiver;
    char log[LOG_MAX]; /* "+3 -1": socket 3 added, socket 1 dropped */
};

static struct event_base *base;
static struct config config;
static struct listeners *listeners;
static struct end ends[WORKERS];

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct end *end = owner;
    const struct message_listen_socket *message = data;
    size_t used = strlen(end->log);

    assert_int_equal(length, sizeof(*message));
    assert_int_equal(fd >= 0, kind == MESSAGE_LISTEN_SOCKET_ADD);
    if (fd >= 0)
        close(fd);
    snprintf(end->log + used, sizeof(end->log) - used, "%s%c%u", used > 0 ? " " : "",
             kind == MESSAGE_LISTEN_SOCKET_ADD ? '+' : '-', message->id);
}

static void on_closed(void *owner)
{
    (void)owner;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("%s", what);
}

static int set_up(void **state)
{
    static const char *const overrides[] = {"server.listen=127.0.0.1:0", "server.root=/"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    char why[256];

    (void)state;
    base = event_base_new();
    if (config_load(&config, &sources, stderr) != 0)
        return -1;
    listeners = listeners_open(&config, ROWS, NULL, why, sizeof(why));
    for (int i = 0; i < WORKERS; i++) {
        const struct channel_owner owner = {
            .message = on_message, .closed = on_closed, .fault = on_fault, .owner = &ends[i]};
        int fds[2];

        if (channel_pair(fds) != 0)
            return -1;
        ends[i].sender = channel_open(base, fds[0], ROUTE_REPORTS, &owner);
        ends[i].receiver = channel_open(base, fds[1], ROUTE_COMMANDS, &owner);
    }
    return listeners != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        channel_close(ends[i].sender);
        channel_close(ends[i].receiver);
    }
    listeners_close(listeners);
    config_free(&config);
    event_base_free(base);
    return 0;
}

const struct test_fixture test_group_fixture = {set_up, tear_down};

/* Assigns to the first COUNT workers and compares what each of them receives. */
static void expect_update(struct listener_assign *assign, uint32_t count, const char *first,
                          const char *second, const char *third)
{
    struct listener_target targets[WORKERS] = {
        {.worker = 0, .commands = ends[0].sender},
        {.worker = 1, .commands = ends[1].sender},
        {.worker = 2, .commands = ends[2].sender},
    };

    assert_int_equal(listener_assign_update(assign, listeners, targets, count), 0);
    for (int i = 0; i < WORKERS; i++) {
        ends[i].log[0] = '\0';
        channel_read_all(ends[i].receiver);
    }
    assert_string_equal(ends[0].log, first);
    assert_string_equal(ends[1].log, second);
    assert_string_equal(ends[2].log, third);
}

TEST(rows_are_spread_over_the_workers)
{
    struct listener_assign assign = {0};

    expect_update(&assign, 2, "+0 +2", "+1 +3", "");
    expect_update(&assign, 2, "", "", ""); /* nothing moves twice */
    listener_assign_free(&assign);
}

TEST(another_worker_takes_over_only_its_share)
{
    struct listener_assign assign = {0};

    expect_update(&assign, 1, "+0 +1 +2 +3", "", "");
    expect_update(&assign, 2, "-2 -3", "+2 +3", "");
    expect_update(&assign, 3, "", "-3", "+3");
    listener_assign_free(&assign);
}

TEST(sockets_of_a_dead_worker_go_to_the_others)
{
    struct listener_assign assign = {0};

    expect_update(&assign, 3, "+0 +3", "+1", "+2");
    listener_assign_remove_worker(&assign, 2);
    expect_update(&assign, 2, "", "+2", "");
    expect_update(&assign, 3, "-3", "", "+3");
    listener_assign_free(&assign);
}

TEST(sockets_of_a_worker_that_starts_again_in_its_slot_are_sent_again)
{
    struct listener_assign assign = {0};

    expect_update(&assign, 2, "+0 +2", "+1 +3", "");
    listener_assign_remove_worker(&assign, 0);
    expect_update(&assign, 2, "+0 +2", "", "");
    listener_assign_free(&assign);
}

TEST(lost_socket_is_sent_again)
{
    struct listener_assign assign = {0};

    expect_update(&assign, 2, "+0 +2", "+1 +3", "");
    assert_true(listener_assign_remove(&assign, 1, 0)); /* not its socket: ignored */
    assert_true(listener_assign_remove(&assign, 0, 2));
    assert_false(listener_assign_remove(&assign, 0, 100));
    expect_update(&assign, 2, "+2", "", "");
    listener_assign_free(&assign);
}
