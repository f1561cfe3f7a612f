/* Orders, policies and wake-ups of the queue between the acceptor and the threads. */
#include "daemon/connection/connection_queue.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PRODUCERS = 2, CONSUMERS = 3, EACH = 20000 };

static struct segment_worker block;
static _Atomic uint64_t *const metrics = block.metrics;
static struct histogram waits;

static struct connection_queue *new_queue(uint32_t order, uint32_t full, uint32_t places)
{
    const struct config config = {.workers_queue_order = order,
                                  .workers_queue_full = full,
                                  .workers_connection_queue = places};
    struct connection_queue *queue;

    memset(&block, 0, sizeof(block));
    histogram_reset(&waits);
    queue = connection_queue_new(&config, &block, &waits);
    assert_non_null(queue);
    return queue;
}

static struct arrival *new_arrival(uint32_t number)
{
    struct arrival *arrival = calloc(1, sizeof(*arrival));

    assert_non_null(arrival);
    arrival->fd = -1;
    arrival->requests = number;
    arrival->file_bytes = 100 * (number / 2 ^ 1); /* a and b 100, c and d 0, e 300 */
    return arrival;
}

/* The numbers of the arrivals that are dropped, as letters from 'a'. */
static void put(struct connection_queue *queue, uint32_t number, char *dropped)
{
    struct arrival *arrival = connection_queue_put(queue, new_arrival(number), number);
    struct mailbox_item *item = arrival != NULL ? &arrival->item : NULL;

    while (item != NULL) {
        struct mailbox_item *next = item->next;

        arrival = CONTAINER_OF(item, struct arrival, item);
        dropped[strlen(dropped)] = (char)('a' + arrival->requests);
        free(arrival);
        item = next;
    }
}

/* Takes all that are left. */
static void take_all(struct connection_queue *queue, char *taken)
{
    struct mailbox_item *item;

    while ((item = connection_queue_take(queue, NULL, 100)) != NULL) {
        struct arrival *arrival = CONTAINER_OF(item, struct arrival, item);

        assert_ptr_equal(item->deliver, connection_adopt_arrival);
        taken[strlen(taken)] = (char)('a' + arrival->requests);
        free(arrival);
    }
}

