/*
 * The life of a connection: accepted, or adopted from another thread or worker; handed over or
 * closed as its thread's mode requires.
 *
 *   accept ─┐                       ┌─▶ close
 *   adopt ──┴─▶ served by protocol ─┴─▶ hand over ─▶ main thread ─▶ sibling thread or other worker
 */
#ifndef DAEMON_CONNECTION_LIFECYCLE_H
#define DAEMON_CONNECTION_LIFECYCLE_H

#include "daemon/connection/connection.h"

/* A connection in transit: its descriptor and state. */
struct arrival {
    struct mailbox_item item;
    TAILQ_ENTRY(arrival) link; /* in a connection queue, as the next */
    uint64_t queued_ns;        /* monotonic clock */
    uint64_t file_bytes;       /* what the first request is for; 0: unknown */
    int fd;
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests;
    uint32_t length;
    bool passed;     /* by the master, which counts those that are received */
    bool admitted;   /* was already open in another thread or worker */
    bool idle;       /* and was not active there */
    bool proxied;    /* the address is that of a PROXY header */
    uint8_t opening; /* enum opening: what has not begun */
    char bytes[];    /* read but not served */
};

/*
 * Makes FD, just accepted from the peer ADDRESS, a connection that begins with OPENING, and
 * serves it; or rejects it. Returns false if there was no memory for it.
 */
bool connection_accept(struct event_loop *loop, int fd, const uint8_t address[CLIENT_ADDRESS_BYTES],
                       uint8_t opening);

/*
 * Puts FD, just accepted from ADDRESS, into the loop's queue. This loop answers 503 to the
 * connections that the queue drops. Returns false if out of memory. An acceptor.
 */
bool connection_enqueue(struct event_loop *loop, int fd,
                        const uint8_t address[CLIENT_ADDRESS_BYTES], uint8_t opening);

/*
 * Sets file_bytes of ARRIVAL, whose connections speak PROTOCOL, by what has arrived of its first
 * request. Any thread.
 */
void arrival_find_size(struct arrival *arrival, const struct connection_protocol *protocol,
                       const struct worker_context *worker);

/*
 * Begins the next protocol of a connection whose PROXY header has been read: TLS or HTTP. Returns
 * false if out of memory; then the connection is unchanged.
 */
bool connection_begin(struct connection *connection);

/*
 * Delivers a struct arrival to a struct event_loop: makes it a connection and serves it, or rejects
 * it; frees it. If there was no memory for it, closes an idle connection.
 */
void connection_adopt_arrival(struct mailbox_item *item, void *receiver);

/* Takes over a connection that another thread has handed over. */
void connection_adopt(struct event_loop *loop, struct connection *connection);

/* Closes and frees. Must not be called while an offload job refers to it (client.jobs_out). */
void connection_close(struct connection *connection);

/*
 * Closes now, or when the last offload job that refers to the connection is done: until then it
 * neither reads nor sends, and resume() of its protocol calls connection_close_abandoned().
 */
void connection_abandon(struct connection *connection);

/*
 * Closes an abandoned connection if no offload job refers to it. Returns whether it is abandoned.
 */
bool connection_close_abandoned(struct connection *connection);

/*
 * Closes after the last response. If the client may still be sending, closing would reset the
 * connection and the response might be lost (RFC 9112 section 9.6): then shuts down only our side
 * and continues to read.
 */
void connection_linger(struct connection *connection);

/*
 * Replaces CONNECTION, to which no offload job refers, by one of PROTOCOL on the same thread, and
 * frees it. Returns the new one, or NULL if out of memory.
 */
struct connection *connection_become(struct connection *connection,
                                     const struct connection_protocol *protocol);

/* True if no response is unsent, no request incomplete, and no offload job refers to it. */
bool connection_is_between_requests(const struct connection *connection);

/* Hands over, closes or drains CONNECTION if the thread's mode requires that; true if it did. */
bool connection_apply_mode(struct connection *connection);

/* The same for all connections of the loop. */
void connections_apply_mode(struct event_loop *loop);

/* Closes all connections, or only the idle ones, except those with offload jobs. */
void connections_close(struct event_loop *loop, bool only_idle);

/*
 * An order of the worker's main thread (daemon/worker/balancer.c), which gets it back. The owning
 * thread gives some of its connections to others, so that all have about the same load, and picks
 * them:
 *
 *   active ones  evenly spaced in the order of their last requests, so that cheap and expensive
 *                ones go in the same proportion as they are
 *   idle ones    those that have waited longest, first for a request, then for the rest of one or
 *                for the client to receive a response; then active ones, because an order may be
 *                based on numbers that are a second old
 *
 * A connection goes as it is, with its unserved bytes and its unsent response; one for another
 * worker goes only between two requests. Nothing is read or written meanwhile: what the
 * client sends waits in the socket for the next owner.
 */
struct give {
    struct mailbox_item item;
    mailbox_deliver_fn *given; /* delivers the executed order, on the main thread */
    uint32_t count;
    uint32_t destination; /* number of a thread, or enum destination */
    enum move_reason reason;
    bool idle; /* give connections that are not active; false: active ones */
};

/*
 * Delivers a struct give to a struct event_loop: hands over up to the wanted number of connections,
 * fewer if not enough can go, updates the gauge connections_active, and returns the order.
 */
void connections_give(struct mailbox_item *item, void *receiver);

/*
 * Converts a handed-over connection between two requests into an arrival and frees it. NULL: out of
 * memory, or it cannot go to another worker (over TLS or HTTP/2), and the connection is closed.
 * Any thread.
 */
struct arrival *connection_to_arrival(struct connection *connection,
                                      const struct worker_context *worker);

/*
 * Counts a connection that the master has passed to the worker, once a thread owns it or it was
 * returned or lost. The master computes the worker's connections from those passed and those
 * received. Any thread.
 */
void connection_count_received(const struct worker_context *worker);

#endif
