/*
 * Hostile clients: connections that hold or waste resources of the server while the honest clients
 * of a run send their requests. They speak HTTP/1.1 to the server of the first request, from a
 * thread of their own, and are not part of the run's counts. A connection that the server closes is
 * established again within a second. Main thread.
 */
#ifndef LOADGEN_HOSTILE_H
#define LOADGEN_HOSTILE_H

#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/result.h"

struct hostile_clients;

/* Starts the clients of the plan. Returns NULL with errno set. */
struct hostile_clients *hostile_clients_start(const struct request_plan *request_plan);

/* Ends them; COUNTS receives what each kind did. Frees CLIENTS, which may be NULL. */
void hostile_clients_stop(struct hostile_clients *clients,
                          struct hostile_count counts[PLAN_HOSTILE_KINDS]);

#endif
