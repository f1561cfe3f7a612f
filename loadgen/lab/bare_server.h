/*
 * The least that an answer can cost: a process that answers whatever it reads with the same bytes. It
 * parses, counts and logs nothing; what a request costs it more with more connections, the kernel takes
 * for them. One thread with epoll, on a port of its own of 127.0.0.1. Main thread.
 */
#ifndef LOADGEN_LAB_BARE_SERVER_H
#define LOADGEN_LAB_BARE_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bare_server;

/* Starts one whose answers have BODY bytes. No other thread may run yet. Returns NULL with WHY. */
struct bare_server *bare_server_create(size_t body, char *why, size_t size);

/* Ends it; it also ends with this process. NULL is fine. */
void bare_server_destroy(struct bare_server *server);

pid_t bare_server_pid(const struct bare_server *server);
uint16_t bare_server_port(const struct bare_server *server);

#endif
