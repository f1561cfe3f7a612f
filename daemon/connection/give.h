/*
 * Gives some of a thread's connections to others, so that all have about the same load. The
 * worker's main thread decides how many (daemon/worker/balancer.c); the owning thread picks them:
 *
 *   active ones  evenly spaced in the order of their last requests, so that cheap and expensive
 *                ones go in the same proportion as they are
 *   idle ones    those that have waited longest, first for a request, then for the rest of one or for
 *                the client to receive a response; then active ones, because an order may be based
 *                on numbers that are a second old
 *
 * A connection goes as it is, with its unserved bytes and its unsent response; one for another
 * worker goes only between two requests. Nothing is read or written meanwhile: what the
 * client sends waits in the socket for the next owner.
 */
#ifndef DAEMON_CONNECTION_GIVE_H
#define DAEMON_CONNECTION_GIVE_H

#include "daemon/connection/connection.h"

/* An order of the main thread, which gets it back. */
struct give {
    struct mailbox_item item;
    mailbox_deliver_fn *given; /* on the main thread, after it has been executed */
    uint32_t count;
    uint32_t destination; /* number of a thread, or enum destination */
    enum move_reason reason;
    bool idle; /* give connections that are not active; false: active ones */
};

/*
 * Delivers a struct give to a struct event_loop: hands over up to the wanted number of connections,
 * fewer if not enough can go, updates the gauge connections_active, and returns the order.
 */
void connections_give(struct mailbox_item *item, void *receiver);

#endif
