/*
 * The listen sockets of a serving thread. Each is one of the SO_REUSEPORT sockets that the master
 * opened; the kernel distributes new connections over them. When a thread or worker exits, others
 * adopt its listen sockets, so that no connection waits in an accept queue that nobody reads.
 */
#ifndef DAEMON_CONNECTION_LISTEN_SOCKET_H
#define DAEMON_CONNECTION_LISTEN_SOCKET_H

#include "daemon/connection/connection.h"

/*
 * Posts a listen socket for FD, whose connections begin with OPENING, to the thread of LOOP and
 * takes ownership of FD. Returns NULL with errno, and FD closed, if out of memory. The thread frees
 * the listen socket when it exits or receives it from listen_socket_revoke(), which needs no
 * memory. The worker's main thread.
 */
struct listen_socket *listen_socket_assign(struct event_loop *loop, int fd, uint8_t opening);
void listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener);

/* Closes all. This and all below: the owning thread. */
void listen_sockets_drop(struct event_loop *loop);

/* Resumes accepting on sockets that paused for lack of descriptors or memory. Once a second. */
void listen_sockets_resume(struct event_loop *loop);

/* Resumes accepting on sockets that wait for room in the connection queue. */
void listen_sockets_unblock(struct event_loop *loop);

/* True if some wait for that. */
bool listen_sockets_are_blocked(const struct event_loop *loop);

/*
 * Resumes accepting on sockets that paused at [connections] max, if fewer are open now. On
 * listen_retry.
 */
void listen_sockets_retry(struct event_loop *loop);

/*
 * Shedding closes connections when connections.max is reached or descriptors or memory run out:
 * those that linger after their end, those that have been idle the longest, and those whose request
 * head is slow. A thread closes its own first. If it has none, its request goes
 * to the other threads of the worker, one after the other, by way of the main thread:
 *
 *   shed_ask() ──▶ main thread ◀──▶ shed_visit() in each thread ──▶ shed_finish()
 */

/* Closes at most WANTED idle connections of LOOP and returns their number. */
uint32_t shed_idle(struct event_loop *loop, enum shortage reason, uint32_t wanted);

/*
 * Asks the other threads to close one. Does nothing while a request is under way, or shortly after
 * one that found no idle connection.
 */
void shed_ask(struct event_loop *loop, enum shortage reason);

/* Delivers a request to a struct event_loop: closes idle connections for it and returns it. */
void shed_visit(struct mailbox_item *item, void *receiver);

/*
 * Delivers its own request to a struct event_loop: if a connection was closed, accepts new ones
 * again.
 */
void shed_finish(struct mailbox_item *item, void *receiver);

#endif
