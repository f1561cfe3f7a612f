/* What the files of this directory share: items for the worker's main thread. RECEIVER: struct worker. */
#ifndef DAEMON_WORKER_INTERNAL_H
#define DAEMON_WORKER_INTERNAL_H

#include "daemon/base/mailbox.h"

/* Delivers a struct connection, which its thread has handed over. */
void worker_pass_connection(struct mailbox_item *item, void *receiver);

/* Delivers a struct give, which its thread has executed. */
void worker_given(struct mailbox_item *item, void *receiver);

/* Delivers a struct shed_request: to the next thread, or to its asker. */
void worker_pass_shed_request(struct mailbox_item *item, void *receiver);

/* Delivers a struct serving_thread, which has ended. */
void worker_thread_ended(struct mailbox_item *item, void *receiver);

#endif
