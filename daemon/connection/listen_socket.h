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
 * the listen socket when it exits or receives it from listen_socket_revoke(), which needs no memory.
 * The worker's main thread.
 */
struct listen_socket *listen_socket_assign(struct event_loop *loop, int fd, uint8_t opening);
void listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener);

/* Closes all. This and all below: the owning thread. */
void listen_sockets_drop(struct event_loop *loop);

/* Resumes accepting on sockets that paused for lack of descriptors or memory. Once a second. */
void listen_sockets_resume(struct event_loop *loop);

/*
 * Resumes accepting on sockets that paused at [connections] max, if fewer are open now. On
 * listen_retry.
 */
void listen_sockets_retry(struct event_loop *loop);

#endif
