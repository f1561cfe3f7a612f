/*
 * Whether the system has room for a number of workers and threads: table slots, shared memory,
 * descriptors and listen sockets. The master.
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

#endif
