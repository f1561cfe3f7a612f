/*
 * Room for workers and threads: slots of the segment (common/segment.h), shared memory, descriptors and
 * listen sockets. Assigns thread slots to workers, takes them back, and clears what a dead worker left.
 * The master.
 */
#ifndef DAEMON_CAPACITY_H
#define DAEMON_CAPACITY_H

#include "daemon/master/server.h"

struct rlimit;

/* Raises the limit of descriptors to the maximum that the process may have. */
void capacity_raise_descriptors(void);

/*
 * Checks that COUNT workers with THREADS threads each fit the tables, the limit of descriptors and
 * /dev/shm; reserves the memory and opens the listen sockets they need. Returns 0, or -1 with WHY and
 * nothing in force changed (reserved memory stays reserved).
 */
int capacity_prepare(struct server *server, uint32_t count, uint32_t threads, char *why,
                     size_t size);

/* Sockets that each listen address needs for CONFIG. */
uint32_t capacity_listen_sockets(const struct config *config);

/*
 * Returns how many connections a worker can hold if its process may open LIMIT descriptors: the limit
 * less what the worker needs itself. The kernel would discard a descriptor that is passed beyond it.
 */
uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit);

/*
 * Assigns thread slots to WORKER, which has those of its first HAS threads, until it has WANTED.
 * SLOTS gets the slot of each thread in order. Returns how many the worker has now. They are fewer
 * than WANTED if all slots are in use (*failed is ENOBUFS; leaving workers release theirs soon) or
 * /dev/shm is full (*failed is another errno); else *failed is 0.
 */
uint32_t capacity_assign_slots(struct segment *segment, uint32_t worker, uint32_t has,
                               uint32_t wanted, uint32_t *slots, int *failed);

/* Releases the slots of WORKER's threads from number FIRST on. */
void capacity_release_slots(struct segment *segment, uint32_t worker, uint32_t first);

/*
 * After the end of WORKER's process: resets gauges and states, empties its tables of cache entries and
 * clients, releases its thread slots.
 */
void capacity_clear_slot(struct segment *segment, uint32_t worker);

#endif
