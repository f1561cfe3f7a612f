/*
 * The client threads of a run, and what they are to do together: connections and rate are shared out
 * evenly, threads come and go. Main thread.
 */
#ifndef LOADGEN_FLEET_H
#define LOADGEN_FLEET_H

#include "loadgen/engine/client_thread.h"

struct fleet;

/* What all threads together are to do. */
struct fleet_orders {
    uint32_t threads;
    uint32_t connections;
    struct profile rate; /* requests a second; of an open loop */
};

/* Makes the threads; SETUP's index and late are not looked at. Returns NULL with errno set. */
struct fleet *fleet_create(const struct client_thread_setup *setup,
                           const struct fleet_orders *orders);

/* Starts them. Returns 0 or an errno: then those that did start are to be abandoned. */
int fleet_start(struct fleet *fleet);

/*
 * Follows new orders while the run goes on. Returns 0, or -1 with WHY: nothing has changed then. Fewer
 * connections than threads are never asked for.
 */
int fleet_order(struct fleet *fleet, const struct fleet_orders *orders, char *why, size_t size);

/* COUNT threads have ended. Returns how many still run. */
uint32_t fleet_ended(struct fleet *fleet, uint32_t count);

uint32_t fleet_running(const struct fleet *fleet);

/* Makes all threads look whether the run is over. */
void fleet_wake(struct fleet *fleet);

void fleet_abandon(struct fleet *fleet);

/* Waits for the end of all that were started. */
void fleet_join(struct fleet *fleet);

/* Makes *sum (and *warmup, unless NULL) what all threads counted so far. */
void fleet_add_up(const struct fleet *fleet, struct tally *sum, struct tally *warmup);

/* Of all threads together, once they were joined. */
struct fleet_account {
    uint64_t first_begun_ns, last_end_ns;
    uint64_t cpu_ns, waited_ns; /* on a core; ready, while others had the cores */
    uint64_t thread_ns;         /* how long they were there, added up */
    struct error_texts error_texts;
};
struct fleet_account fleet_account(const struct fleet *fleet);

/* Whether there was no memory for all connections that were ordered. */
bool fleet_fell_short(const struct fleet *fleet);

void fleet_destroy(struct fleet *fleet);

#endif
