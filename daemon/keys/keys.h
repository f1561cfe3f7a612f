/*
 * The keys process: the only one with the private keys in its memory. It makes the signatures that
 * the handshakes of the workers need, and no others: the requests of workers are hostile input, and
 * so each must be what a TLS server signs. It receives the keys from the master in files in memory
 * (daemon/tls/private_keys.h) and can open nothing itself.
 *
 * These are the master's functions: it starts the process, gives it the keys and a link to each
 * serving thread of each worker, and restarts it if it dies or hangs. It checks the process's
 * messages like those of workers, whose requests the process handles. The master's loop.
 */
#ifndef DAEMON_KEYS_H
#define DAEMON_KEYS_H

#include "daemon/base/child.h"
#include "daemon/config/config.h"

#include <sys/types.h>

struct segment;
struct certificate_set;

/* What the keys process inherits from the master. All borrowed. */
struct keys_setup {
    const struct config *config;
    struct segment *segment; /* it removes this from its memory */
    int command_fd;          /* its end of the channel to the master; set by keys_process_start() */
};

struct keys_process {
    struct child child;
    uint64_t pinged_ns; /* when the unanswered ping was sent, monotonic clock; 0: none */

    struct event_base *base; /* borrowed, as is the next */
    struct segment *segment;
    /* WORKER, a slot, with process PID has sent an invalid request. */
    void (*fault)(void *context, uint32_t worker, pid_t pid);
    void *context;
};

/*
 * Forks the process unless it runs or waits for its back-off. The child calls AFTER_FORK(CONTEXT),
 * which frees the master's resources, and does not return. Returns true if it is new: it has no
 * links yet.
 */
bool keys_process_start(struct keys_process *process, struct keys_setup *setup,
                        void (*after_fork)(void *context), void *context);

/*
 * Gives it a link to a thread of WORKER (a slot), whose process is PID, with the keys of CERTIFICATES.
 * Returns the thread's end, which the caller sends to the worker and closes; or -1 with errno.
 */
int keys_process_link(const struct keys_process *process,
                      const struct certificate_set *certificates, uint32_t worker, pid_t pid);

/*
 * Once a second: sends a ping, and kills the process if one has not been answered for TIMEOUT_MS
 * (0: never). Time before RESUMED_NS, when this process was suspended, does not count.
 */
void keys_process_check(struct keys_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns);

/* Call when the process has ended; HOW describes the end. */
void keys_process_ended(struct keys_process *process, const char *how);

#endif
