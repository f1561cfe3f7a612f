/*
 * Checks, opens and names one listen socket. The master.
 */
#ifndef DAEMON_MASTER_LISTEN_SOCKET_H
#define DAEMON_MASTER_LISTEN_SOCKET_H

#include "daemon/config/config.h"

#include <netinet/in.h>

/* In host order; 0 for a UNIX socket. */
in_port_t listen_socket_port(const struct config_address *address);

/* Returns 0 if no other process listens on ADDRESS, a value of KEY; else -1 with WHY. */
int listen_socket_check(const struct config_address *address, const char *key, char *why,
                        size_t size);

/*
 * Opens a socket for ADDRESS and stores the bound port there. TCP sockets share it (SO_REUSEPORT);
 * a UNIX socket replaces a file that nobody listens on. DEFER: TCP_DEFER_ACCEPT, so that the kernel
 * reports a connection with its first bytes. Returns the socket, or -1 with errno.
 */
int listen_socket_open(struct config_address *address, uint32_t backlog, bool defer);

/* Applies changed options to the open socket FD. */
void listen_socket_update(int fd, uint32_t backlog, bool defer);

/* Number of connections in the accept queue of the open socket FD; 0 if unknown (UNIX). */
uint32_t listen_socket_waiting(int fd);

/* Sets the text of an address from getsockname() in the syntax of the configuration. */
void listen_socket_set_text(struct config_address *address);

/* Writes the configured text with the bound port, and https:// before it for TLS. */
void listen_socket_describe(const struct config_address *address, char *text, size_t size);

/*
 * Refuses new connections to the listen socket FD of ADDRESS, in all processes that have it.
 * Handshakes in progress continue, and the accept queue remains. If the kernel cannot do that,
 * nothing changes.
 */
void listen_socket_refuse(const struct config_address *address, int fd);

#endif
