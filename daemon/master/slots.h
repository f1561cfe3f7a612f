/*
 * The slots of the segment (common/segment.h): the master assigns thread slots to workers, takes them
 * back, and clears what a dead worker left. The master.
 */
#ifndef DAEMON_SLOTS_H
#define DAEMON_SLOTS_H

#include "common/segment.h"

/*
 * Assigns thread slots to WORKER, which has those of its first HAS threads, until it has WANTED.
 * SLOTS gets the slot of each thread in order. Returns how many the worker has now. They are fewer
 * than WANTED if all slots are in use (*failed is ENOBUFS; leaving workers release theirs soon) or
 * /dev/shm is full (*failed is another errno); else *failed is 0.
 */
uint32_t slots_assign(struct segment *segment, uint32_t worker, uint32_t has, uint32_t wanted,
                      uint32_t *slots, int *failed);

/* Releases the slots of WORKER's threads from number FIRST on. */
void slots_release(struct segment *segment, uint32_t worker, uint32_t first);

/*
 * After the end of WORKER's process: resets gauges and states, empties its tables of cache entries and
 * clients, releases its thread slots.
 */
void slots_clear(struct segment *segment, uint32_t worker);

/* Reserves memory until COUNT thread slots have theirs. Returns 0 or an errno. */
int slots_reserve(struct segment *segment, uint32_t count);

#endif
