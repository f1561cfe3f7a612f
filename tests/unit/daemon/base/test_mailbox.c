#include "common/macros.h"
#include "daemon/base/mailbox.h"
#include "tests/test.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 4, EACH = 5000 };

struct numbered {
    struct mailbox_item item;
    int sender, number;
};

static _Atomic uint64_t offered;

static bool rings(const struct mailbox *mailbox)
{
    struct pollfd wait = {.fd = mailbox->eventfd, .events = POLLIN};

    return poll(&wait, 1, 0) == 1;
}

/* RECEIVER: by sender, the number of the next item. */
static void expect_next(struct mailbox_item *item, void *receiver)
{
    struct numbered *numbered = CONTAINER_OF(item, struct numbered, item);
    int *next = receiver;

    assert_int_equal(numbered->number, next[numbered->sender]++);
    memset(numbered, 0xff, sizeof(*numbered)); /* the item may be freed now */
}

/* Posts itself again, to the same mailbox. */
static void post_again(struct mailbox_item *item, void *receiver)
{
    mailbox_post(receiver, item, post_again);
}

TEST(items_posted_meanwhile_wait)
{
    struct mailbox mailbox;
    struct mailbox_item item;

    assert_int_equal(mailbox_open(&mailbox, 0, NULL), 0);
    mailbox_post(&mailbox, &item, post_again);
    for (int i = 0; i < 3; i++) {
        mailbox_deliver(&mailbox, &mailbox);
        assert_true(rings(&mailbox));
    }
    mailbox_close(&mailbox);
}

TEST(items_are_delivered_in_order)
{
    struct mailbox mailbox;
    struct numbered sent[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    int next[1] = {0};

    assert_int_equal(mailbox_open(&mailbox, 10, &offered), 0);
    mailbox_deliver(&mailbox, next);
    assert_false(rings(&mailbox));
    for (int i = 0; i < 3; i++)
        mailbox_post(&mailbox, &sent[i].item, expect_next);
    assert_true(rings(&mailbox));
    mailbox_deliver(&mailbox, next);
    assert_int_equal(next[0], 3);
    assert_false(rings(&mailbox));
    mailbox_close(&mailbox);
}

TEST(offer_over_limit_fails_post_succeeds)
{
    struct mailbox mailbox;
    struct numbered sent[5] = {
        {.number = 0}, {.number = 1}, {.number = 9}, {.number = 2}, {.number = 3}};
    int next[1] = {0};

    assert_int_equal(mailbox_open(&mailbox, 2, &offered), 0);
    assert_true(mailbox_offer(&mailbox, &sent[0].item, expect_next));
    assert_true(mailbox_offer(&mailbox, &sent[1].item, expect_next));
    assert_false(mailbox_offer(&mailbox, &sent[2].item, expect_next));
    mailbox_post(&mailbox, &sent[3].item, expect_next);
    assert_int_equal(mailbox_waiting(&mailbox), 2);
    assert_int_equal(offered, 2);
    mailbox_deliver(&mailbox, next);
    assert_int_equal(next[0], 3);
    assert_int_equal(mailbox_waiting(&mailbox), 0);
    assert_int_equal(offered, 0);
    assert_true(mailbox_offer(&mailbox, &sent[4].item, expect_next));
    mailbox_set_limit(&mailbox, 1);
    assert_false(mailbox_offer(&mailbox, &sent[2].item, expect_next));
    mailbox_set_limit(&mailbox, 3);
    sent[2].number = 4;
    assert_true(mailbox_offer(&mailbox, &sent[2].item, expect_next));
    mailbox_deliver(&mailbox, next);
    assert_int_equal(next[0], 5);
    mailbox_close(&mailbox);
}

static struct mailbox shared;
static struct numbered post[SENDERS][EACH];

static void *send_all(void *argument)
{
    int sender = (int)(intptr_t)argument;

    for (int i = 0; i < EACH; i++) {
        post[sender][i] = (struct numbered){.sender = sender, .number = i};
        if (i % 2 == 0 || !mailbox_offer(&shared, &post[sender][i].item, expect_next))
            mailbox_post(&shared, &post[sender][i].item, expect_next);
    }
    return NULL;
}

TEST(items_of_many_threads_all_arrive)
{
    pthread_t sender[SENDERS];
    int next[SENDERS] = {0}, received = 0;

    assert_int_equal(mailbox_open(&shared, 8, &offered), 0);
    for (intptr_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&sender[i], NULL, send_all, (void *)i), 0);
    while (received < SENDERS * EACH) {
        struct pollfd wait = {.fd = shared.eventfd, .events = POLLIN};

        assert_int_equal(poll(&wait, 1, 60000),
                         1); /* the eventfd must be readable while items wait */
        mailbox_deliver(&shared, next);
        received = 0;
        for (int i = 0; i < SENDERS; i++)
            received += next[i];
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(sender[i], NULL);
    assert_int_equal(mailbox_waiting(&shared), 0);
    assert_false(rings(&shared));
    mailbox_close(&shared);
}
