/* Takes items from a mailbox without delivering them. */
#ifndef TESTS_UNIT_MAILBOX_ITEMS_H
#define TESTS_UNIT_MAILBOX_ITEMS_H

#include "daemon/base/mailbox.h"

/* The next item; NULL: there is none. No other thread uses MAILBOX meanwhile. */
static inline struct mailbox_item *mailbox_next(struct mailbox *mailbox)
{
    struct mailbox_item *item = mailbox->first;

    if (item == NULL)
        return NULL;
    mailbox->first = item->next;
    if (mailbox->first == NULL)
        mailbox->last = &mailbox->first;
    return item;
}

#endif
