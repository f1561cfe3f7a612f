/*
 * The stage of a scenario: a private webserverd with files, the clients that load it, and what may be
 * done with them. Nothing of it outlives testbed_close(). The console's only thread.
 */
#ifndef CONSOLE_LAB_STAGE_H
#define CONSOLE_LAB_STAGE_H

#include "console/lab/scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct testbed;

/* Sets the stage for SCENARIO, which takes a moment. Returns NULL with a sentence in WHY. */
struct testbed *testbed_open(const struct lab_scenario *scenario, char *why, size_t size);

/* Ends everything that was started and removes everything that was made. NULL is allowed. */
void testbed_close(struct testbed *stage);

const char *testbed_name(const struct testbed *stage);   /* of the instance */
const char *testbed_socket(const struct testbed *stage); /* of its control */

/* Does ACTION; WORKER is the process that LAB_KILL means. Returns 0, or -1 with WHY. */
int testbed_act(struct testbed *stage, const struct lab_action *action, pid_t worker, char *why,
                size_t size);

/* Takes what the clients have said, and looks after those that stall. */
void testbed_update(struct testbed *stage, uint64_t now_ns);

/* Requests that the clients saw fail since they were started. */
uint64_t testbed_failed_requests(const struct testbed *stage);

/* What a client said before it ended by itself, or NULL. */
const char *testbed_error(const struct testbed *stage);

#endif
