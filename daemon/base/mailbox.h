/*
 * The queue of a thread: other threads append items; its loop watches one eventfd and delivers all
 * items at once. The mutex guards the queue only, is held for a few instructions, and is innermost.
 *
 * An item is a member of a larger struct. Posting passes ownership to the function that delivers
 * it.
 */
#ifndef DAEMON_MAILBOX_H
#define DAEMON_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mailbox_item;

/* Handles ITEM on the mailbox's thread. RECEIVER is what this thread gave to mailbox_deliver(). */
typedef void mailbox_deliver_fn(struct mailbox_item *item, void *receiver);

struct mailbox_item {
    struct mailbox_item *next;
    mailbox_deliver_fn *deliver;
    bool counted; /* queued by mailbox_offer(): counts towards the limit */
};

struct mailbox {
    int eventfd; /* readable while the queue is not empty */
    _Atomic uint32_t limit;
    _Atomic uint64_t *offered; /* counted items in the queue */
    pthread_mutex_t lock;      /* guards first and last */
    struct mailbox_item *first;
    struct mailbox_item **last;
};

/*
 * LIMIT: maximum number of offered items in the queue. OFFERED (borrowed) is set to their number;
 * it may be a metric. NULL if nothing is offered. Returns 0, or -1 with errno.
 */
int mailbox_open(struct mailbox *mailbox, uint32_t limit, _Atomic uint64_t *offered);
void mailbox_close(struct mailbox *mailbox);

/* Items beyond a lower LIMIT stay. Any thread. */
void mailbox_set_limit(struct mailbox *mailbox, uint32_t limit);

/* Always queues; for items that must not be lost. Any thread. */
void mailbox_post(struct mailbox *mailbox, struct mailbox_item *item, mailbox_deliver_fn *deliver);

/*
 * Queues new work. Returns false if LIMIT items are queued; the caller then keeps ITEM. Any thread.
 */
bool mailbox_offer(struct mailbox *mailbox, struct mailbox_item *item, mailbox_deliver_fn *deliver);

/* True if nothing is queued. Any thread. */
bool mailbox_is_empty(struct mailbox *mailbox);

/* Number of offered items in the queue. Any thread. */
uint64_t mailbox_waiting(const struct mailbox *mailbox);

/*
 * Delivers the items that are queued now, in order of arrival; those posted meanwhile wait for the
 * next call. The mailbox's thread.
 */
void mailbox_deliver(struct mailbox *mailbox, void *receiver);

#endif
