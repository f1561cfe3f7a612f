/*
 * How serving threads that outnumber their cores are scheduled. Each request that comes in would let
 * its thread push aside whoever runs, which may well be a sibling in the middle of its own: many
 * wake-ups for one request each. As batch work (SCHED_BATCH, sched(7)) a thread waits until the
 * running one rests, and finds several requests then. The owning thread.
 */
#ifndef DAEMON_CROWDING_H
#define DAEMON_CROWDING_H

#include "daemon/worker/thread.h"

/* To be called now and then: counts the threads of all workers, and changes this one's policy when
 * they have become more, or no more, than the cores it may run on. */
void crowding_look(struct serving_thread *thread);

#endif
