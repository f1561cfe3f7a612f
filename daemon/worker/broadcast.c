#include "daemon/worker/broadcast.h"

#include "common/macros.h"
#include "daemon/worker/context.h"

#include <stdlib.h>

struct broadcast {
    const struct worker_context *worker;
    struct channel *commands;
    uint64_t number, affected;
    uint32_t outstanding; /* items not returned yet */
};

struct sweep_item {
    struct mailbox_item item;
    struct broadcast *broadcast;
};

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
        cache_set_policy(cache, worker_context_cache_policy(message->value));
        break;
    }
    return 0;
}

static void report_done(struct channel *commands, uint64_t number, uint64_t affected)
{
    const struct message_command_done message = {number, affected};

    channel_send(commands, MESSAGE_COMMAND_DONE, &message, sizeof(message), -1, false);
}

static void deliver_swept(struct mailbox_item *item, void *receiver)
{
    struct sweep_item *sweep = CONTAINER_OF(item, struct sweep_item, item);
    struct broadcast *broadcast = sweep->broadcast;

    (void)receiver;
    free(sweep);
    if (--broadcast->outstanding > 0)
        return;
    report_done(broadcast->commands, broadcast->number, broadcast->affected);
    free(broadcast);
}

/* On the serving thread. */
static void deliver_sweep_item(struct mailbox_item *item, void *receiver)
{
    const struct broadcast *broadcast = CONTAINER_OF(item, struct sweep_item, item)->broadcast;

    thread_sweep(receiver);
    mailbox_post(broadcast->worker->main, item, deliver_swept);
}

static void post_sweep(struct broadcast *broadcast, struct mailbox *to)
{
    struct sweep_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return;
    item->broadcast = broadcast;
    broadcast->outstanding++;
    mailbox_post(to, &item->item, deliver_sweep_item);
}

void broadcast_begin(const struct worker_context *worker, struct serving_thread **threads,
                     uint32_t count, const struct message_command *message,
                     struct channel *commands)
{
    uint64_t affected = worker->cache != NULL ? change_cache(worker->cache, message) : 0;
    struct broadcast *broadcast = calloc(1, sizeof(*broadcast));

    if (broadcast != NULL) {
        broadcast->worker = worker;
        broadcast->commands = commands;
        broadcast->number = message->number;
        broadcast->affected = affected;
        for (uint32_t i = 0; i < count; i++)
            post_sweep(broadcast, &threads[i]->loop.mailbox);
    }
    if (broadcast != NULL && broadcast->outstanding > 0)
        return;
    free(broadcast);
    report_done(commands, message->number, affected);
}
