/*
 * The main thread's part of shedding (daemon/connection/shedding.h): passes a request from thread
 * to thread until enough connections are closed. The worker's main thread.
 */
#ifndef DAEMON_WORKER_SHEDDING_H
#define DAEMON_WORKER_SHEDDING_H

#include "daemon/worker/thread.h"

/* The main thread's own request. */
struct worker_shedding {
    struct shed_request request;
    bool under_way;
};

/* Passes REQUEST to the next of the COUNT THREADS, or ends it. */
void worker_shedding_pass(struct worker_shedding *shedding, struct shed_request *request,
                          struct serving_thread **threads, uint32_t count);

/* Makes the threads close WANTED idle connections, unless the last such request is under way. */
void worker_shedding_begin(struct worker_shedding *shedding, enum shortage reason, uint32_t wanted,
                           struct serving_thread **threads, uint32_t count);

#endif
