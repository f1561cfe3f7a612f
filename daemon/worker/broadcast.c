#include "daemon/worker/broadcast.h"

#include <stdlib.h>

struct order_under_way {
    uint64_t number, affected;
    uint32_t outstanding; /* items that have not come back yet */
};

const struct cache_policy *order_policy(uint64_t policy)
{
    return policy == POLICY_LRU ? &cache_policy_lru : &cache_policy_sieve;
}

static uint64_t change_cache(struct cache *cache, const struct message_command *message)
{
    switch ((enum worker_command)message->what) {
    case COMMAND_CACHE_FLUSH:
        return cache_flush(cache);
    case COMMAND_CACHE_PURGE:
        return cache_purge(cache, message->path);
    case COMMAND_CACHE_SIZE:
        return cache_resize(cache, message->value);
    case COMMAND_CACHE_POLICY:
        cache_set_policy(cache, order_policy(message->value));
        break;
    }
    return 0;
}

static void send_sweep(struct order_under_way *order, struct mailbox *to)
{
    struct sweep_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return; /* it sweeps in its own time */
    item->order = order;
    order->outstanding++;
    mailbox_post(to, &item->item, ITEM_SWEEP);
}

static void report(struct channel *commands, uint64_t number, uint64_t affected)
{
    const struct message_command_done message = {number, affected};

    channel_send(commands, MESSAGE_COMMAND_DONE, &message, sizeof(message), -1, false);
}

void order_begin(const struct site *site, struct serving_thread **serving, uint32_t count,
                 const struct message_command *message, struct channel *commands)
{
    uint64_t affected = site->cache != NULL ? change_cache(site->cache, message) : 0;
    struct order_under_way *order = calloc(1, sizeof(*order));

    if (order != NULL) {
        order->number = message->number;
        order->affected = affected;
        for (uint32_t i = 0; i < count; i++)
            send_sweep(order, &serving[i]->mailbox);
    }
    if (order != NULL && order->outstanding > 0)
        return; /* the last item that comes back reports */
    free(order);
    report(commands, message->number, affected);
}

void order_swept(struct sweep_item *item, struct channel *commands)
{
    struct order_under_way *order = item->order;

    free(item);
    if (--order->outstanding > 0)
        return;
    report(commands, order->number, order->affected);
    free(order);
}
