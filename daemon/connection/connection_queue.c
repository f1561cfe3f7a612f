#include "daemon/connection/connection_queue.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/mutex.h"

#include <stdlib.h>
#include <unistd.h>

TAILQ_HEAD(waiter_list, queue_waiter);
TAILQ_HEAD(arrival_list, arrival);

struct connection_queue {
    pthread_mutex_t lock; /* guards all members */
    struct segment_worker *block;
    _Atomic uint64_t *metrics; /* those of block */
    struct histogram *waits;
    _Atomic uint32_t order; /* is also read without the lock */
    uint32_t policy, places;
    uint32_t length; /* of arrivals */
    uint32_t returned_length;
    uint32_t promised;                             /* threads that are starting */
    struct arrival_list arrivals;                  /* in the order of arrival */
    struct mailbox_item *returned, **returned_end; /* connections, before all arrivals */
    struct waiter_list threads, acceptors;
    uint64_t random;
    bool closed;
};

static void wait_in(struct waiter_list *list, struct queue_waiter *waiter)
{
    if (waiter == NULL || waiter->list != NULL)
        return;
    waiter->list = list;
    TAILQ_INSERT_TAIL(list, waiter, link);
}

static void end_wait(struct queue_waiter *waiter)
{
    if (waiter->list != NULL)
        TAILQ_REMOVE(waiter->list, waiter, link);
    waiter->list = NULL;
}

static void wake_first(struct waiter_list *list)
{
    struct queue_waiter *waiter = TAILQ_FIRST(list);

    if (waiter == NULL)
        return;
    end_wait(waiter);
    if (!waiter->posted)
        mailbox_post(waiter->mailbox, &waiter->item, waiter->deliver);
    waiter->posted = true;
}

/* The caller holds the lock, as for all static functions. */
static void publish_length(const struct connection_queue *queue, uint64_t now_ns)
{
    const struct arrival *oldest = TAILQ_FIRST(&queue->arrivals);
    uint64_t age_ns = oldest != NULL && oldest->queued_ns < now_ns ? now_ns - oldest->queued_ns : 0;

    metric_set(queue->metrics, METRIC_queue_length, queue->length);
    metric_set(queue->metrics, METRIC_queue_oldest, age_ns);
    atomic_store_explicit(&queue->block->queue_since_ns, oldest != NULL ? oldest->queued_ns : 0,
                          memory_order_relaxed);
}

static bool has_room(const struct connection_queue *queue)
{
    return queue->length < queue->places;
}

static bool queue_is_empty(const struct connection_queue *queue)
{
    return queue->length == 0 && queue->returned == NULL;
}

struct connection_queue *connection_queue_new(const struct config *config,
                                              struct segment_worker *block, struct histogram *waits)
{
    struct connection_queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    queue->block = block;
    queue->metrics = block->metrics;
    queue->waits = waits;
    queue->returned_end = &queue->returned;
    queue->random = 1;
    TAILQ_INIT(&queue->arrivals);
    TAILQ_INIT(&queue->threads);
    TAILQ_INIT(&queue->acceptors);
    publish_length(queue, 0);
    connection_queue_set(queue, config->workers_queue_order, config->workers_queue_full,
                         config->workers_connection_queue);
    return queue;
}

