/*
 * The metrics process: serves /metrics, /healthz, /readyz and /status.json over HTTP from the
 * segment, which it maps read-only. A process of its own, because it parses what any local program
 * sends: neither the master, which has all rights, nor the workers, which serve, read a byte of it.
 * It runs sandboxed as the user of the workers, and can open nothing.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "daemon/config/config.h"

struct segment;

/* What the metrics process inherits from the master. All borrowed. */
struct metrics_setup {
    const struct config *config;
    struct segment *segment; /* which it maps read-only */
    const int *listen_fd;    /* [listen_count] listen sockets, non-blocking */
    size_t listen_count;     /* at most CONFIG_LIST_MAX */
    /* A socket to the master: each second a byte, the number of failed logins. Its end ends the process. */
    int master_fd;
    int lock_fd; /* the lock of the pid file, held while any process of the daemon lives */
};

/*
 * Runs until the master closes its end of master_fd; then clients that have connected are answered for
 * at most five seconds. Returns the exit status. The caller has freed the master's event base.
 */
int metrics_run(const struct metrics_setup *setup);

#endif
