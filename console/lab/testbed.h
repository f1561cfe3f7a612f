/*
 * The test bed of a scenario: a private webserverd with files and its wsload clients, or
 * examples/locks; and the actions on them. testbed_close() removes everything. Single thread.
 */
#ifndef CONSOLE_LAB_TESTBED_H
#define CONSOLE_LAB_TESTBED_H

#include "console/lab/scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct testbed;

/* Starts the server and the initial load, which takes about a second. Returns NULL with an error
 * message in WHY. */
struct testbed *testbed_open(const struct lab_scenario *scenario, char *why, size_t size);

/* Stops all processes and removes all files. NULL is allowed. */
void testbed_close(struct testbed *testbed);

/* The name of the instance. *SOCKET: its control socket; NULL: that in its segment. */
const char *testbed_instance(const struct testbed *testbed, const char **socket);

/*
 * Executes ACTION; WORKER is the target of LAB_KILL. Returns 0, or -1 with an error message in WHY.
 */
int testbed_execute(struct testbed *testbed, const struct lab_action *action, pid_t worker,
                    char *why, size_t size);

/* Reads the output of the clients and reconnects stalled ones. Call a few times per second. */
void testbed_update(struct testbed *testbed, uint64_t now_ns);

/* Failed requests of all clients since the start. */
uint64_t testbed_failed_requests(const struct testbed *testbed);

/* The last message of a program that exited unexpectedly, or NULL. */
const char *testbed_error(const struct testbed *testbed);

#endif
