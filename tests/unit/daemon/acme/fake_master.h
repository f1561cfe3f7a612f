/*
 * The master at the other end of the channel of webserverd-acme, in the same thread: it gets the
 * messages when the program waits, and the clock, which is replaced, goes on by the time that it
 * waits. The program has wrap(... clock_gettime event_add event_base_loop).
 */
#ifndef TESTS_FAKE_MASTER_H
#define TESTS_FAKE_MASTER_H

#include "common/clock.h"
#include "daemon/acme/link.h"
#include "daemon/base/channel.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct {
    struct link *link; /* the program's end */
    struct event_base *base;
    struct channel *channel; /* NULL: closed */
    uint64_t now_ns, timer_ms;
    int waits_left;      /* until the master ends; -1: it does not */
    int challenges_left; /* the same, for challenges */
    int challenges;
    char events[2048];   /* texts of all events since the last look */
    char published[512]; /* challenges: "http=TOKEN " */
} master;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = (time_t)(master.now_ns / NS_PER_S);
    now->tv_nsec = (long)(master.now_ns % NS_PER_S);
    return 0;
}

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    if (timeout != NULL)
        master.timer_ms = (uint64_t)timeout->tv_sec * 1000 + (uint64_t)timeout->tv_usec / 1000;
    return __real_event_add(event, timeout);
}

static inline void fake_master_end(void)
{
    channel_close(master.channel);
    master.channel = NULL;
}

static inline void fake_master_read(void)
{
    if (master.channel != NULL)
        channel_read_all(master.channel);
}

/* Does not block. */
int __wrap_event_base_loop(struct event_base *base, int flags)
{
    int challenges = master.challenges;

    fake_master_read();
    if ((flags & EVLOOP_ONCE) != 0 && challenges == master.challenges) {
        master.now_ns += master.timer_ms * NS_PER_MS;
        if (master.waits_left >= 0 && master.waits_left-- == 0)
            fake_master_end();
    }
    return __real_event_base_loop(base, EVLOOP_NONBLOCK);
}

static inline void fake_master_get(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct message_acme_event *event = data;
    const struct message_acme_challenge *challenge = data;
    size_t used = strlen(master.events);

    (void)owner, (void)length, (void)fd;
    if (kind == MESSAGE_ACME_EVENT)
        snprintf(master.events + used, sizeof(master.events) - used, "%s\n", event->text);
    if (kind != MESSAGE_ACME_CHALLENGE)
        return;
    used = strlen(master.published);
    snprintf(master.published + used, sizeof(master.published) - used, "%s=%s ",
             challenge->kind == CHALLENGE_HTTP_01 ? "http" : "alpn", challenge->token);
    if (++master.challenges == master.challenges_left)
        master.waits_left = 0; /* it ends instead */
    else
        channel_send(master.channel, MESSAGE_ACME_CHALLENGE_SET, NULL, 0, -1, false);
}

static inline void fake_master_closed(void *owner)
{
    (void)owner;
}

static inline void fake_master_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("the program %s", what);
}

static inline void fake_master_start(void)
{
    const struct channel_owner owner = {
        .message = fake_master_get, .closed = fake_master_closed, .fault = fake_master_fault};
    int fds[2];

    memset(&master, 0, sizeof(master));
    master.now_ns = NS_PER_S;
    master.waits_left = -1;
    master.base = event_base_new();
    assert_int_equal(channel_pair(fds), 0);
    master.link = link_new(fds[0]);
    master.channel = channel_open(master.base, fds[1], ROUTE_ACME_REPORTS, &owner);
    assert_true(master.link != NULL && master.channel != NULL);
}

static inline void fake_master_free(void)
{
    link_free(master.link);
    fake_master_end();
    event_base_free(master.base);
}

#endif
