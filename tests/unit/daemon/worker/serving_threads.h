/*
 * Threads of a worker that do not run: the test sets their metrics, and takes what the main thread
 * posts to their mailboxes. The including file must include cmocka.h.
 */
#ifndef TESTS_UNIT_DAEMON_WORKER_SERVING_THREADS_H
#define TESTS_UNIT_DAEMON_WORKER_SERVING_THREADS_H

#include "daemon/worker/thread.h"
#include "tests/unit/mailbox_items.h"

#include <string.h>

enum { THREADS = 3 };

/* Static, because an event loop is too large for the stack. */
static struct serving_thread thread[THREADS];
static struct serving_thread *threads[THREADS];
static _Atomic uint64_t thread_metrics[THREADS][METRIC_COUNT];

static inline void open_threads(const struct worker_context *worker)
{
    memset(thread, 0, sizeof(thread));
    memset(thread_metrics, 0, sizeof(thread_metrics));
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = &thread[i];
        thread[i].id = pthread_self();
        thread[i].loop.context.worker = worker;
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
}

static inline void set_connections(uint32_t number, uint64_t open, uint64_t active)
{
    metric_set(thread_metrics[number], METRIC_connections_open, open);
    metric_set(thread_metrics[number], METRIC_connections_active, active);
}

#endif
