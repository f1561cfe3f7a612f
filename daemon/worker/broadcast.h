/*
 * How a worker carries out an order of the master (daemon/master/workers.h): the shared cache changes at
 * once, then every serving thread sweeps its thread cache, and when the last has done so the master
 * is told by COMMANDS. Where there is no memory for an item to a thread, that one is not waited for. The
 * worker's main thread.
 */
#ifndef DAEMON_WORKER_ORDERS_H
#define DAEMON_WORKER_ORDERS_H

#include "daemon/base/channel.h"
#include "daemon/base/messages.h"
#include "daemon/worker/thread.h"

/* Begins; each of the COUNT threads of SERVING gets a ITEM_SWEEP. */
void order_begin(const struct site *site, struct serving_thread **serving, uint32_t count,
                 const struct message_command *message, struct channel *commands);

/* A thread has answered with ITEM_SWEPT: frees ITEM, and reports the order when it was the last. */
void order_swept(struct sweep_item *item, struct channel *commands);

/* The policy of that number (enum config_policy). */
const struct cache_policy *order_policy(uint64_t policy);

#endif
