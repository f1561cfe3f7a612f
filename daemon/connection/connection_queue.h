/*
 * The connections that wait for a serving thread in the models pool and thread: a bounded buffer
 * between the acceptor and threads that serve one connection each.
 *
 *   acceptor, main thread ──put──▶ queue ──take──▶ serving thread
 *
 * A mutex guards it; inside it only that of a mailbox is taken. A thread that finds the queue empty,
 * and an acceptor that finds it full, wait for an item in their mailbox: other mail must wake them,
 * too.
 */
#ifndef DAEMON_CONNECTION_CONNECTION_QUEUE_H
#define DAEMON_CONNECTION_CONNECTION_QUEUE_H

#include "daemon/connection/lifecycle.h"

struct connection_queue;

/*
 * Publishes in BLOCK, the worker's; WAITS receives the time of each arrival in the queue. NULL: out of
 * memory.
 */
struct connection_queue *connection_queue_new(const struct config *config,
                                              struct segment_worker *block,
                                              struct histogram *waits);

/* Closes the connections that are left. */
void connection_queue_free(struct connection_queue *queue);

/* WAITER waits for QUEUE. DELIVER must call connection_queue_woken(). */
void queue_waiter_init(struct queue_waiter *waiter, struct mailbox *mailbox,
                       mailbox_deliver_fn *deliver);

/* The item of WAITER has been delivered. */
void connection_queue_woken(struct connection_queue *queue, struct queue_waiter *waiter);

/* Order, policy and places from now on. Connections beyond PLACES stay. Any thread. */
void connection_queue_set(struct connection_queue *queue, uint32_t order, uint32_t policy,
                          uint32_t places);

/* True if the order is sff: then call arrival_find_size() before a put. Any thread. */
bool connection_queue_wants_size(const struct connection_queue *queue);

/*
 * True if a new connection may be put: there is room, or a policy other than block makes some. Else
 * WAITER (NULL: none) gets its item when there is room. Any thread.
 */
bool connection_queue_admits(struct connection_queue *queue, struct queue_waiter *waiter);

/*
 * Puts ARRIVAL, even if the queue does not admit it. Returns those that are dropped for it, linked
 * by item.next, which may include ARRIVAL: the caller answers them 503. NULL: none. Any thread.
 */
struct arrival *connection_queue_put(struct connection_queue *queue, struct arrival *arrival,
                                     uint64_t now_ns);

/*
 * Puts a connection that its thread has handed over, to be delivered by DELIVER: before all new
 * ones, and it is never dropped.
 */
void connection_queue_return(struct connection_queue *queue, struct connection *connection,
                             mailbox_deliver_fn *deliver);

/*
 * The next connection, as an item to deliver to the thread's loop. NULL: there is none, and WAITER
 * (NULL: none) gets its item when one is put. The serving thread.
 */
struct mailbox_item *connection_queue_take(struct connection_queue *queue,
                                           struct queue_waiter *waiter, uint64_t now_ns);

/*
 * In the model thread: the number of connections that no thread is starting for. WAITER gets its
 * item at the next put. The main thread.
 */
uint32_t connection_queue_await(struct connection_queue *queue, struct queue_waiter *waiter);

/* MORE threads (-1: one fewer) are starting. Each takes one connection, without a waiter. */
void connection_queue_promise(struct connection_queue *queue, int more);

/* WAITER waits no longer. If connections are left, another thread is woken for them. */
void connection_queue_leave(struct connection_queue *queue, struct queue_waiter *waiter);

/* Publishes how long the oldest connection has waited, as each put and take does. */
void connection_queue_publish(struct connection_queue *queue, uint64_t now_ns);

/* No more connections follow. Wakes all threads. */
void connection_queue_close(struct connection_queue *queue);

/* True if it is closed and empty. */
bool connection_queue_has_ended(struct connection_queue *queue);

#endif
