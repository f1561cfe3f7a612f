/*
 * The worker processes as the master sees them: a table with one entry per slot of the segment,
 * what each worker was sent and what it reported, and commands that go to all of them. The states
 * and the transitions between them are in supervisor.c. The master.
 */
#ifndef DAEMON_WORKERS_H
#define DAEMON_WORKERS_H

#include "daemon/base/channel.h"
#include "daemon/base/messages.h"
#include "daemon/master/server.h"

#include <sys/types.h>

enum {
    WORKERS_MAX = 64,           /* the limit of workers.max_processes */
    BROADCASTS_REMEMBERED = 64, /* for workers_broadcast_affected() */
};

/* Callbacks of the owner of the table. Those of the channels get a struct worker_process. */
struct worker_callbacks {
    channel_handler *report;           /* a message came on the command channel */
    channel_handler *connection;       /* a connection came back, or was never read */
    void (*drained)(void *worker);     /* a channel takes messages again */
    void (*after_fork)(void *context); /* in the child, first: frees what is the master's */
    void *context;
};

struct worker_process {
    const struct worker_callbacks *callbacks;
    uint32_t slot;
    enum segment_worker_state state;
    uint32_t generation; /* of the configuration that it runs with; 0: it is to be replaced */
    pid_t pid;           /* 0: no process */
    struct channel *commands, *connections; /* NULL in state WORKER_NONE */
    struct channel *unread;   /* the worker's end of `connections`: worker_process_take_unread() */
    uint64_t started_ns;      /* monotonic clock */
    uint64_t leaving_ns;      /* monotonic clock; 0: it was not asked to leave */
    bool leave_sent;          /* MESSAGE_LEAVE or MESSAGE_STOP was sent */
    bool killed;              /* by the watchdog */
    uint32_t threads_sent;    /* as last sent to it */
    uint32_t threads_actual;  /* as last reported */
    bool resizing;            /* threads_sent is not reported yet */
    uint64_t broadcasts_done; /* number of the last broadcast that it has carried out */
    uint64_t dispatched;      /* connections sent to it */
    uint64_t received_before; /* its slot's connections_received when it started */
};

struct workers {
    struct server *server;
    struct worker_process *worker; /* [count], by slot */
    uint32_t count;
    uint32_t generation; /* the current one; workers of other generations are old */
    uint64_t broadcasts; /* number of the last broadcast; 0: none */
    struct {
        uint64_t number, affected;
    } broadcast[BROADCASTS_REMEMBERED]; /* number n at n % BROADCASTS_REMEMBERED */
};

/* SERVER is borrowed. Returns 0, or -1: out of memory. */
int workers_init(struct workers *workers, struct server *server);

/* Closes the channels and frees. The processes keep running. */
void workers_free(struct workers *workers);

/* One worker */

/* Forks it. Returns 0, or -1 with errno and no process. */
int worker_process_start(struct worker_process *worker, struct server *server);

/* Its process has ended: closes the channels. */
void worker_process_ended(struct worker_process *worker);

/* Before worker_process_ended(): passes all connections that it did not read to the callback. */
void worker_process_take_unread(struct worker_process *worker);

/*
 * Sends the configured number of threads with slots for them, unless it was sent already or the last
 * change is not reported yet. With too few free slots it sends fewer; call again later.
 */
void worker_process_send_threads(struct worker_process *worker, struct server *server);
void worker_process_send_offload(struct worker_process *worker, const struct server *server);

/* Which workers */

typedef bool worker_test(const struct workers *workers, const struct worker_process *worker);

worker_test worker_is_current;     /* starting or serving, of the current generation */
worker_test worker_is_old;         /* starting or serving, of another generation */
worker_test worker_is_old_serving; /* serving, of another generation */
worker_test worker_is_serving;
worker_test worker_is_leaving;

uint32_t workers_count(const struct workers *workers, worker_test *test);

/* The one in the highest slot, or NULL. */
struct worker_process *workers_highest(const struct workers *workers, worker_test *test);

/* What is in force */

/* Processes in any state. */
uint32_t workers_alive(const struct workers *workers);

/* The lowest number of threads of any current, serving worker; 0: there is none. */
uint32_t workers_threads(const struct workers *workers);

/* True if as many current workers serve as configured, or more. */
bool workers_are_complete(const struct workers *workers);

/* True if exactly as many current workers serve as configured, no old one does, and none is starting or
 * resizing. */
bool workers_are_renewed(const struct workers *workers);

/* True if they are renewed and none is leaving. */
bool workers_are_settled(const struct workers *workers);

/* True if an old worker serves, starts or leaves. */
bool workers_are_replacing(const struct workers *workers);

/* True if a leaving worker still accepts connections. */
bool workers_leaving_accept(const struct workers *workers);

/* Commands to all workers */

/*
 * Sends WHAT to all workers, with VALUE and PATH ("": none) as it needs them; PATH has less than
 * CONTROL_LINE_MAX bytes. Returns the number of the broadcast, from 1.
 */
uint64_t workers_broadcast(struct workers *workers, enum worker_command what, uint64_t value,
                           const char *path);

/* WORKER has carried out the broadcast that MESSAGE names. */
void workers_broadcast_reported(struct workers *workers, struct worker_process *worker,
                                const struct message_command_done *message);

/* True if all workers have carried it out; those that leave do not count. */
bool workers_broadcast_is_done(const struct workers *workers, uint64_t number);

/* Cache entries that it affected so far, in all workers; 0 for one that is too old. */
uint64_t workers_broadcast_affected(const struct workers *workers, uint64_t number);

/* Sends SIGKILL to all of them. */
void workers_kill(const struct workers *workers);

#endif
