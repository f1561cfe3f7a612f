/*
 * Who has which slot of the segment: the master lets thread slots to workers, takes them back, and
 * tidies up after workers that died. See common/segment.h.
 */
#ifndef DAEMON_SLOTS_H
#define DAEMON_SLOTS_H

#include "common/segment.h"

/*
 * Lets thread slots to WORKER, which has the first HAD of its threads already, until it has WANTED.
 * SLOTS gets the slot of each thread in order. Returns how many it has now: fewer than WANTED when
 * all are let (leaving workers give theirs back soon) or /dev/shm is full; *failed is then ENOBUFS or
 * another errno, else 0.
 */
uint32_t slots_let(struct segment *segment, uint32_t worker, uint32_t had, uint32_t wanted,
                   uint32_t *slots, int *failed);

/* Takes back the slots of WORKER's threads from number FIRST on. */
void slots_take_back(struct segment *segment, uint32_t worker, uint32_t first);

/* WORKER's process has ended: gauges to 0, states to none, cache table empty, slots back. */
void slots_clear(struct segment *segment, uint32_t worker);

/* Reserves memory until COUNT thread slots have theirs. Returns 0 or an errno. */
int slots_reserve(struct segment *segment, uint32_t count);

#endif
