/*
 * The worker processes as seen by the master: a table with one entry per slot of the segment, with
 * what each worker was sent and has reported, and commands to all of them (workers.c); and the
 * supervisor, which makes the actual workers match the configuration (supervisor.c). The master.
 */
#ifndef DAEMON_MASTER_WORKERS_H
#define DAEMON_MASTER_WORKERS_H

#include "common/segment.h"
#include "daemon/base/channel.h"
#include "daemon/base/child.h"
#include "daemon/base/messages.h"
#include "daemon/keys/keys.h"
#include "daemon/master/listeners.h"

#include <sys/types.h>

struct master;

enum {
    WORKERS_MAX = 64,           /* the limit of workers.max_processes */
    BROADCASTS_REMEMBERED = 64, /* workers_broadcast_affected() knows so many */
};

struct worker_process {
    struct master *master;
    uint32_t slot;
    enum worker_state state;
    uint32_t generation;                    /* that of its configuration; 0: to be replaced */
    pid_t pid;                              /* 0: no process */
    struct channel *commands, *connections; /* NULL in state WORKER_NONE */
    struct channel *unread;   /* the worker's end of `connections`, read after its death */
    uint64_t started_ns;      /* monotonic clock */
    uint64_t answered_ns;     /* monotonic clock; time of the last question all threads answered */
    uint64_t leaving_ns;      /* monotonic clock; 0: not asked to leave */
    bool leave_sent;          /* MESSAGE_LEAVE or MESSAGE_STOP was sent */
    bool left;                /* it has reported MESSAGE_LEFT, or need not */
    bool finishing;           /* MESSAGE_FINISH was sent, at leaving_ns: it has drain_timeout */
    bool reported_late;       /* a warning says that it has been leaving for long */
    uint64_t broken_ns;       /* monotonic clock; 0: its channels are not known to be closed */
    const char *killed_for;   /* "hung": why the master killed it; NULL: it did not */
    uint32_t model;           /* enum config_model, of its configuration */
    uint32_t threads_sent;    /* as last sent; with the acceptor, as the next */
    uint32_t threads_actual;  /* as last reported */
    bool resizing;            /* threads_sent has not been reported yet */
    uint64_t broadcasts_done; /* number of the last broadcast it has completed */
    uint64_t dispatched;      /* connections sent to it */
    uint64_t returned;        /* connections that came back */
    uint64_t returns_allowed; /* connections that it was asked to return: more are a fault */
    /* A hash table of the sockets that it has returned since it was asked to leave: their cookies. */
    uint64_t *returned_sockets;
    size_t returned_count, returned_room; /* the room is 0 or a power of two */
    uint64_t received_before;             /* connections_received of its slot when it started */
    struct certificate_set *certificates; /* a reference; NULL: none */
    uint32_t keys_links;                  /* threads with a link to the keys process */
    uint32_t certificates_sent; /* their number, until it reports that it uses them; else 0 */
};

struct workers {
    struct worker_process *worker; /* [count], by slot */
    uint32_t count;
    uint32_t generation;  /* the current one; workers of other generations are old */
    uint32_t generations; /* number of the newest one */
    bool hold_sockets;    /* the new workers get connections once no old one begins a request */
    bool stopping;        /* workers are no longer started */
    struct listener_assign assign;
    struct backoff start_backoff;
    int start_error;              /* errno of the last start; 0: it was forked */
    struct event *retry;          /* reconciles when a back-off is over */
    struct message_memory memory; /* as last sent */
    uint64_t *totals;             /* counters as of the start of each worker (totals.c) */
    uint64_t broadcasts;          /* number of the last broadcast; 0: none */
    struct {
        uint64_t number, affected;
    } broadcast[BROADCASTS_REMEMBERED]; /* number n at n % BROADCASTS_REMEMBERED */
};

/* Returns 0, or -1: out of memory. */
int workers_init(struct master *master);

/* Closes the channels and frees. The processes keep running. */
void workers_free(struct workers *workers);

/* One worker */

/* Forks the worker. Returns 0, or -1 with errno and no process. */
int worker_process_start(struct worker_process *worker);

/* Sends SIGKILL, for a reason like "hung", and ignores its further messages. */
void worker_process_kill(struct worker_process *worker, const char *reason);

/* Call when its process has ended: closes the channels. */
void worker_process_ended(struct worker_process *worker);

