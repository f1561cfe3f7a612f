/*
 * The master: small, and never in the way of a request. It holds the instance (lock, segment,
 * listening sockets, control socket), keeps workers and logger running, and changes what it is told
 * to change. Everything happens in one event loop, so nothing in here needs a lock.
 *
 *   supervisor   worker processes: fork, reap, resize, replace     (supervisor.h)
 *   capacity     whether more of them can be had                   (capacity.h)
 *   dispatch     connections on their way to a worker              (dispatch.h)
 *   control      the socket and its commands                       (control.h, commands.c)
 *   watchdog     processes that hang                               (watchdog.h)
 *   post_mortem  what those that died had been doing               (post_mortem.h)
 *   history      a sample a second                                 (history.h)
 *   reload       another configuration for a new generation        (reload.h)
 *   upgrade      another binary in its place                       (upgrade.h, inheritance.h)
 *   summary      a line in the error log now and then              (summary.h)
 *   stopping     workers, then the logger, then the master         (stopping.h)
 */
#ifndef DAEMON_MASTER_H
#define DAEMON_MASTER_H

#include "common/segment.h"
#include "daemon/config/config.h"
#include "daemon/config/options.h"
#include "daemon/master/inheritance.h"
#include "daemon/master/listeners.h"
#include "daemon/master/orders.h"
#include "daemon/master/pid_file.h"
#include "daemon/master/post_mortem.h"
#include "daemon/master/watchdog.h"

#include <event2/event.h>

struct supervisor;
struct dispatch;
struct control;
struct history;
struct stopping;
struct reload;
struct summary;

struct master {
    struct config *config; /* in force or coming into force; commands change some of it */
    struct runtime runtime;
    struct segment segment;
    struct event_base *base;
    struct listeners *listeners;
    struct supervisor *supervisor;
    struct dispatch *dispatch;
    struct control *control;
    struct history *history;
    struct stopping *stopping;
    struct reload *reload;
    struct upgrade *upgrade;
    struct inheritance inheritance;
    const struct options *options;
    struct summary *summary;
    int doorbell; /* eventfd: wakes the logger */
    struct orders orders;
    struct watchdog watchdog;
    struct post_mortem post_mortem;
    bool announced; /* the first time that all was in force has been told */
};

/*
 * Runs the server with CONFIG, which was allocated and is freed here, until it is stopped. OPTIONS,
 * which it came from, are needed for a reload. Returns the exit status.
 */
int master_run(struct config *config, const struct options *options);

/* The configuration in force has changed: tells it in the segment. */
void master_publish_config(struct master *master);

/* Has the logger reopen its files. Returns a number that segment_logger's logs_done reaches then. */
uint32_t master_reopen_logs(struct master *master);

#endif
