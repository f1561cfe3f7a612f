/*
 * Checks, opens and names one listen socket. The master.
 */
#ifndef DAEMON_MASTER_LISTEN_SOCKET_H
#define DAEMON_MASTER_LISTEN_SOCKET_H

#include "daemon/config/config.h"

#include <netinet/in.h>

/* In host order; 0 for a UNIX socket. */
in_port_t listen_socket_port(const struct config_address *address);

/* Returns 0 if no other process listens on ADDRESS, else -1 with WHY. */
int listen_socket_check(const struct config_address *address, char *why, size_t size);

/*
 * Opens a socket for ADDRESS and stores the bound port there. TCP sockets share it (SO_REUSEPORT);
 * a UNIX socket replaces a file that nobody listens on. DEFER: TCP_DEFER_ACCEPT, so that the kernel
 * reports a connection with its first bytes. Returns the socket, or -1 with errno.
 */
int listen_socket_open(struct config_address *address, uint32_t backlog, bool defer);

/* Applies changed options to the open socket FD. */
void listen_socket_update(int fd, uint32_t backlog, bool defer);

/* Sets the text of an address from getsockname() in the syntax of the configuration. */
void listen_socket_set_text(struct config_address *address);

/* Writes the configured text with the bound port. */
void listen_socket_describe(const struct config_address *address, char *text, size_t size);

#endif
