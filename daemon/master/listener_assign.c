#include "daemon/master/listener_assign.h"

#include "daemon/base/messages.h"

#include <stdlib.h>

static int make_room(struct listener_assign *assign, uint32_t count)
{
    uint32_t *owner;

    if (count <= assign->count)
        return 0;
    owner = realloc(assign->owner, count * sizeof(*owner));
    if (owner == NULL)
        return -1;
    assign->owner = owner;
    while (assign->count < count)
        owner[assign->count++] = LISTENER_UNASSIGNED;
    return 0;
}

static const struct listener_taker *find_taker(const struct listener_taker *takers, uint32_t count,
                                               uint32_t worker)
{
    for (uint32_t i = 0; i < count; i++)
        if (takers[i].worker == worker)
            return &takers[i];
    return NULL;
}

int listener_assign_update(struct listener_assign *assign, const struct listeners *listeners,
                           const struct listener_taker *takers, uint32_t count)
{
    uint32_t sockets = listeners_count(listeners);

    if (make_room(assign, sockets) != 0)
        return -1;
    for (uint32_t i = 0; i < sockets && count > 0; i++) {
        const struct message_listen_socket message = {i, listeners_row(listeners, i)};
        int fd = listeners_is_shared(listeners, i) ? -1 : listeners_fd(listeners, i);
        const struct listener_taker *to = &takers[message.row % count];
        const struct listener_taker *from = find_taker(takers, count, assign->owner[i]);

        if (fd < 0)
            assign->owner[i] = LISTENER_UNASSIGNED;
        if (fd < 0 || to == from)
            continue;
        channel_send(to->commands, MESSAGE_LISTEN_SOCKET_ADD, &message, sizeof(message), fd, false);
        if (from != NULL)
            channel_send(from->commands, MESSAGE_LISTEN_SOCKET_DROP, &message, sizeof(message), -1,
                         false);
        assign->owner[i] = to->worker;
    }
    return 0;
}

void listener_assign_forget(struct listener_assign *assign, uint32_t worker, uint32_t id)
{
    if (id < assign->count && assign->owner[id] == worker)
        assign->owner[id] = LISTENER_UNASSIGNED;
}

void listener_assign_forget_worker(struct listener_assign *assign, uint32_t worker)
{
    for (uint32_t i = 0; i < assign->count; i++)
        listener_assign_forget(assign, worker, i);
}

void listener_assign_free(struct listener_assign *assign)
{
    free(assign->owner);
    *assign = (struct listener_assign){0};
}
