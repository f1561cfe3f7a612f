/*
 * The baseline of the CPU time per response: a process that answers every read with the same bytes.
 * It parses, counts and logs nothing, so growth of its CPU time per request with the number of
 * connections is due to the kernel. One thread with epoll on its own port of 127.0.0.1. Main
 * thread.
 */
#ifndef LOADGEN_LAB_BARE_SERVER_H
#define LOADGEN_LAB_BARE_SERVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bare_server;

/*
 * Starts a server whose response bodies have BODY bytes. The process must be single-threaded.
 * Returns NULL with WHY.
 */
struct bare_server *bare_server_create(size_t body, char *why, size_t size);

/* Kills the server, which may be NULL. It also dies with this process. */
void bare_server_destroy(struct bare_server *server);

pid_t bare_server_pid(const struct bare_server *server);
uint16_t bare_server_port(const struct bare_server *server);

#endif
