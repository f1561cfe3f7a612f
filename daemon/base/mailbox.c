#include "daemon/base/mailbox.h"

#include "daemon/base/mutex.h"

#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_open(struct mailbox *mailbox, uint32_t limit, _Atomic uint64_t *offered)
{
    *mailbox = (struct mailbox){.limit = limit, .offered = offered};
    if (offered != NULL)
        atomic_store_explicit(offered, 0, memory_order_relaxed);
    mailbox->last = &mailbox->first;
    mailbox->eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mailbox->eventfd < 0)
        return -1;
    pthread_mutex_init(&mailbox->lock, NULL);
    return 0;
}

void mailbox_set_limit(struct mailbox *mailbox, uint32_t limit)
{
    atomic_store_explicit(&mailbox->limit, limit, memory_order_relaxed);
}

void mailbox_close(struct mailbox *mailbox)
{
    close(mailbox->eventfd);
    pthread_mutex_destroy(&mailbox->lock);
}

/* Wakes the reader only if the queue was empty, because the reader takes all items at once. */
static void append(struct mailbox *mailbox, struct mailbox_item *item)
{
    bool was_empty;

    item->next = NULL;
    mutex_lock(&mailbox->lock);
    was_empty = mailbox->first == NULL;
    *mailbox->last = item;
    mailbox->last = &item->next;
    if (was_empty)
        eventfd_write(mailbox->eventfd, 1);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_post(struct mailbox *mailbox, struct mailbox_item *item, mailbox_deliver_fn *deliver)
{
    item->deliver = deliver;
    item->counted = false;
    append(mailbox, item);
}

bool mailbox_offer(struct mailbox *mailbox, struct mailbox_item *item, mailbox_deliver_fn *deliver)
{
    if (atomic_fetch_add_explicit(mailbox->offered, 1, memory_order_relaxed) >=
        atomic_load_explicit(&mailbox->limit, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(mailbox->offered, 1, memory_order_relaxed);
        return false;
    }
    item->deliver = deliver;
    item->counted = true;
    append(mailbox, item);
    return true;
}

uint64_t mailbox_waiting(const struct mailbox *mailbox)
{
    return atomic_load_explicit(mailbox->offered, memory_order_relaxed);
}

bool mailbox_is_empty(struct mailbox *mailbox)
{
    bool empty;

    mutex_lock(&mailbox->lock);
    empty = mailbox->first == NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return empty;
}

/* Empties the queue and returns its items, linked by next; NULL if there are none. */
static struct mailbox_item *take_all(struct mailbox *mailbox)
{
    struct mailbox_item *first;
    uint32_t counted = 0;
    eventfd_t count;

    mutex_lock(&mailbox->lock);
    first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    if (first != NULL)
        eventfd_read(mailbox->eventfd, &count);
    pthread_mutex_unlock(&mailbox->lock);
    for (struct mailbox_item *item = first; item != NULL; item = item->next)
        counted += item->counted;
    if (counted > 0)
        atomic_fetch_sub_explicit(mailbox->offered, counted, memory_order_relaxed);
    return first;
}

void mailbox_deliver(struct mailbox *mailbox, void *receiver)
{
    struct mailbox_item *item = take_all(mailbox);

    while (item != NULL) {
        struct mailbox_item *next = item->next; /* delivering may free ITEM */

        item->deliver(item, receiver);
        item = next;
    }
}
