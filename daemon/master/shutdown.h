/*
 * The actions that end a master, in order: the workers answer what is on its way, then finish their
 * requests; the logger writes the remaining lines; the loop ends. Each returns 0. The master's loop.
 */
#ifndef DAEMON_SHUTDOWN_H
#define DAEMON_SHUTDOWN_H

#include "daemon/master/dispatch.h"
#include "daemon/master/lifecycle.h"
#include "daemon/master/rebalance.h"
#include "daemon/master/supervisor.h"

/* All are borrowed. */
struct shutdown {
    struct server *server;
    const struct workers *workers;
    struct supervisor *supervisor;
    struct auxiliary *auxiliary;
    struct dispatch *dispatch;
    struct rebalance *rebalance;
    struct lifecycle *life;
    bool retired;    /* another master serves: wait for requests for metrics */
    bool forced;     /* by a second stop: wait for nothing */
    bool lost_lines; /* the stop is complete, but the access log lacks lines */
};

/*
 * The workers answer what arrives within workers.stop_grace, and close each connection after that.
 * The listen sockets stay open, if this master still has any: see listeners_withdraw().
 */
int shutdown_begin(struct shutdown *shutdown);

/*
 * Passes on the connections that wait in the listen sockets; the workers finish their requests. Before
 * that, here and below, connections that are on their way between workers arrive.
 */
int shutdown_finish(struct shutdown *shutdown);

/* The other master of an upgrade serves: an idle connection may have one more response. */
int shutdown_retire(struct shutdown *shutdown);

/* Kill the workers: at a second stop; or because they took too long. */
int shutdown_force(struct shutdown *shutdown);
int shutdown_kill_workers(const struct shutdown *shutdown);

/*
 * Makes the logger write all remaining lines and exit. If the log takes none, it waits for
 * workers.drain_timeout, or until a second stop. After shutdown_retire() the metrics process answers
 * its last requests, unless the server is stopped.
 */
int shutdown_flush(const struct shutdown *shutdown);
int shutdown_end_metrics(const struct shutdown *shutdown);
int shutdown_hasten_logger(const struct shutdown *shutdown);
int shutdown_kill_both(const struct shutdown *shutdown);

/* True if nothing is left to wait for but the end of the event loop. */
bool shutdown_is_flushed(const struct shutdown *shutdown);

/* Ends the event loop. */
int shutdown_end(struct shutdown *shutdown);

#endif
