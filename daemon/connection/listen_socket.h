/*
 * The listen sockets of a serving thread. Each is one of the SO_REUSEPORT sockets that the master opened;
 * the kernel distributes new connections over them. When a thread or worker ends, others adopt its listen
 * sockets, so that no connection waits in one that nobody accepts from.
 */
#ifndef DAEMON_CONNECTION_LISTEN_SOCKET_H
#define DAEMON_CONNECTION_LISTEN_SOCKET_H

#include "daemon/connection/connection.h"

/*
 * Gives the thread of LOOP a listen socket that accepts from FD, which it owns. NULL with errno if memory
 * is short: FD is then closed. The thread frees the listen socket when it leaves or receives it back from
 * listen_socket_revoke(), which needs no memory. The worker's main thread.
 */
struct listen_socket *listen_socket_assign(struct event_loop *loop, int fd);
void listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener);

/* Handle ITEM_LISTEN_SOCKET_ADD and ITEM_LISTEN_SOCKET_DROP. The owning thread, as all below. */
void listen_socket_add(struct event_loop *loop, struct mailbox_item *item);
void listen_socket_drop(struct mailbox_item *item);

/* Closes all. */
void listen_sockets_drop(struct event_loop *loop);

/* Resumes accepting where it failed for lack of descriptors or memory. Once a second. */
void listen_sockets_resume(struct event_loop *loop);

/* Resumes accepting where [connections] max was reached, if fewer are open now. On listen_retry. */
void listen_sockets_retry(struct event_loop *loop);

#endif