/*
 * Dispatches all connections that the worker returned or did not read. Call when its
 * process has ended, before worker_process_ended().
 */
void worker_process_take_connections(struct worker_process *worker);

/*
 * Sends the configured number of threads with slots for them, unless already sent or the last
 * change is not reported yet. With too few free slots it sends fewer; call again later.
 */
/* Number of its serving threads, without the acceptor. */
static inline uint32_t worker_process_threads(const struct worker_process *worker)
{
    uint32_t acceptors = MODEL_ACCEPTORS(worker->model);

    return worker->threads_actual > acceptors ? worker->threads_actual - acceptors : 0;
}

void worker_process_send_threads(struct worker_process *worker);

/*
 * Sends a link to the keys process for each thread that it was sent and that has none, if its
 * certificates need one. Returns 0, or -1 with errno: some have none; call again later.
 */
int worker_process_send_links(struct worker_process *worker);

/* Call before its start, and after its end: removes from its counters what it cannot have counted. */
void totals_remember(const struct worker_process *worker);
void totals_limit(const struct worker_process *worker, uint64_t now_ns);

/* The same for the logger: call after its start. */
void totals_remember_logger(const struct master *master);
void totals_limit_logger(const struct master *master, uint64_t now_ns);

/* Returns 0, or -1: out of memory. */
int totals_init(struct master *master);

/*
 * TLS, whose certificates are in FILE as MESSAGE says, is for its new connections; links to the keys
 * process come first. Returns 0, or -1 with errno, as channel_send(): it keeps those that it has.
 */
int worker_process_send_certificates(struct worker_process *worker, struct certificate_set *set);

void worker_process_send_memory(const struct worker_process *worker);
void worker_process_send_offload(const struct worker_process *worker);

/* Orders some connections, which it may then return. */
void worker_process_send_give(struct worker_process *worker, const struct message_give *order);

/* Sends MESSAGE_LEAVE, MESSAGE_STOP or MESSAGE_RETIRE, in KIND. Tries again if called again. */
void worker_process_send_leave(struct worker_process *worker, enum message_kind kind);

/*
 * Number of connections on their way to the worker, as it says: those that it has not received yet.
 */
uint64_t worker_process_in_transit(const struct worker_process *worker,
                                   const struct segment *segment);

/* The same, and the connections that it says it has open. */
uint64_t worker_process_load(const struct worker_process *worker, const struct segment *segment);

/* Which workers */

typedef bool worker_test(const struct worker_process *worker);

worker_test worker_is_current;     /* starting or serving, of the current generation */
worker_test worker_is_old;         /* starting or serving, of another generation */
worker_test worker_is_old_serving; /* serving, of another generation */
worker_test worker_is_serving;
worker_test worker_is_leaving;
worker_test worker_may_accept; /* leaving, but its threads may not know it yet */

uint32_t workers_count(const struct workers *workers, worker_test *test);

/* The worker in the highest slot that passes the test, or NULL. */
struct worker_process *workers_highest(const struct workers *workers, worker_test *test);

/* What is in force */

/* Number of processes in any state. */
uint32_t workers_alive(const struct workers *workers);

/* The lowest number of threads of any current, serving worker; 0: there is none. */
uint32_t workers_threads(const struct workers *workers);

/* True if as many current workers serve as configured, or more. */
bool workers_are_complete(const struct master *master);

/*
 * True if exactly as many current workers serve as configured, no old one does, and none is
 * starting or resizing.
 */
bool workers_are_renewed(const struct master *master);

/* True if all current workers use the certificates that they were sent last. */
bool workers_use_certificates(const struct workers *workers);

/*
 * True if workers are missing that cannot be started, so that nobody should wait for them: fork()
 * fails, or they keep ending soon after their start. WHY says what and how many there are.
 */
bool workers_cannot_start(const struct master *master, char *why, size_t size);

/*
 * True if WORKER leaves and has handed over its connections, or will soon. One that has some which
 * cannot move may take as long as their clients.
 */
bool worker_is_about_to_exit(const struct master *master, const struct worker_process *worker);

/* True if renewed, and leaving workers only finish the responses of connections that they have. */
bool workers_are_settled(const struct master *master);

/* True if an old worker serves or starts, or a leaving one may still accept connections. */
bool workers_are_replacing(const struct workers *workers);

