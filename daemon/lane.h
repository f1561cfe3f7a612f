/*
 * A serving thread's listening sockets. Each lane is one of the SO_REUSEPORT sockets that the
 * master opened; the kernel spreads new connections over them. A thread may hold several: when
 * another thread or worker goes, its lanes are adopted, so that nobody waits in one in vain.
 */
#ifndef DAEMON_LANE_H
#define DAEMON_LANE_H

#include "daemon/thread.h"

/* Accepts from FD, which becomes the lane's. 0, or -1 when memory or descriptors are short. */
int lane_add(struct serving_thread *thread, uint32_t id, int fd);

/* Lets go of one lane, or of all. */
void lane_drop(struct serving_thread *thread, uint32_t id);
void lanes_drop_all(struct serving_thread *thread);

/* Takes up accepting again where descriptors or memory had run out. Once a second. */
void lanes_resume(struct serving_thread *thread);

/* The same where as many connections were open as may be: once some may have been closed. */
void lanes_look_again(struct serving_thread *thread);

/* The client's address in the form of the log: IPv4 as ::ffff:a.b.c.d, zero for UNIX sockets. */
struct sockaddr_storage;
void lane_address(const struct sockaddr_storage *peer, uint8_t address[LOG_ADDRESS_BYTES]);

#endif
