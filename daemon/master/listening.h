/* One listening socket: opened, adjusted, and named. The master. */
#ifndef DAEMON_LISTENING_H
#define DAEMON_LISTENING_H

#include "daemon/config/config.h"

#include <netinet/in.h>

/* In host order; 0 for a UNIX socket. */
in_port_t listening_port(const struct config_address *address);

/* Whether ADDRESS can be listened on: nobody else does. Returns 0, or -1 with WHY. */
int listening_check(const struct config_address *address, char *why, size_t size);

/*
 * Opens one more socket for ADDRESS (with SO_REUSEPORT), which gets the port that is really bound.
 * DEFER: the kernel holds a connection back until its first bytes come. Returns it, or -1 with errno.
 */
int listening_open(struct config_address *address, uint32_t backlog, bool defer);

/* Sets what may have changed for a socket that is open. */
void listening_adjust(int fd, uint32_t backlog, bool defer);

/* Writes the text of an address that came without: as the configuration would have it. */
void listening_name(struct config_address *address);

/* The configured text, with the port that is bound. */
void listening_describe(const struct config_address *address, char *text, size_t size);

#endif
