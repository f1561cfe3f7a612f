/* One serving thread of a worker, stopped at a system call while the others run. */
#ifndef TESTS_HELD_THREAD_H
#define TESTS_HELD_THREAD_H

#include <stdbool.h>
#include <sys/types.h>

/* A serving thread of WORKER. */
pid_t held_thread_find(pid_t worker);

/* Stops THREAD. Returns false if this process may not trace it, as in a sandbox. */
bool held_thread_stop(pid_t thread);

/* Lets THREAD run until it is about to do the system call NUMBER. */
void held_thread_run_to(pid_t thread, long number);

void held_thread_release(pid_t thread);

#endif
