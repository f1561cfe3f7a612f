#include "common/macros.h"
#include "daemon/base/channel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MANY = 3000 };

/* Both ends in one event loop. */
struct ends {
    struct event_base *base;
    struct channel *here, *there;
    int received, descriptors, closed, drained;
    size_t last_length;
};

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct ends *ends = owner;
    char byte;

    assert_int_equal(kind, ends->received); /* in order */
    ends->received++;
    ends->last_length = length;
    for (size_t i = 0; i < length; i++)
        assert_int_equal(((const char *)data)[i], (char)(kind + (int)i));
    if (fd < 0)
        return;
    ends->descriptors++;
    assert_int_equal(read(fd, &byte, 1), 0); /* it is /dev/null, passed by the other end */
    close(fd);
}

static void on_closed(void *owner)
{
    ((struct ends *)owner)->closed++;
}

static void on_drained(void *owner)
{
    ((struct ends *)owner)->drained++;
}

static void open_ends(struct ends *ends)
{
    struct channel_owner owner = {on_message, on_closed, on_drained, ends};
    int fds[2];

    *ends = (struct ends){.base = event_base_new()};
    assert_int_equal(channel_pair(fds), 0);
    ends->here = channel_open(ends->base, fds[0], &owner);
    ends->there = channel_open(ends->base, fds[1], &owner);
    assert_non_null(ends->here);
    assert_non_null(ends->there);
}

static void close_ends(struct ends *ends)
{
    channel_close(ends->here);
    channel_close(ends->there);
    event_base_free(ends->base);
}

static void send_one(struct channel *channel, int kind, size_t length, bool descriptor)
{
    static char data[CHANNEL_PAYLOAD_MAX];
    int fd = descriptor ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

    for (size_t i = 0; i < length; i++)
        data[i] = (char)(kind + (int)i);
    assert_int_equal(channel_send(channel, kind, data, length, fd, descriptor), 0);
}

static void run_until_received(struct ends *ends, int count)
{
    for (int turns = 0; ends->received < count && turns < 100000; turns++)
        event_base_loop(ends->base, EVLOOP_ONCE);
    assert_int_equal(ends->received, count);
}

static void messages_of_all_sizes_arrive_unchanged(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 100, 4096, CHANNEL_PAYLOAD_MAX};
    struct ends ends;

    (void)state;
    open_ends(&ends);
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        send_one(ends.here, (int)i, lengths[i], i % 2 == 0);
        run_until_received(&ends, (int)i + 1);
        assert_int_equal(ends.last_length, lengths[i]);
    }
    assert_int_equal(ends.descriptors, 3);
    close_ends(&ends);
}

static void message_over_maximum_is_emsgsize(void **state)
{
    static const char data[CHANNEL_PAYLOAD_MAX + 1];
    struct ends ends;

    (void)state;
    open_ends(&ends);
    assert_int_equal(channel_send(ends.here, 0, data, sizeof(data), -1, false), -1);
    assert_int_equal(channel_backlog(ends.here), 0);
    close_ends(&ends);
}

/*
 * More than fits the socket: the rest is queued, in order, and the callback reports when it was
 * sent.
 */
static void full_socket_queues_and_reports_drained(void **state)
{
    struct ends ends;

    (void)state;
    open_ends(&ends);
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, 1000, i % 10 == 0);
    assert_true(channel_backlog(ends.here) > 0);
    run_until_received(&ends, MANY);
    assert_int_equal(channel_backlog(ends.here), 0);
    assert_int_equal(ends.descriptors, MANY / 10);
    assert_int_equal(ends.drained, 1);
    close_ends(&ends);
}

static void paused_reading_resumes(void **state)
{
    struct ends ends;

    (void)state;
    open_ends(&ends);
    channel_set_reading(ends.there, false);
    send_one(ends.here, 0, 10, false);
    event_base_loop(ends.base, EVLOOP_NONBLOCK);
    assert_int_equal(ends.received, 0);
    channel_set_reading(ends.there, true);
    run_until_received(&ends, 1);
    close_ends(&ends);
}

static void messages_before_close_are_delivered(void **state)
{
    struct ends ends;

    (void)state;
    open_ends(&ends);
    for (int i = 0; i < 100; i++)
        send_one(ends.here, i, 10, true);
    channel_close(ends.here);
    ends.here = NULL;
    channel_read_all(ends.there);
    assert_int_equal(ends.received, 100);
    assert_int_equal(ends.descriptors, 100);
    assert_int_equal(ends.closed, 1);
    close_ends(&ends);
}

static void closed_channel_closes_given_descriptors(void **state)
{
    struct ends ends;
    int before = dup(0), after;

    (void)state;
    close(before);
    open_ends(&ends);
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, 1000, true);
    close_ends(&ends);
    after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive_unchanged),
        cmocka_unit_test(message_over_maximum_is_emsgsize),
        cmocka_unit_test(full_socket_queues_and_reports_drained),
        cmocka_unit_test(paused_reading_resumes),
        cmocka_unit_test(messages_before_close_are_delivered),
        cmocka_unit_test(closed_channel_closes_given_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
