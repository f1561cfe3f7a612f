/*
 * The stage of a scenario: a private webserverd with files, the clients that load it, and what may be
 * done with them. Nothing of it outlives lab_stage_close(). The console's only thread.
 */
#ifndef CONSOLE_LAB_STAGE_H
#define CONSOLE_LAB_STAGE_H

#include "console/lab/scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lab_stage;

/* Sets the stage for SCENARIO, which takes a moment. Returns NULL with a sentence in WHY. */
struct lab_stage *lab_stage_open(const struct lab_scenario *scenario, char *why, size_t size);

/* Ends everything that was started and removes everything that was made. NULL is allowed. */
void lab_stage_close(struct lab_stage *stage);

const char *lab_stage_name(const struct lab_stage *stage);   /* of the instance */
const char *lab_stage_socket(const struct lab_stage *stage); /* of its control */

/* Does ACTION; WORKER is the process that LAB_KILL means. Returns 0, or -1 with WHY. */
int lab_stage_act(struct lab_stage *stage, const struct lab_action *action, pid_t worker, char *why,
                  size_t size);

/* Takes what the clients have said, and looks after those that stall. */
void lab_stage_update(struct lab_stage *stage, uint64_t now_ns);

/* Requests that the clients saw fail since they were started. */
uint64_t lab_stage_failed(const struct lab_stage *stage);

/* What a client said before it ended by itself, or NULL. */
const char *lab_stage_trouble(const struct lab_stage *stage);

#endif
