/*
 * Prepares the requests of a run: reads the files, parses the URLs, resolves the hosts, and builds the messages.
 * Main thread.
 */
#ifndef LOADGEN_PREPARE_H
#define LOADGEN_PREPARE_H

#include "loadgen/plan/request_plan.h"

/*
 * Fills *request_plan from PLAN. Returns 0, or -1 with WHY. Release with request_plan_free() in either
 * case.
 */
int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size);

/* Resolves the hosts, unless requests go to a proxy or a UNIX socket. Returns 0, or -1 with WHY. */
int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size);

#endif
