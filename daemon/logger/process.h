/*
 * The logger process as the master sees it: starts it with the descriptors of the logs, opens a log
 * again whose receiver has gone, and restarts the logger until the shutdown. The logger handles
 * what workers write, so its messages are checked like theirs. The master's loop.
 */
#ifndef DAEMON_LOGGER_PROCESS_H
#define DAEMON_LOGGER_PROCESS_H

#include "common/segment.h"
#include "daemon/base/child.h"
#include "daemon/config/config.h"
#include "daemon/logger/log_files.h"
#include "daemon/logger/salvage.h"

#include <sys/types.h>

/* What the logger inherits from the master. All borrowed, except command_fd. */
struct logger_setup {
    const struct config *config;
    struct segment *segment;
    const struct salvage *salvage;
    const struct log_targets *targets;
    int doorbell;   /* eventfd: written when a ring is half full */
    int alive_fd;   /* read end of a pipe; ends when the master and all workers have ended */
    int command_fd; /* its end of the channel to the master */
};

struct logger_process {
    struct child child;
    bool stopping;       /* it is to finish; a new one only follows one that died */
    bool finished;       /* it has finished, or was given up */
    uint64_t stop_by_ns; /* monotonic clock; until then it may wait for a log that takes no lines */
    bool restarting;     /* it was sent MESSAGE_LOG_FINISH; a new logger follows immediately */

    struct event_base *base; /* borrowed, as are the next two */
    struct segment *segment;
    struct log_files *files;
    struct salvage *salvage; /* freed when it is written */
    uint32_t number;         /* of the last request to open the logs */
    struct event *retry;     /* timer: opens lost logs */
    bool failing;            /* the last attempt failed and was logged */
};

/* No logger runs yet. Returns 0, or -1 with errno. */
int logger_process_init(struct logger_process *process, struct event_base *base,
                        struct segment *segment, struct log_files *files, struct salvage *salvage);
void logger_process_free(struct logger_process *process);

/*
 * Forks the logger unless it runs, has finished, or waits for its back-off. The child calls
 * AFTER_FORK(CONTEXT), which frees the master's resources, and does not return. Sets SETUP's
 * command_fd, salvage and targets.
 */
void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context);

/* Call when the process has ended; HOW describes the end. FAILED: not with status 0. */
void logger_process_ended(struct logger_process *process, const char *how, bool failed);

/*
 * Once a second: kills the logger if it has sent no heartbeat for TIMEOUT_MS (0: never). Time
 * before RESUMED_NS, when this process was suspended, does not count.
 */
void logger_process_check(const struct logger_process *process, uint64_t timeout_ms,
                          uint64_t resumed_ns, uint64_t now_ns);

/* Passes the descriptors of the logs, opened by request NUMBER, to the logger if one runs. */
void logger_process_send_files(struct logger_process *process, uint32_t number);

/* Makes the logger exit; a new one follows, which writes the lines that are left. */
void logger_process_restart(struct logger_process *process);

/*
 * Makes the logger write all lines and exit for good; for at most WAIT_MS it waits for a log that
 * takes none. If it dies before, another one continues. Again: with a shorter time.
 */
void logger_process_stop(struct logger_process *process, uint32_t wait_ms);

/* Kills it: it took too long. */
void logger_process_give_up(struct logger_process *process);

/* Number of lines of the access log that are not written. While no logger runs. */
uint64_t logger_process_unwritten(const struct logger_process *process);

#endif
