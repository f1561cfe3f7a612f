/*
 * A worker with threads that do not run: the test sets their metrics, and takes or delivers what
 * the main thread posts to their mailboxes.
 */
#ifndef TESTS_UNIT_DAEMON_WORKER_SERVING_THREADS_H
#define TESTS_UNIT_DAEMON_WORKER_SERVING_THREADS_H

#include "daemon/worker/internal.h"
#include "tests/test.h"
#include "tests/unit/mailbox_items.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 3 };

static struct worker worker;
static struct serving_thread thread[THREADS]; /* static, because they are too large for the stack */
static struct serving_thread *threads[THREADS];
static _Atomic uint64_t thread_metrics[THREADS][METRIC_COUNT];

static int commands, connections; /* the master's ends of the channels */

static inline void ignore_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    (void)owner, (void)kind, (void)data, (void)length, (void)fd;
}

static inline struct channel *open_channel(enum message_route receives, int *other_end)
{
    const struct channel_owner owner = {.message = ignore_message};
    struct channel *channel;
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    *other_end = fds[1];
    channel = channel_open(worker.base, fds[0], receives, &owner);
    assert_non_null(channel);
    return channel;
}

/* True if the worker has sent a message of KIND to END, whose data are stored in DATA. */
static inline bool next_message(int end, int64_t kind, void *data, size_t length)
{
    char message[256];
    ssize_t got = recv(end, message, sizeof(message), MSG_DONTWAIT);

    if (got < 0)
        return false;
    assert_int_equal(got, sizeof(kind) + length);
    assert_memory_equal(message, &kind, sizeof(kind));
    if (length > 0)
        memcpy(data, message + sizeof(kind), length);
    return true;
}

static inline void open_threads(void)
{
    memset(&worker, 0, sizeof(worker));
    memset(thread, 0, sizeof(thread));
    memset(thread_metrics, 0, sizeof(thread_metrics));
    worker.context.shortages = &worker.shortages;
    worker.context.main = &worker.mailbox;
    worker.threads = threads;
    worker.count = worker.capacity = THREADS;
    assert_int_equal(mailbox_open(&worker.mailbox, 0, NULL), 0);
    worker.base = event_base_new();
    assert_non_null(worker.base);
    worker.commands = open_channel(ROUTE_COMMANDS, &commands);
    worker.connections = open_channel(ROUTE_DISPATCH, &connections);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = &thread[i];
        thread[i].id = pthread_self();
        thread[i].loop.context.worker = &worker.context;
        thread[i].loop.context.metrics = thread_metrics[i];
        assert_int_equal(mailbox_open(&thread[i].loop.mailbox, 0, NULL), 0);
    }
}

/* The next item that has been posted to the thread, for DELIVER; NULL: there is none. */
static inline struct mailbox_item *next_item(uint32_t number, mailbox_deliver_fn *deliver)
{
    struct mailbox_item *item = mailbox_next(&thread[number].loop.mailbox);

    if (item != NULL)
        assert_true(item->deliver == deliver);
    return item;
}

static inline void close_threads(void)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_null(next_item(i, NULL));
        mailbox_close(&thread[i].loop.mailbox);
    }
    mailbox_close(&worker.mailbox);
    channel_close(worker.commands);
    channel_close(worker.connections);
    close(commands);
    close(connections);
    event_base_free(worker.base);
}

static inline void set_connections(uint32_t number, uint64_t open, uint64_t active)
{
    metric_set(thread_metrics[number], METRIC_connections_open, open);
    metric_set(thread_metrics[number], METRIC_connections_active, active);
}

#endif
