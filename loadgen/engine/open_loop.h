/*
 * The open loop of a driver: requests and scenarios begin when they are due, on connections that are free.
 * The client thread.
 */
#ifndef LOADGEN_OPEN_LOOP_H
#define LOADGEN_OPEN_LOOP_H

#include "loadgen/engine/slot.h"

/* Frees all slots of the settings and begins what is due already. */
void open_loop_start(struct driver *driver);

/* Slot NUMBER can begin a request. */
void open_loop_free(struct driver *driver, uint32_t number, uint64_t now_ns);

/* Begins all that is due while slots are free, and arms the timer for the next request. */
void open_loop_send(struct driver *driver, uint64_t now_ns);

/* After the loop: counts what was due but never begun. Does nothing in a closed loop. */
void open_loop_finish(struct driver *driver);

#endif
