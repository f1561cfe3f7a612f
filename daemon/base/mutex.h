/* Mutexes that serving threads share: a wait for one is counted by the thread that waits. */
#ifndef DAEMON_BASE_MUTEX_H
#define DAEMON_BASE_MUTEX_H

#include <pthread.h>
#include <stdint.h>

/*
 * Counts the waits of the calling thread in METRICS, those of a serving thread, from now on.
 * Other threads count none.
 */
void mutex_count_waits(_Atomic uint64_t *metrics);

/* Locks MUTEX. Only a wait costs more than pthread_mutex_lock(). Any thread. */
void mutex_lock(pthread_mutex_t *mutex);

#endif
