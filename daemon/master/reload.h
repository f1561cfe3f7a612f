/*
 * Another configuration for a running server. The file is checked whole first; then a generation of
 * workers that has it starts beside the old one, and when all of them serve, the old ones leave. What
 * fails before that leaves everything as it was.
 *
 *   idle ──asked──▶ starting ──all new ones serve──▶ (old ones leave) ──▶ idle
 *                      │ a new one dies
 *                      └──▶ idle, with the configuration from before
 *
 * Asked again before the old workers have gone, one more reload waits, however often it was asked
 * for. The master's loop.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/master/master.h"

#include <jansson.h>

/* NULL: out of memory. */
struct reload *reload_new(struct master *master);
void reload_free(struct reload *reload);

/*
 * Checks the file and begins, or lets the reload wait its turn. Returns the attempt's number, or 0
 * with *REFUSAL set to what is wrong with the file (the caller frees): then nothing happens.
 */
uint64_t reload_ask(struct reload *reload, char **refusal);

/* The same by a signal: what is wrong becomes events. */
void reload_by_signal(struct reload *reload);

/* True when that attempt has come to its end. */
bool reload_is_done(const struct reload *reload, uint64_t attempt);

/* How the last attempt ended: NULL, or why nothing was changed. */
const char *reload_failure(const struct reload *reload);

/* Names of the keys that it changed; borrowed. */
json_t *reload_changed_keys(const struct reload *reload);

/* The new workers serve: the rest changes with them. Also where no reload is under way. */
void reload_commit(struct reload *reload);

/* A worker has died; if it was a new one that never served, so has the reload. */
void reload_worker_died(struct reload *reload, const struct worker_process *worker,
                        const char *how);

/* Something has ended or come into force: takes the next step. */
void reload_go_on(struct reload *reload);

#endif
