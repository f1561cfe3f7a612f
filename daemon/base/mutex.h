/* Mutexes that serving threads share: the thread that waits for one publishes and counts it. */
#ifndef DAEMON_BASE_MUTEX_H
#define DAEMON_BASE_MUTEX_H

#include "common/segment.h"

#include <pthread.h>
#include <stdint.h>

/*
 * From now on the waits of the calling thread, a serving thread, are its state LOCK and are counted
 * in BLOCK. Those of other threads are not.
 */
void mutex_publish_waits(struct segment_thread *block);

/* Locks MUTEX. Only a wait costs more than pthread_mutex_lock(). Any thread. */
void mutex_lock(pthread_mutex_t *mutex);

#endif
