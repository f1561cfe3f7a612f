#include "common/macros.h"
#include "daemon/base/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void items_are_taken_in_order(void **state)
{
    struct mailbox mailbox;
    struct numbered sent[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct mailbox_item *item;
    int expected = 0;

    (void)state;
    assert_int_equal(mailbox_open(&mailbox, 10, &offered), 0);
    assert_null(mailbox_take(&mailbox));
    assert_false(rings(&mailbox));
    for (int i = 0; i < 3; i++)
        mailbox_post(&mailbox, &sent[i].item, 40 + i);
    assert_true(rings(&mailbox));
    for (item = mailbox_take(&mailbox); item != NULL; item = item->next, expected++) {
        assert_int_equal(item->kind, 40 + expected);
        assert_int_equal(CONTAINER_OF(item, struct numbered, item)->number, expected);
    }
    assert_int_equal(expected, 3);
    assert_false(rings(&mailbox));
    mailbox_close(&mailbox);
}

static void offer_over_limit_fails_post_succeeds(void **state)
{
    struct mailbox mailbox;
    struct numbered sent[5] = {0};

    (void)state;
    assert_int_equal(mailbox_open(&mailbox, 2, &offered), 0);
    assert_true(mailbox_offer(&mailbox, &sent[0].item, 1));
    assert_true(mailbox_offer(&mailbox, &sent[1].item, 1));
    assert_false(mailbox_offer(&mailbox, &sent[2].item, 1));
    mailbox_post(&mailbox, &sent[3].item, 1);
    assert_int_equal(mailbox_waiting(&mailbox), 2);
    assert_int_equal(offered, 2);
    assert_non_null(mailbox_take(&mailbox));
    assert_int_equal(mailbox_waiting(&mailbox), 0);
    assert_int_equal(offered, 0);
    assert_true(mailbox_offer(&mailbox, &sent[4].item, 1));
    assert_non_null(mailbox_take(&mailbox));
    mailbox_close(&mailbox);
}

static struct mailbox shared;
static struct numbered post[SENDERS][EACH];

static void *send_all(void *argument)
{
    int sender = (int)(intptr_t)argument;

    for (int i = 0; i < EACH; i++) {
        post[sender][i] = (struct numbered){.sender = sender, .number = i};
        if (i % 2 == 0 || !mailbox_offer(&shared, &post[sender][i].item, 1))
            mailbox_post(&shared, &post[sender][i].item, 1);
    }
    return NULL;
}

static void items_of_many_threads_all_arrive(void **state)
{
    pthread_t sender[SENDERS];
    int next[SENDERS] = {0}, received = 0;

    (void)state;
    assert_int_equal(mailbox_open(&shared, 8, &offered), 0);
    for (intptr_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&sender[i], NULL, send_all, (void *)i), 0);
    while (received < SENDERS * EACH) {
        struct pollfd wait = {.fd = shared.eventfd, .events = POLLIN};
        struct mailbox_item *item;

        assert_int_equal(poll(&wait, 1, 60000),
                         1); /* the eventfd must be readable while items wait */
        for (item = mailbox_take(&shared); item != NULL; item = item->next, received++) {
            struct numbered *numbered = CONTAINER_OF(item, struct numbered, item);

            assert_int_equal(numbered->number, next[numbered->sender]++);
        }
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(sender[i], NULL);
    assert_int_equal(mailbox_waiting(&shared), 0);
    assert_false(rings(&shared));
    mailbox_close(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_taken_in_order),
        cmocka_unit_test(offer_over_limit_fails_post_succeeds),
        cmocka_unit_test(items_of_many_threads_all_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
