/*
 * Room for workers and threads: slots of the segment (common/segment.h), shared memory, descriptors
 * and listen sockets. Clears the slots of a dead worker. The master.
 */
#ifndef DAEMON_CAPACITY_H
#define DAEMON_CAPACITY_H

#include "daemon/master/server.h"

struct rlimit;

/* Raises the limit of descriptors to the maximum allowed for the process. */
void capacity_raise_descriptors(void);

/*
 * Checks that COUNT workers with THREADS threads each, for which the segment has slots, fit the limit of
 * descriptors and /dev/shm; reserves the memory and opens the listen sockets they need. Returns 0, or -1
 * with WHY and no change in force (reserved memory stays reserved).
 */
int capacity_prepare(struct server *server, uint32_t count, uint32_t threads, char *why,
                     size_t size);

/* Number of sockets that each listen address needs for CONFIG. */
uint32_t capacity_listen_sockets(const struct config *config);

/*
 * Returns how many connections a worker can hold if its process may open LIMIT descriptors: the
 * limit minus the worker's own descriptors. The kernel would discard a descriptor passed beyond it.
 */
uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit);

/*
 * After WORKER's process has ended: resets gauges and states, empties its table of clients, marks its
 * thread slots as unused.
 */
void capacity_clear_slot(struct segment *segment, uint32_t worker);

/* After WORKER's process has ended: empties its table of cache entries. Reads all pages of the table. */
void capacity_clear_cache(const struct segment *segment, uint32_t worker);

#endif
