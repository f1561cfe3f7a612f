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
    int fd;
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests;
    uint32_t length;
    bool admitted; /* was already open in another thread or worker */
    char bytes[];  /* read but not served */
};

/* Makes FD, just accepted, a connection and serves it; or rejects it. */
void connection_accept(struct event_loop *loop, int fd,
                       const uint8_t address[CLIENT_ADDRESS_BYTES]);

/* Makes ARRIVAL a connection and serves it; frees ARRIVAL. */
void connection_adopt_arrival(struct event_loop *loop, struct arrival *arrival);

/* Takes over a connection that another thread has handed over. */
void connection_adopt(struct event_loop *loop, struct connection *connection);

/* Closes and frees. Must not be called while an offload job refers to it (client.jobs_out). */
void connection_close(struct connection *connection);

/* Hands over or closes CONNECTION if the thread's mode requires that; true if it did. */
bool connection_apply_mode(struct connection *connection);

/* The same for all connections of the loop. */
void connections_apply_mode(struct event_loop *loop);

/* Closes all connections except those with offload jobs. */
void connections_close(struct event_loop *loop);

/*
 * Converts a handed-over connection between two requests into an arrival and frees it. NULL: out of
 * memory, and the connection is closed. Any thread.
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