TEST(order_and_policy_decide)
{
    static const struct {
        uint32_t order, full;
        const char *dropped, *taken; /* of a to e, with three places */
    } cases[] = {
        {QUEUE_ORDER_FIFO, QUEUE_FULL_BLOCK, "", "abcde"},
        {QUEUE_ORDER_LIFO, QUEUE_FULL_BLOCK, "", "edcba"},
        {QUEUE_ORDER_SFF, QUEUE_FULL_BLOCK, "", "cdabe"},
        {QUEUE_ORDER_SFF, QUEUE_FULL_DROP_TAIL, "de", "cab"},
        {QUEUE_ORDER_SFF, QUEUE_FULL_DROP_HEAD, "ab", "cde"},
        {QUEUE_ORDER_FIFO, QUEUE_FULL_DROP_TAIL, "de", "abc"},
        {QUEUE_ORDER_LIFO, QUEUE_FULL_DROP_TAIL, "de", "cba"},
        {QUEUE_ORDER_FIFO, QUEUE_FULL_DROP_HEAD, "ab", "cde"},
        {QUEUE_ORDER_LIFO, QUEUE_FULL_DROP_HEAD, "ab", "edc"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct connection_queue *queue = new_queue(cases[i].order, cases[i].full, 3);
        char dropped[16] = "", taken[16] = "";

        for (uint32_t number = 0; number < 5; number++) {
            assert_int_equal(connection_queue_admits(queue, NULL),
                             number < 3 || cases[i].full != QUEUE_FULL_BLOCK);
            put(queue, number, dropped);
        }
        take_all(queue, taken);
        assert_string_equal(dropped, cases[i].dropped);
        assert_string_equal(taken, cases[i].taken);
        assert_int_equal(metrics[METRIC_queue_dropped], strlen(dropped));
        assert_int_equal(metrics[METRIC_queue_taken], strlen(taken));
        assert_int_equal(metrics[METRIC_queue_length], 0);
        connection_queue_free(queue);
    }
}

/* Each one is as likely to be dropped as another. */
TEST(random_policy_drops_half)
{
    unsigned times[4] = {0};

    struct connection_queue *queue = new_queue(QUEUE_ORDER_FIFO, QUEUE_FULL_DROP_RANDOM, 4);

    for (int round = 0; round < 2000; round++) {
        char dropped[16] = "", taken[16] = "";

        for (uint32_t number = 0; number < 5; number++)
            put(queue, number, dropped);
        assert_int_equal(strlen(dropped), 2);
        for (const char *letter = dropped; *letter != '\0'; letter++) {
            assert_in_range(*letter, 'a', 'd');
            times[*letter - 'a']++;
        }
        take_all(queue, taken);
        assert_int_equal(strlen(taken), 3);
        assert_int_equal(taken[2], 'e');
    }
    for (size_t i = 0; i < ARRAY_LENGTH(times); i++)
        assert_in_range(times[i], 850, 1150);
    connection_queue_free(queue);
}

TEST(wait_and_age_are_published)
{
    struct connection_queue *queue = new_queue(QUEUE_ORDER_FIFO, QUEUE_FULL_BLOCK, 8);
    char none[16] = "";

    assert_int_equal(metrics[METRIC_queue_capacity], 8);
    put(queue, 10, none);
    put(queue, 20, none);
    connection_queue_publish(queue, 50);
    assert_int_equal(metrics[METRIC_queue_length], 2);
    assert_int_equal(metrics[METRIC_queue_oldest], 40);
    assert_int_equal(block.queue_since_ns, 10);
    take_all(queue, none);
    assert_int_equal(metrics[METRIC_queue_wait], 90 + 80);
    assert_int_equal(histogram_count(&waits), 2);
    assert_int_equal(histogram_percentile(&waits, 50), 80);
    assert_int_equal(histogram_max(&waits), 90);
    assert_int_equal(metrics[METRIC_queue_oldest], 0);
    assert_int_equal(block.queue_since_ns, 0);
    connection_queue_free(queue);
}

/* Wake-ups */

static _Atomic uint32_t delivered;

static void count_delivered(struct mailbox_item *item, void *receiver)
{
    (void)receiver;
    delivered++;
    connection_queue_woken(*(struct connection_queue **)receiver,
                           CONTAINER_OF(item, struct queue_waiter, item));
}

static uint32_t deliver(struct mailbox *mailbox, struct connection_queue *queue)
{
    delivered = 0;
    mailbox_deliver(mailbox, &queue);
    return delivered;
}

TEST(put_wakes_one_thread_and_take_an_acceptor)
{
    struct connection_queue *queue = new_queue(QUEUE_ORDER_FIFO, QUEUE_FULL_BLOCK, 1);
    struct mailbox boxes[3];
    struct queue_waiter waiters[3];
    char none[16] = "", taken[16] = "";

    for (int i = 0; i < 3; i++) {
        assert_int_equal(mailbox_open(&boxes[i], 0, NULL), 0);
        queue_waiter_init(&waiters[i], &boxes[i], count_delivered);
    }
    assert_null(connection_queue_take(queue, &waiters[0], 0));
    assert_null(connection_queue_take(queue, &waiters[1], 0));
    put(queue, 0, none);
    assert_int_equal(deliver(&boxes[0], queue), 1);
    assert_int_equal(deliver(&boxes[1], queue), 0);
    assert_false(connection_queue_admits(queue, &waiters[2]));
    assert_int_equal(deliver(&boxes[2], queue), 0);
    /* The thread that was woken leaves instead: the other one is woken. */
    connection_queue_leave(queue, &waiters[0]);
    assert_int_equal(deliver(&boxes[1], queue), 1);
    take_all(queue, taken);
    assert_string_equal(taken, "a");
    assert_int_equal(deliver(&boxes[2], queue), 1);
    assert_true(connection_queue_admits(queue, &waiters[2]));
    /* The end wakes those that wait. */
    assert_null(connection_queue_take(queue, &waiters[1], 0));
    assert_false(connection_queue_has_ended(queue));
    connection_queue_close(queue);
    assert_int_equal(deliver(&boxes[1], queue), 1);
    assert_true(connection_queue_has_ended(queue));
    for (int i = 0; i < 3; i++)
        mailbox_close(&boxes[i]);
    connection_queue_free(queue);
}

TEST(promised_threads_are_not_asked_for_again)
{
    struct connection_queue *queue = new_queue(QUEUE_ORDER_FIFO, QUEUE_FULL_BLOCK, 8);
    struct mailbox box;
    struct queue_waiter starter;
    char none[16] = "";

    assert_int_equal(mailbox_open(&box, 0, NULL), 0);
    queue_waiter_init(&starter, &box, count_delivered);
    assert_int_equal(connection_queue_await(queue, &starter), 0);
    put(queue, 0, none);
    assert_int_equal(deliver(&box, queue), 1);
    put(queue, 1, none);
    assert_int_equal(connection_queue_await(queue, &starter), 2);
    connection_queue_promise(queue, 1);
    assert_int_equal(connection_queue_await(queue, &starter), 1);
    free(CONTAINER_OF(connection_queue_take(queue, NULL, 0), struct arrival, item));
    assert_int_equal(connection_queue_await(queue, &starter), 1);
    connection_queue_leave(queue, &starter);
    connection_queue_free(queue);
    mailbox_close(&box);
}

/* Threads */

static struct connection_queue *shared;
static _Atomic uint64_t sum;

static void *produce(void *unused)
{
    (void)unused;
    for (uint32_t i = 1; i <= EACH; i++) {
        while (!connection_queue_admits(shared, NULL))
            usleep(100);
        assert_null(connection_queue_put(shared, new_arrival(i), clock_monotonic_ns()));
    }
    return NULL;
}

static void *consume(void *unused)
{
    struct mailbox mailbox;
    struct queue_waiter waiter;

    (void)unused;
    assert_int_equal(mailbox_open(&mailbox, 0, NULL), 0);
    queue_waiter_init(&waiter, &mailbox, count_delivered);
    while (!connection_queue_has_ended(shared)) {
        struct mailbox_item *item = connection_queue_take(shared, &waiter, clock_monotonic_ns());
        eventfd_t unused_count;

        if (item == NULL) {
            struct connection_queue *queue = shared;
            int flags = fcntl(mailbox.eventfd, F_GETFL);

            fcntl(mailbox.eventfd, F_SETFL, flags & ~O_NONBLOCK);
            eventfd_read(mailbox.eventfd, &unused_count); /* sleeps until the queue wakes it */
            eventfd_write(mailbox.eventfd, unused_count);
            mailbox_deliver(&mailbox, &queue);
            continue;
        }
        atomic_fetch_add(&sum, CONTAINER_OF(item, struct arrival, item)->requests);
        free(CONTAINER_OF(item, struct arrival, item));
    }
    connection_queue_leave(shared, &waiter);
    mailbox_close(&mailbox);
    return NULL;
}

TEST(threads_take_each_connection_once)
{
    pthread_t producer[PRODUCERS], consumer[CONSUMERS];

    shared = new_queue(QUEUE_ORDER_FIFO, QUEUE_FULL_BLOCK, 16);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumer[i], NULL, consume, NULL), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producer[i], NULL, produce, NULL), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producer[i], NULL);
    connection_queue_close(shared);
    for (int i = 0; i < CONSUMERS; i++)
        pthread_join(consumer[i], NULL);
    assert_int_equal(sum, (uint64_t)PRODUCERS * EACH * (EACH + 1) / 2);
    assert_int_equal(metrics[METRIC_queue_taken], PRODUCERS * EACH);
    connection_queue_free(shared);
}
