/*
 * A serving thread's listening sockets. Each lane is one of the SO_REUSEPORT sockets that the
 * master opened; the kernel spreads new connections over them. A thread may hold several: when
 * another thread or worker goes, its lanes are adopted, so that nobody waits in one in vain.
 */
#ifndef DAEMON_LANE_H
#define DAEMON_LANE_H

#include "daemon/worker/thread.h"

/*
 * Gives THREAD a lane that accepts from FD, which becomes the lane's. NULL with errno when memory is
 * short: then FD is closed. The lane is the thread's and is gone when that has been told to leave; until
 * then it can be taken back, which takes no memory. The worker's main thread.
 */
struct lane *lane_give(struct serving_thread *thread, int fd);
void lane_take_back(struct serving_thread *thread, struct lane *lane);

/* What the thread does with the items of the two. */
void lane_take(struct serving_thread *thread, struct mailbox_item *item);
void lane_drop(struct mailbox_item *item);

/* Lets go of all. */
void lanes_drop_all(struct serving_thread *thread);

/* Takes up accepting again where descriptors or memory had run out. Once a second. */
void lanes_resume(struct serving_thread *thread);

/* The same where as many connections were open as may be: once some may have been closed. */
void lanes_look_again(struct serving_thread *thread);

/* The client's address in the form of the log: IPv4 as ::ffff:a.b.c.d, zero for UNIX sockets. */
struct sockaddr_storage;
void lane_address(const struct sockaddr_storage *peer, uint8_t address[CLIENT_ADDRESS_BYTES]);

#endif
