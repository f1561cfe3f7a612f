/*
 * The master process: owns the resources of the instance (lock, segment, listen sockets, control
 * socket), keeps workers and logger running, and executes commands and signals. It serves no
 * requests. Everything runs in one event loop, so nothing in this directory needs a lock.
 */
#ifndef DAEMON_MASTER_H
#define DAEMON_MASTER_H

#include "daemon/base/signals.h"
#include "daemon/config/options.h"
#include "daemon/control/socket.h"
#include "daemon/master/certificates.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/handshake_failures.h"
#include "daemon/master/inheritance.h"
#include "daemon/master/lifecycle.h"
#include "daemon/master/memory_watch.h"
#include "daemon/master/post_mortem.h"
#include "daemon/master/rebalance.h"
#include "daemon/master/reload.h"
#include "daemon/master/server.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/statistics.h"
#include "daemon/master/summary.h"
#include "daemon/master/supervisor.h"
#include "daemon/master/upgrade.h"
#include "daemon/master/watchdog.h"
#include "daemon/master/workers.h"

struct master {
    struct server server;
    struct workers workers;
    struct supervisor *supervisor;
    struct auxiliary auxiliary;
    struct dispatch *dispatch;
    struct rebalance *rebalance;
    struct lifecycle life;
    struct shutdown shutdown;
    struct reload *reload;
    struct certificates certificates;
    struct upgrade *upgrade;
    struct statistics *statistics;
    struct summary *summary;
    struct watchdog watchdog;
    struct memory_watch *memory_watch;
    struct post_mortem post_mortem;
    struct inheritance inheritance;
    struct handshake_failures tls_failures, proxy_failures;
    const struct options *options;
    struct control_socket *control;
    struct event *signal[SIGNALS_HANDLED];
    struct event *second;
    bool announced;      /* it has been announced that all workers serve */
    bool stop_requested; /* by a signal or a command */
    bool failed;         /* it could not take over from the old master */
};

/*
 * Runs the server with CONFIG until it stops. CONFIG is allocated by the caller and freed here. A
 * reload loads the configuration again from OPTIONS. Returns the exit status.
 */
int master_run(struct config *config, const struct options *options);

/* EVENT_stop or EVENT_stop_command; the second call kills the workers. */
void master_stop(struct master *master, enum life_event event);

/*
 * Sets the number of workers and of threads in each, if there is room for them. Returns 0, or -1
 * with WHY and nothing changed. The change is in force when workers_are_settled().
 */
int master_resize(struct master *master, uint32_t workers, uint32_t threads, char *why,
                  size_t size);

#endif
