/*
 * Before a number of workers and threads is promised: are there table slots, shared memory,
 * descriptors and listening sockets for it? The master.
 */
#ifndef DAEMON_CAPACITY_H
#define DAEMON_CAPACITY_H

#include "daemon/master/master.h"

/*
 * Checks that COUNT workers with THREADS threads each fit the tables, the descriptors allowed and
 * /dev/shm, reserves the memory, and opens the lanes they need. Returns 0, or -1 with WHY: nothing
 * that is in force has changed then (memory reserved so far stays so, for another time).
 */
int capacity_prepare(struct master *master, uint32_t count, uint32_t threads, char *why,
                     size_t size);

struct rlimit;

/*
 * How many connections a worker may be given at a time, by the LIMIT of its descriptors: one whose
 * descriptor does not fit into it any more would be lost on its way. What the process needs itself is
 * left out.
 */
uint64_t capacity_of_worker(const struct master *master, const struct rlimit *limit);

#endif
