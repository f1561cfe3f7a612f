#include "daemon/master/orders.h"

#include "common/control_client.h"
#include "daemon/master/master.h"
#include "daemon/master/supervisor.h"

#include <string.h>

uint64_t orders_give(struct master *master, enum order what, uint64_t value, const char *path)
{
    _Alignas(struct message_order) char buffer[sizeof(struct message_order) + CONTROL_LINE_MAX] = {
        0}; /* it travels whole */
    struct message_order *message = (struct message_order *)buffer;
    struct orders *orders = &master->orders;
    size_t room = strlen(path) + 1;
    uint64_t number = ++orders->given;

    message->number = number;
    message->value = value;
    message->what = what;
    memcpy(message->path, path, room);
    orders->tally[number % ORDERS_TALLIED].number = number;
    orders->tally[number % ORDERS_TALLIED].affected = 0;
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        struct worker_process *worker = supervisor_worker(master->supervisor, i);

        if (worker->state != WORKER_NONE)
            channel_send(worker->commands, MESSAGE_ORDER, message, sizeof(*message) + room, -1,
                         false);
    }
    return number;
}

void orders_reported(struct master *master, struct worker_process *worker,
                     const struct message_order_done *message)
{
    struct orders *orders = &master->orders;

    worker->orders_done = message->number;
    if (orders->tally[message->number % ORDERS_TALLIED].number == message->number)
        orders->tally[message->number % ORDERS_TALLIED].affected += message->affected;
}

/* A worker that leaves takes no orders: its cache goes with it. */
bool orders_done(const struct master *master, uint64_t number)
{
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        const struct worker_process *worker = supervisor_worker(master->supervisor, i);

        if ((worker->state == WORKER_STARTING || worker->state == WORKER_SERVING) &&
            worker->orders_done < number)
            return false;
    }
    return true;
}

uint64_t orders_affected(const struct master *master, uint64_t number)
{
    const struct orders *orders = &master->orders;

    return orders->tally[number % ORDERS_TALLIED].number == number
               ? orders->tally[number % ORDERS_TALLIED].affected
               : 0;
}