/* Number of the generations of which there are only leaving workers that have no time limit. */
uint32_t workers_old_generations(const struct workers *workers);

/*
 * True while a new generation must not begin a request because an older one still does: no client
 * then gets an older response after a newer one.
 */
bool workers_hold_back(const struct workers *workers);

/* Commands to all workers */

/*
 * Sends each worker how much memory is left, the balance or the bounds of the offload threads, as
 * set.
 */
void workers_send_memory(const struct workers *workers);
void workers_send_balance(const struct master *master);
void workers_send_queue(const struct master *master);
void workers_send_offload(const struct workers *workers);

/* Sends the keys of the session tickets to all workers. There are some. */
void workers_send_tickets(const struct master *master);

/*
 * Sends WHAT to all workers, with VALUE and PATH ("": none) as required by WHAT; PATH has less than
 * CONTROL_LINE_MAX bytes. Returns the number of the broadcast, from 1.
 */
uint64_t workers_broadcast(struct workers *workers, enum worker_command what, uint64_t value,
                           const char *path);

/* True if all workers except leaving ones have completed it. */
bool workers_broadcast_is_done(const struct workers *workers, uint64_t number);

/* Cache entries removed so far, in all workers; 0 if the broadcast is too old. */
uint64_t workers_broadcast_affected(const struct workers *workers, uint64_t number);

/* Sends SIGKILL to all workers. */
void workers_kill(const struct workers *workers);

/* The supervisor */

/* What happens to a worker in its slot: worker_lifecycle.def */
enum worker_event {
#define WORKER_LIFE_EVENT(name, help, ...) WORKER_EVENT_##name,
#include "daemon/master/worker_lifecycle.def"
    WORKER_EVENTS
};

/* Returns 0, or -1: out of memory. */
int supervisor_init(struct master *master);

/* Starts, resizes and drains workers according to the configuration. Call it after each change. */
void supervisor_reconcile(struct master *master);

/*
 * WORKER has reported the number of its threads, in threads_actual; or that it does not have the
 * listen socket ID: returns false if it never had one with this number.
 */
void supervisor_threads_reported(struct worker_process *worker);
bool supervisor_socket_lost(const struct worker_process *worker, uint32_t id);

/* WORKER has reported MESSAGE_LEFT. Returns false if it was not asked to leave. */
bool supervisor_worker_left(struct worker_process *worker);

/* Reaps children; call it after SIGCHLD. */
void supervisor_reap(struct master *master);

/*
 * Replaces all workers by a new generation: the old ones leave once the new ones serve, or one by
 * one if the segment has no slots for both. supervisor_set_generation() returns to an earlier one
 * if its workers still run; the caller reconciles.
 */
void supervisor_renew(struct master *master);
void supervisor_set_generation(struct master *master, uint32_t generation);

/* Replaces one worker, or all, by others of the same configuration and generation. */
void supervisor_replace(struct master *master, uint32_t slot);
void supervisor_replace_all(struct master *master);

/* Drains one worker, after the caller has lowered workers_processes. */
void supervisor_drain(struct master *master, uint32_t slot);

/*
 * The end of all workers; none is started any more. WORKER_EVENT_stop: they close each connection
 * after its next response, and still take connections. WORKER_EVENT_finish: they finish their
 * requests, close the other connections and exit. WORKER_EVENT_retire: the same, but each idle
 * connection may have one more response (for a binary upgrade).
 */
void supervisor_end_workers(struct master *master, enum worker_event event);

enum {
    /* In addition to workers.drain_timeout to leave, and to heartbeat_timeout to begin to serve. */
    WATCHDOG_GRACE_MS = 5000,
    /* If there are more, the workers of the oldest one get MESSAGE_FINISH, after drain_timeout. */
    OLD_GENERATIONS_MAX = 8,
    /* New workers wait for old ones to leave, but not for one that hangs. */
    HAND_OVER_MS = 1000,
};

/*
 * Once a second: puts a random number into the segment, which each thread of a worker that runs its
 * loop repeats in its own pages. Kills hung processes, so that they are replaced: a worker of which
 * a thread does not answer, a worker that does not begin to serve or does not exit after it was
 * drained, and other processes that give no sign of life. Time in which the master was suspended
 * does not count.
 */
void supervisor_check(struct master *master, uint64_t now_ns);

#endif
