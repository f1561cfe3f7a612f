/*
 * Which worker has which lane. Lanes of row i go to the i-th serving worker, modulo their number; a
 * lane that changes hands is given to the new worker before the old one is told to drop it, so that
 * somebody always accepts from it. The master.
 */
#ifndef DAEMON_DEALER_H
#define DAEMON_DEALER_H

#include "daemon/base/channel.h"
#include "daemon/master/listeners.h"

/* Lanes are dealt to these, in this order. */
struct dealer_hand {
    uint32_t slot;            /* the worker's, by which its lanes are remembered */
    struct channel *commands; /* borrowed during the call */
};

struct dealer {
    uint32_t *owner; /* by lane: a worker slot, or DEALER_NOBODY */
    uint32_t lanes;  /* that owner has room for */
};

enum { DEALER_NOBODY = UINT32_MAX };

/* Gives every lane to the worker that should have it. 0, or -1 when memory is short. */
int dealer_deal(struct dealer *dealer, const struct listeners *listeners,
                const struct dealer_hand *hands, uint32_t count);

/* The worker in SLOT has lost LANE, or has gone with all its lanes. */
void dealer_lost(struct dealer *dealer, uint32_t slot, uint32_t lane);
void dealer_gone(struct dealer *dealer, uint32_t slot);

void dealer_free(struct dealer *dealer);

#endif
