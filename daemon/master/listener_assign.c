#include "daemon/master/listener_assign.h"

#include "daemon/base/messages.h"

#include <stdlib.h>

static bool make_room(struct dealer *dealer, uint32_t lanes)
{
    uint32_t *owner;

    if (lanes <= dealer->lanes)
        return true;
    owner = realloc(dealer->owner, lanes * sizeof(*owner));
    if (owner == NULL)
        return false;
    dealer->owner = owner;
    while (dealer->lanes < lanes)
        owner[dealer->lanes++] = DEALER_NOBODY;
    return true;
}

static const struct dealer_hand *hand_of(const struct dealer_hand *hands, uint32_t count,
                                         uint32_t slot)
{
    for (uint32_t i = 0; i < count; i++)
        if (hands[i].slot == slot)
            return &hands[i];
    return NULL;
}

int dealer_deal(struct dealer *dealer, const struct listeners *listeners,
                const struct dealer_hand *hands, uint32_t count)
{
    uint32_t lanes = listeners_lanes(listeners);

    if (!make_room(dealer, lanes))
        return -1;
    for (uint32_t i = 0; i < lanes && count > 0; i++) {
        const struct message_lane message = {i, listeners_row(listeners, i)};
        int fd = listeners_is_shared(listeners, i) ? -1 : listeners_lane(listeners, i);
        const struct dealer_hand *taker = &hands[message.row % count];
        const struct dealer_hand *giver = hand_of(hands, count, dealer->owner[i]);

        if (fd < 0)
            dealer->owner[i] = DEALER_NOBODY;
        if (fd < 0 || taker == giver)
            continue;
        channel_send(taker->commands, MESSAGE_LANE_ADD, &message, sizeof(message), fd, false);
        if (giver != NULL)
            channel_send(giver->commands, MESSAGE_LANE_DROP, &message, sizeof(message), -1, false);
        dealer->owner[i] = taker->slot;
    }
    return 0;
}

void dealer_lost(struct dealer *dealer, uint32_t slot, uint32_t lane)
{
    if (lane < dealer->lanes && dealer->owner[lane] == slot)
        dealer->owner[lane] = DEALER_NOBODY;
}

void dealer_gone(struct dealer *dealer, uint32_t slot)
{
    for (uint32_t i = 0; i < dealer->lanes; i++)
        dealer_lost(dealer, slot, i);
}

void dealer_free(struct dealer *dealer)
{
    free(dealer->owner);
    *dealer = (struct dealer){0};
}
