/*
 * The master: small, and never in the way of a request. It holds the instance (lock, segment,
 * listening sockets, control socket), keeps workers and logger running, and changes what it is told
 * to change. Everything happens in one event loop, so nothing in here needs a lock.
 *
 *   supervisor   worker processes: fork, reap, resize, replace     (supervisor.h)
 *   dispatch     connections on their way to a worker              (dispatch.h)
 *   control      the socket and its commands                       (control.h, commands.c)
 *   history      a sample a second                                 (history.h)
 */
#ifndef DAEMON_MASTER_H
#define DAEMON_MASTER_H

#include "common/segment.h"
#include "daemon/config.h"
#include "daemon/listener.h"
#include "daemon/runtime.h"

#include <event2/event.h>

struct supervisor;
struct dispatch;
struct control;
struct history;

struct master {
    const struct config *config;
    struct runtime runtime;
    struct segment segment;
    struct event_base *base;
    struct listeners *listeners;
    struct supervisor *supervisor;
    struct dispatch *dispatch;
    struct control *control;
    struct history *history;
    int doorbell; /* eventfd: wakes the logger */
    struct config_range offload_wanted;
    uint32_t workers_wanted;
    uint32_t threads_wanted; /* in each worker */
    bool stopping;
    bool announced; /* the first time that all was in force has been told */
};

/* Runs the server until it is stopped. Returns the exit status; also in a forked child. */
int master_run(const struct config *config);

/* Begins a graceful stop; the second time, ends at once. */
void master_stop(struct master *master);

/* Something has changed: answers waiting commands, goes on with a stop. */
void master_changed(struct master *master);

/* In a forked child: closes and frees what is the master's alone. */
void master_forget(struct master *master);

#endif