void connection_queue_free(struct connection_queue *queue)
{
    struct arrival *arrival;

    if (queue == NULL)
        return;
    while ((arrival = TAILQ_FIRST(&queue->arrivals)) != NULL) {
        TAILQ_REMOVE(&queue->arrivals, arrival, link);
        close(arrival->fd);
        free(arrival);
    }
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

void queue_waiter_init(struct queue_waiter *waiter, struct mailbox *mailbox,
                       mailbox_deliver_fn *deliver)
{
    *waiter = (struct queue_waiter){.mailbox = mailbox, .deliver = deliver};
}

void connection_queue_woken(struct connection_queue *queue, struct queue_waiter *waiter)
{
    mutex_lock(&queue->lock);
    waiter->posted = false;
    pthread_mutex_unlock(&queue->lock);
}

void connection_queue_set(struct connection_queue *queue, uint32_t order, uint32_t policy,
                          uint32_t places)
{
    mutex_lock(&queue->lock);
    queue->order = order;
    queue->policy = policy;
    queue->places = places;
    metric_set(queue->metrics, METRIC_queue_capacity, places);
    atomic_store_explicit(&queue->block->queue_order, order, memory_order_relaxed);
    atomic_store_explicit(&queue->block->queue_full, policy, memory_order_relaxed);
    while (!TAILQ_EMPTY(&queue->acceptors))
        wake_first(&queue->acceptors);
    pthread_mutex_unlock(&queue->lock);
}

bool connection_queue_wants_size(const struct connection_queue *queue)
{
    return atomic_load_explicit(&queue->order, memory_order_relaxed) == QUEUE_ORDER_SFF;
}

bool connection_queue_admits(struct connection_queue *queue, struct queue_waiter *waiter)
{
    bool admits;

    mutex_lock(&queue->lock);
    admits = has_room(queue) || queue->policy != QUEUE_FULL_BLOCK;
    if (!admits)
        wait_in(&queue->acceptors, waiter);
    pthread_mutex_unlock(&queue->lock);
    return admits;
}

/* Puts */

static void append_dropped(struct arrival *dropped, struct mailbox_item ***end)
{
    dropped->item.next = NULL;
    **end = &dropped->item;
    *end = &dropped->item.next;
}

static void drop_waiting(struct connection_queue *queue, struct arrival *arrival,
                         struct mailbox_item ***end)
{
    TAILQ_REMOVE(&queue->arrivals, arrival, link);
    queue->length--;
    append_dropped(arrival, end);
}

/* xorshift64 (Marsaglia, 2003) */
static uint64_t next_random(struct connection_queue *queue)
{
    queue->random ^= queue->random << 13;
    queue->random ^= queue->random >> 7;
    queue->random ^= queue->random << 17;
    return queue->random;
}

/* Drops half of the waiting connections, rounded up. Each is equally likely to be dropped. */
static void drop_half(struct connection_queue *queue, struct mailbox_item ***end)
{
    uint32_t left = queue->length, wanted = (queue->length + 1) / 2;
    struct arrival *arrival = TAILQ_FIRST(&queue->arrivals);

    for (; arrival != NULL && wanted > 0; left--) {
        struct arrival *next = TAILQ_NEXT(arrival, link);

        if (next_random(queue) % left < wanted) {
            drop_waiting(queue, arrival, end);
            wanted--;
        }
        arrival = next;
    }
}

static void append_arrival(struct connection_queue *queue, struct arrival *arrival)
{
    TAILQ_INSERT_TAIL(&queue->arrivals, arrival, link);
    queue->length++;
    wake_first(&queue->threads);
}

/* The queue is full: makes room for ARRIVAL, or drops it. */
static void put_by_policy(struct connection_queue *queue, struct arrival *arrival,
                          struct mailbox_item ***end)
{
    if (queue->policy == QUEUE_FULL_DROP_TAIL) {
        append_dropped(arrival, end);
        return;
    }
    if (queue->policy == QUEUE_FULL_DROP_HEAD)
        drop_waiting(queue, TAILQ_FIRST(&queue->arrivals), end);
    else if (queue->policy == QUEUE_FULL_DROP_RANDOM)
        drop_half(queue, end);
    append_arrival(queue, arrival);
}

struct arrival *connection_queue_put(struct connection_queue *queue, struct arrival *arrival,
                                     uint64_t now_ns)
{
    struct mailbox_item *dropped = NULL, **end = &dropped;

    arrival->queued_ns = now_ns;
    mutex_lock(&queue->lock);
    if (has_room(queue))
        append_arrival(queue, arrival);
    else
        put_by_policy(queue, arrival, &end);
    for (const struct mailbox_item *item = dropped; item != NULL; item = item->next)
        metric_add(queue->metrics, METRIC_queue_dropped, 1);
    publish_length(queue, now_ns);
    pthread_mutex_unlock(&queue->lock);
    return dropped != NULL ? CONTAINER_OF(dropped, struct arrival, item) : NULL;
}

void connection_queue_return(struct connection_queue *queue, struct connection *connection,
                             mailbox_deliver_fn *deliver)
{
    connection->item.next = NULL;
    connection->item.deliver = deliver;
    mutex_lock(&queue->lock);
    *queue->returned_end = &connection->item;
    queue->returned_end = &connection->item.next;
    queue->returned_length++;
    wake_first(&queue->threads);
    pthread_mutex_unlock(&queue->lock);
}

/* Takes */

/* Of several, the one that has waited longest. */
static struct arrival *smallest_arrival(const struct connection_queue *queue)
{
    struct arrival *smallest = TAILQ_FIRST(&queue->arrivals), *arrival;

    TAILQ_FOREACH(arrival, &queue->arrivals, link)
    {
        if (arrival->file_bytes < smallest->file_bytes)
            smallest = arrival;
    }
    return smallest;
}

static struct arrival *next_arrival(const struct connection_queue *queue)
{
    if (queue->order == QUEUE_ORDER_SFF)
        return smallest_arrival(queue);
    return queue->order == QUEUE_ORDER_LIFO ? TAILQ_LAST(&queue->arrivals, arrival_list)
                                            : TAILQ_FIRST(&queue->arrivals);
}

static struct mailbox_item *take_returned(struct connection_queue *queue)
{
    struct mailbox_item *item = queue->returned;

    queue->returned = item->next;
    queue->returned_length--;
    if (item->next == NULL)
        queue->returned_end = &queue->returned;
    return item;
}

static struct mailbox_item *take_arrival(struct connection_queue *queue, uint64_t now_ns)
{
    struct arrival *arrival = next_arrival(queue);
    uint64_t wait_ns = now_ns > arrival->queued_ns ? now_ns - arrival->queued_ns : 0;

    TAILQ_REMOVE(&queue->arrivals, arrival, link);
    queue->length--;
    metric_add(queue->metrics, METRIC_queue_taken, 1);
    metric_add(queue->metrics, METRIC_queue_wait, wait_ns);
    histogram_record(queue->waits, wait_ns);
    publish_length(queue, now_ns);
    if (has_room(queue))
        wake_first(&queue->acceptors);
    arrival->item.deliver = connection_adopt_arrival;
    return &arrival->item;
}

struct mailbox_item *connection_queue_take(struct connection_queue *queue,
                                           struct queue_waiter *waiter, uint64_t now_ns)
{
    struct mailbox_item *item = NULL;

    mutex_lock(&queue->lock);
    if (waiter != NULL)
        end_wait(waiter);
    if (waiter == NULL && queue->promised > 0)
        queue->promised--;
    if (queue->returned != NULL)
        item = take_returned(queue);
    else if (queue->length > 0)
        item = take_arrival(queue, now_ns);
    else
        wait_in(&queue->threads, waiter);
    pthread_mutex_unlock(&queue->lock);
    return item;
}

uint32_t connection_queue_await(struct connection_queue *queue, struct queue_waiter *waiter)
{
    uint32_t waiting;

    mutex_lock(&queue->lock);
    wait_in(&queue->threads, waiter);
    waiting = queue->length + queue->returned_length;
    waiting = waiting > queue->promised ? waiting - queue->promised : 0;
    pthread_mutex_unlock(&queue->lock);
    return waiting;
}

void connection_queue_promise(struct connection_queue *queue, int more)
{
    mutex_lock(&queue->lock);
    queue->promised += (uint32_t)more;
    pthread_mutex_unlock(&queue->lock);
}

void connection_queue_leave(struct connection_queue *queue, struct queue_waiter *waiter)
{
    mutex_lock(&queue->lock);
    end_wait(waiter);
    if (!queue_is_empty(queue))
        wake_first(&queue->threads);
    pthread_mutex_unlock(&queue->lock);
}

void connection_queue_publish(struct connection_queue *queue, uint64_t now_ns)
{
    mutex_lock(&queue->lock);
    publish_length(queue, now_ns);
    pthread_mutex_unlock(&queue->lock);
}

/* The end */

void connection_queue_close(struct connection_queue *queue)
{
    mutex_lock(&queue->lock);
    queue->closed = true;
    while (!TAILQ_EMPTY(&queue->threads))
        wake_first(&queue->threads);
    pthread_mutex_unlock(&queue->lock);
}

bool connection_queue_has_ended(struct connection_queue *queue)
{
    bool ended;

    mutex_lock(&queue->lock);
    ended = queue->closed && queue_is_empty(queue);
    pthread_mutex_unlock(&queue->lock);
    return ended;
}
