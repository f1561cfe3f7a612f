/*
 * Our own server's word on how many requests there were: a webserverd of this machine that listens at
 * the target publishes its counters in shared memory. Main thread; nothing is written there.
 */
#ifndef LOADGEN_SERVER_CHECK_H
#define LOADGEN_SERVER_CHECK_H

#include "loadgen/plan/work.h"
#include "loadgen/stats/result.h"

struct server_check;

/* Looks for the server, before the run. Returns NULL when there is none, or no memory. */
struct server_check *server_check_begin(const struct request_plan *request_plan);

/*
 * Compares, after the run: ANSWERED requests got a whole answer. Waits for the server to have
 * counted them, a second at the most. Frees CHECK, which may be NULL.
 */
void server_check_end(struct server_check *check, uint64_t answered,
                      struct server_check_result *result);

#endif
