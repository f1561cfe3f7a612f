/*
 * Connections follow the threads: keeps the load of a worker's threads even by moving connections
 * between them, after a resize at once, otherwise when the load stays uneven
 * (daemon/base/balance.h). Also gives connections to other workers, as the master orders.
 *
 *   look ──struct give──▶ giving thread ──connection──▶ main thread ──connection──▶ taking thread
 *                              └──struct give──▶ balancer_given()
 *
 * It looks again only when all connections of the last look have arrived. The threads publish their
 * numbers of connections; their CPU time is the kernel's. The worker's main thread.
 */
#ifndef DAEMON_WORKER_BALANCER_H
#define DAEMON_WORKER_BALANCER_H

#include "daemon/base/balance.h"
#include "daemon/base/messages.h"
#include "daemon/connection/give.h"
#include "daemon/worker/thread.h"

/* Initially zero, with worker_slot and on set. */
struct balancer {
    uint32_t worker_slot;
    bool on; /* [workers] balance_connections */
    struct balance balance;
    uint32_t gives;      /* orders to threads that have not come back */
    uint32_t gives_away; /* of these, those for other workers */
    uint32_t moved;      /* connections passed to threads since the last resize */
    uint64_t looked_ns;  /* last look; monotonic */
    uint64_t resized_ns; /* last resize, until it is balanced and logged; monotonic; 0: it is */
    uint32_t from, to;   /* its numbers of threads */
};

/* Turns it on or off. After turning it on, the next look is due, as after a resize. */
void balancer_switch(struct balancer *balancer, bool on);

/* The worker has COUNT threads instead of BEFORE: the next look, which is due, evens them out. */
void balancer_resized(struct balancer *balancer, uint32_t before, uint32_t count);

/*
 * Compares the COUNT THREADS and orders moves. Returns the time until the next look in
 * milliseconds.
 */
uint32_t balancer_look(struct balancer *balancer, struct serving_thread **threads, uint32_t count);

/*
 * Orders connections for other workers, from each of the COUNT THREADS in proportion to its own.
 * They have been given when balancer_gives_away() is false.
 */
void balancer_give_away(struct balancer *balancer, struct serving_thread **threads, uint32_t count,
                        const struct message_give *message);

bool balancer_gives_away(const struct balancer *balancer);

/* GIVE has been executed: frees it. */
void balancer_given(struct balancer *balancer, struct give *give);

/* True while connections are on their way from one thread to another. */
bool balancer_is_moving(const struct balancer *balancer, struct serving_thread **threads,
                        uint32_t count);

#endif
