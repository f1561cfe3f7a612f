/*
 * Loads another configuration into the running server. The file is checked completely first; then a
 * new generation of workers starts with it beside the old one, and when all of them serve, the old
 * ones leave. A failure before that changes nothing.
 *
 * Requests that come before the old workers have left are merged into one more reload. The actions
 * of the life cycle's table return 0, or -1 with nothing changed. The master's loop.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/config/options.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/lifecycle.h"
#include "daemon/master/supervisor.h"

#include <jansson.h>

struct reload;

/* All borrowed. */
struct reload_setup {
    struct server *server;
    const struct workers *workers;
    struct supervisor *supervisor;
    struct auxiliary *auxiliary;
    struct dispatch *dispatch;
    struct lifecycle *life;
    const struct options *options; /* the command line, which names the configuration */
    /* server->config is in force; apply it elsewhere. CHANGED: not only the certificates are new. */
    void (*committed)(void *context, bool changed);
    void *context;
};

/* NULL: out of memory. */
struct reload *reload_new(const struct reload_setup *setup);
void reload_free(struct reload *reload);

/*
 * Frees the previous configuration if a reload is under way. Only at the end of the master: in a
 * child, which calls reload_free() too, it may be the configuration of the logger.
 */
void reload_free_previous(struct reload *reload);

/*
 * Checks the file and starts the reload, or queues it after the current change. Returns the number
 * of the attempt; or 0 with nothing changed and reload_refusal().
 */
uint64_t reload_request(struct reload *reload);

/*
 * Starts a reload of only the certificates: the configuration stays as it is, whatever its file says by
 * now. Returns false if another change is under way: then call it again later. Errors are logged.
 */
bool reload_renew_certificates(struct reload *reload);

/* The same as reload_request() for SIGHUP, with errors logged. */
void reload_request_by_signal(struct reload *reload);

/* The same, requested from the old master of an upgrade, which had not begun it. */
void reload_request_by_old_master(struct reload *reload);

/* True if a reload is queued. */
bool reload_is_waiting(const struct reload *reload);

/* The same for a queued reload, if there is one. Call when no old worker is left. */
void reload_start_waiting(struct reload *reload);

/*
 * Reports EVENT_new_died if WORKER, which has died, was a new one that never served; HOW describes
 * it.
 */
void reload_worker_died(struct reload *reload, const struct worker_process *worker,
                        const char *how);

/* True if that attempt has ended, successfully or not. */
bool reload_is_done(const struct reload *reload, uint64_t attempt);

/* Why the last request was not accepted; NULL: out of memory. Borrowed. */
const char *reload_refusal(const struct reload *reload);

/* The error of the last attempt, or NULL. Borrowed. */
const char *reload_failure(const struct reload *reload);

/* Names of the keys that the last reload changed. Borrowed. */
json_t *reload_changed_keys(const struct reload *reload);

/* Reports the same, because a worker could not be started. */
void reload_worker_not_started(struct reload *reload, const char *why);

/* Actions */

int reload_start(struct reload *reload);
int reload_queue(struct reload *reload);
int reload_refuse(struct reload *reload);
int reload_commit(struct reload *reload);
int reload_abandon(struct reload *reload);

#endif
