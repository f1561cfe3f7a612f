/*
 * Getting answers out: the fast way is one write of the whole output; what a client does not take
 * at once becomes a pending answer that goes on when the socket is writable. Files leave by
 * sendfile in windows; a window that is not in the page cache is fetched by an offload thread
 * first.
 */
#ifndef DAEMON_SENDING_H
#define DAEMON_SENDING_H

#include "daemon/base/offload.h"
#include "daemon/connection/connection.h"

enum { SENDING_WINDOW = 2 * 1024 * 1024 }; /* bytes of a file sent in one turn of the loop */

enum sending_result {
    SENDING_DONE,    /* all is sent and accounted for; the output is empty */
    SENDING_BLOCKED, /* connection->pending holds the rest: go on when the client takes more */
    SENDING_JOB,     /* the same, when the offload thread that was asked is done */
    SENDING_FAILED,  /* the client is gone: close the connection */
};

struct warm_job {
    struct offload_job job; /* first */
    struct connection *connection;
    struct resource *file; /* a reference */
    uint64_t offset, length;
};

/* Sends the thread's output on CONNECTION. */
enum sending_result sending_flush(struct connection *connection);

/*
 * Promises room in the log ring to the pending answer's record, if that came from another thread and
 * has no promise of this one. False: there is none now, so the answer has to wait.
 */
bool sending_may_go_on(struct connection *connection);

/* Goes on with the pending answer. */
enum sending_result sending_continue(struct connection *connection);

/* The job is back: the window it fetched can be sent on the connection that is returned. */
struct connection *sending_warmed(struct warm_job *job);

/* The connection leaves its thread, whose promise ends, or has come to a new one. */
void sending_moved(struct connection *connection, bool leaving);

/* Gives the pending answer up: what was sent of it is logged. LOG false: only frees (any thread).
 */
void sending_abandon(struct connection *connection, struct cache *cache, bool log);

#endif
