/*
 * The processes of the master that serve no connection, except that of ACME (certificates.h): the
 * logger, the keys process and the metrics process. Each runs while it is needed, and starts again
 * when it ends. The master's loop.
 */
#ifndef DAEMON_AUXILIARY_H
#define DAEMON_AUXILIARY_H

#include "daemon/keys/process.h"
#include "daemon/logger/process.h"
#include "daemon/master/server.h"
#include "daemon/master/workers.h"
#include "daemon/metrics/process.h"

#include <sys/types.h>

struct auxiliary_callbacks {
    /* In a forked child: frees the master's resources. */
    void (*after_fork)(void *context);
    /* WORKER, a slot, with process PID has sent the keys process an invalid request. */
    void (*keys_fault)(void *context, uint32_t worker, pid_t pid);
    void *context;
};

struct auxiliary {
    struct server *server; /* borrowed, as are the workers */
    struct workers *workers;
    struct auxiliary_callbacks callbacks;
    struct logger_process logger;
    struct keys_process keys;
    struct metrics_process metrics;
    bool metrics_wanted;
};

/* No process runs yet. Returns 0, or -1: out of memory or descriptors. */
int auxiliary_init(struct auxiliary *auxiliary, struct server *server, struct workers *workers,
                   const struct auxiliary_callbacks *callbacks);

/* Frees; the processes keep running. Does nothing before auxiliary_init(). */
void auxiliary_free(struct auxiliary *auxiliary);

/* Starts what is needed and ends what is not. No worker is started any more if STOPPING. */
void auxiliary_reconcile(struct auxiliary *auxiliary, bool stopping);

/*
 * Links the keys process with the threads of workers that have no link yet. What fails is tried again
 * at the next call.
 */
void auxiliary_send_links(const struct auxiliary *auxiliary);

/* When the earliest of the back-offs ends; UINT64_MAX: none. */
uint64_t auxiliary_retry_ns(const struct auxiliary *auxiliary, uint64_t now_ns);

/*
 * Call when process PID has ended with STATUS, which HOW describes. Returns false if it is none of
 * these.
 */
bool auxiliary_ended(struct auxiliary *auxiliary, pid_t pid, int status, const char *how);

/*
 * Once a second: kills what hangs. Time before RESUMED_NS, when the master was suspended, does not
 * count.
 */
void auxiliary_check(struct auxiliary *auxiliary, uint64_t resumed_ns, uint64_t now_ns);

/*
 * Makes the logger write all remaining lines and exit for good; for at most WAIT_MS it waits for a log
 * that takes none. A logger that dies meanwhile is replaced until it is given up.
 */
void auxiliary_stop_logger(struct auxiliary *auxiliary, uint32_t wait_ms);
void auxiliary_give_up_logger(struct auxiliary *auxiliary);
bool auxiliary_logger_has_finished(const struct auxiliary *auxiliary);

/* Number of lines of the access log that are not written. While no logger runs. */
uint64_t auxiliary_unwritten_lines(const struct auxiliary *auxiliary);

/*
 * Opens the logs again. Returns the value of segment_logger's logs_done when the logger uses them;
 * or 0 with WHY, and the old ones stay in use.
 */
uint32_t auxiliary_reopen_logs(struct auxiliary *auxiliary, char *why, size_t size);

/* Replaces the logger by one that uses LOGS, opened for another configuration. */
void auxiliary_replace_logs(struct auxiliary *auxiliary, const struct log_files *logs);

/*
 * The metrics process runs from auxiliary_start_metrics() on until auxiliary_release_metrics(),
 * which also closes its listen sockets, so that no connection waits in a queue that nobody accepts
 * from. auxiliary_renew_metrics(): the listen sockets have changed. auxiliary_end_metrics(): the
 * last step of a stop.
 */
void auxiliary_start_metrics(struct auxiliary *auxiliary);
void auxiliary_renew_metrics(struct auxiliary *auxiliary);
void auxiliary_release_metrics(struct auxiliary *auxiliary);
void auxiliary_end_metrics(struct auxiliary *auxiliary);

/* True unless a released metrics process still answers requests. */
bool auxiliary_metrics_has_left(const struct auxiliary *auxiliary);

#endif
