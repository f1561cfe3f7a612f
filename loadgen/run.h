/*
 * A run from its first request to its last: starts the client threads, shows progress, ends the run
 * at its deadline or on a signal, and adds everything up. Main thread; once in a process, for it
 * takes over SIGINT, SIGTERM and SIGHUP: the first ends the run as its deadline would, the second
 * at once.
 */
#ifndef LOADGEN_RUN_H
#define LOADGEN_RUN_H

#include "loadgen/plan.h"
#include "loadgen/result.h"
#include "loadgen/target.h"

#include <stddef.h>

/* Runs PLAN against TARGET. Returns 0 with *result filled, or -1 with WHY when it could not begin.
 */
int run(const struct plan *plan, const struct target *target, struct result *result, char *why,
        size_t size);

#endif
