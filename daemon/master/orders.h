/*
 * What all workers are told to do at once, and when all have done it: emptying and changing their
 * caches. Orders are numbered; each worker carries them out in turn and reports each one. The
 * master's loop.
 */
#ifndef DAEMON_ORDERS_H
#define DAEMON_ORDERS_H

#include "daemon/base/messages.h"

#include <stdbool.h>

struct master;
struct worker_process;

enum { ORDERS_TALLIED = 64 }; /* the last so many orders have their sum */

struct orders {
    uint64_t given; /* number of the last one; they begin with 1 */
    struct {
        uint64_t number, affected;
    } tally[ORDERS_TALLIED]; /* order n at n % ORDERS_TALLIED */
};

/* Gives all workers an order: VALUE and PATH ("" where there is none) as WHAT needs them. Returns its
 * number. */
uint64_t orders_give(struct master *master, enum order what, uint64_t value, const char *path);

/* WORKER has done what MESSAGE says. */
void orders_reported(struct master *master, struct worker_process *worker,
                     const struct message_order_done *message);

/* True when every worker has carried the order out, or has gone. */
bool orders_done(const struct master *master, uint64_t number);

/* How many cache entries it has affected so far in all workers. */
uint64_t orders_affected(const struct master *master, uint64_t number);

#endif
