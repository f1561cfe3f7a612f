/*
 * The metrics process: serves /metrics, /healthz, /readyz and /status.json over HTTP from the
 * segment, which it maps read-only. A process of its own, because it parses what any local program
 * sends: neither the master, which has all rights, nor the workers, which serve, read a byte of it.
 * It runs sandboxed as the user of the workers, and can open nothing.
 *
 * The master starts it with the listen sockets, and restarts it if it dies or hangs. It reads
 * nothing from it but its signs of life, once a second: bytes, each a number of failed logins,
 * which are counted and logged at most once a minute. The functions are for the
 * master's loop.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "daemon/base/child.h"
#include "daemon/config/config.h"

#include <sys/types.h>

struct segment;

/* What the metrics process inherits from the master. All borrowed. */
struct metrics_setup {
    const struct config *config;
    struct segment *segment; /* mapped read-only then */
    const int *listen_fd;    /* [listen_count] listen sockets, non-blocking */
    size_t listen_count;     /* up to CONFIG_LIST_MAX */
    /*
     * A socket to the master: each second a byte, the number of failed logins. Its end ends the
     * process.
     */
    int master_fd;
};

struct metrics_process {
    struct child child; /* without channel */
    pid_t leaving;      /* the one before, which answers its last requests; 0: none */
    int fd;             /* socket of the master; its close makes the process exit. -1: none */
    uint64_t failures, logged_ns; /* failed logins that are not logged; time of the last message */

    struct segment *segment; /* borrowed; has the pid */
};

/*
 * Forks the process unless it runs or waits for its back-off. The child calls AFTER_FORK(CONTEXT),
 * which frees the master's resources, and does not return. Sets SETUP's master_fd.
 */
void metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                           void (*after_fork)(void *context), void *context);

/* Lets it answer its last requests and exit; another one may start at once. */
void metrics_process_release(struct metrics_process *process);

/* Ends a released process now, and returns when it has gone. */
void metrics_process_kill(struct metrics_process *process);

/*
 * Once a second: counts and logs failed logins, and kills the process if it has given no sign of
 * life for TIMEOUT_MS (0: never). Time before RESUMED_NS, when this process was suspended, does not
 * count.
 */
void metrics_process_check(struct metrics_process *process, uint64_t timeout_ms,
                           uint64_t resumed_ns, uint64_t now_ns);

/* Call when process PID has ended; HOW describes the end. Returns false if it is not this one. */
bool metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how);

/* Closes the socket; in a child of the master, too. */
void metrics_process_free(struct metrics_process *process);

#endif
