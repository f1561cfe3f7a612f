/*
 * A process that the master forks and starts again when it ends: the part that all kinds have in
 * common. The module of a kind embeds it, and adds setup and messages. The master's loop.
 */
#ifndef DAEMON_CHILD_H
#define DAEMON_CHILD_H

#include "common/clock.h"
#include "daemon/base/channel.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Restart delay of a process that keeps dying: a point in time, not a sleep. If the process ran
 * long enough, the restart is immediate; otherwise the delay doubles with each failure. Pure.
 */

/* A process that lives less than this counts as failed to start. */
static const uint64_t BACKOFF_STEADY_NS = 1 * NS_PER_S;
static const uint64_t BACKOFF_FIRST_NS = 200 * NS_PER_MS;
static const uint64_t BACKOFF_MAX_NS = 10 * NS_PER_S;

struct backoff {
    uint64_t not_before_ns; /* monotonic clock */
    uint64_t wait_ns;       /* the last delay; 0 after a process that ran long enough */
    uint32_t failures;      /* consecutive */
};

static inline bool backoff_over(const struct backoff *backoff, uint64_t now_ns)
{
    return now_ns >= backoff->not_before_ns;
}

/* Records the unexpected end of a process that lived LIVED_NS. */
static inline void backoff_count(struct backoff *backoff, uint64_t lived_ns, uint64_t now_ns)
{
    if (lived_ns >= BACKOFF_STEADY_NS) {
        backoff->wait_ns = 0;
        backoff->failures = 0;
        return;
    }
    backoff->failures++;
    backoff->wait_ns = backoff->wait_ns == 0 ? BACKOFF_FIRST_NS : 2 * backoff->wait_ns;
    if (backoff->wait_ns > BACKOFF_MAX_NS)
        backoff->wait_ns = BACKOFF_MAX_NS;
    backoff->not_before_ns = now_ns + backoff->wait_ns;
}

/* --- A child --- */

struct child {
    const char *name;           /* in messages: "keys process" */
    _Atomic int32_t *shown_pid; /* in the segment, as is the next */
    _Atomic uint64_t *deaths;   /* counts the unexpected ends */
    pid_t pid;                  /* 0: none */
    struct channel *channel;    /* to it; NULL: none */
    uint64_t started_ns;        /* monotonic clock, as is the next */
    uint64_t heard_ns;          /* last sign of life */
    struct backoff backoff;
};

/*
 * What the new process does: AFTER_FORK(CONTEXT), which frees the master's resources; then
 * RUN(SETUP).
 */
struct child_program {
    int (*run)(void *setup); /* returns the exit status */
    void *setup;
    void (*after_fork)(void *context);
    void *context;
};

/* True if none runs and its back-off is over. */
bool child_is_due(const struct child *child, uint64_t now_ns);

/* When its back-off ends; UINT64_MAX: it runs, or is due. */
uint64_t child_retry_ns(const struct child *child, uint64_t now_ns);

/* Forks. Returns 0; or -1 after it has logged why and counted the failure. */
int child_fork(struct child *child, const struct child_program *program);

/*
 * The same with a channel, which receives ROUTE. Sets *COMMAND_FD, part of the setup, to the
 * child's end.
 */
int child_fork_with_channel(struct child *child, const struct child_program *program,
                            int *command_fd, struct event_base *base, enum message_route route,
                            const struct channel_owner *owner);

/* Logs why, from errno, it cannot be started, and counts the failure. */
void child_report_failure(struct child *child);

/* For channel_owner.closed: SIGCHLD follows, whose handler cleans up. */
void child_ignore_closed(void *owner);

/* For channel_owner.fault: logs WHAT it did wrong, and kills it. */
void child_fault(const struct child *child, const char *what);

/*
 * Kills it if it has given no sign of life since SINCE_NS for TIMEOUT_MS (0: never). Time before
 * RESUMED_NS, when this process was suspended, does not count. Returns true if it has killed it.
 */
bool child_kill_silent(const struct child *child, uint64_t since_ns, uint64_t timeout_ms,
                       uint64_t resumed_ns, uint64_t now_ns);

/* Kills it if it has more threads than any of them needs. */
void child_check_threads(const struct child *child);

/* It has ended: closes the channel, and no process is shown. */
void child_forget(struct child *child);

/* Its end, which HOW describes, was not intended: another one follows. Call child_forget() next. */
void child_count_end(struct child *child, const char *how);

/* Kills and reaps it, and forgets back-offs. Does nothing without a process. */
void child_stop(struct child *child);

/* Closes the channel; the process keeps running. In a child of the master, too. */
void child_free(struct child *child);

#endif
