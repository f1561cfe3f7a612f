/*
 * Loads another configuration into the running server. The file is checked completely first; then a
 * new generation of workers starts with it beside the old one, and when all of them serve, the old
 * ones leave. A failure before that changes nothing.
 *
 *   idle ──request──▶ starting ──all new workers serve──▶ (old workers leave) ──▶ idle
 *                        │ a new worker dies
 *                        └──▶ idle, with the previous configuration
 *
 * Requests that come before the old workers have left are merged into one more reload. The master's
 * loop.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/config/options.h"
#include "daemon/master/shutdown.h"

#include <jansson.h>

struct reload;

/* All borrowed. */
struct reload_setup {
    struct server *server;
    const struct workers *workers;
    struct supervisor *supervisor;
    struct dispatch *dispatch;
    const struct shutdown *shutdown;
    const struct options *options;    /* the command line, which names the configuration */
    void (*committed)(void *context); /* server->config is in force; apply it elsewhere */
    void *context;
};

/* NULL: out of memory. */
struct reload *reload_new(const struct reload_setup *setup);
void reload_free(struct reload *reload);

/*
 * Checks the file and starts the reload, or queues it after the current one. Returns the number of
 * the attempt; or 0 with nothing changed and the error messages in *ERRORS (the caller frees; NULL:
 * out of memory).
 */
uint64_t reload_request(struct reload *reload, char **errors);

/* The same for SIGHUP, with errors logged. */
void reload_request_by_signal(struct reload *reload);

/* True if that attempt has ended, successfully or not. */
bool reload_is_done(const struct reload *reload, uint64_t attempt);

/* The error of the last attempt, or NULL. Borrowed. */
const char *reload_failure(const struct reload *reload);

/* Names of the keys that the last reload changed. Borrowed. */
json_t *reload_changed_keys(const struct reload *reload);

/*
 * Call when the new workers serve: applies the rest of the configuration. Does nothing without a
 * reload.
 */
void reload_commit(struct reload *reload);

/*
 * Call when a worker has died; HOW describes it. The reload fails if it was a new worker that never
 * served.
 */
void reload_worker_died(struct reload *reload, const struct worker_process *worker,
                        const char *how);

/* Call when a process has started or ended: takes the next step. */
void reload_advance(struct reload *reload);

#endif
