/*
 * What a worker returns as a client connection may be any descriptor. Before another worker gets
 * it, the master checks that it is one. The master.
 */
#ifndef DAEMON_RETURNED_H
#define DAEMON_RETURNED_H

#include "daemon/base/messages.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Checks that FD is the connection that MESSAGE describes: its address is that of the peer, or of a
 * client that a peer of TRUSTED has named. Sets *OPEN to false if it is not, or no longer. Returns
 * NULL, or what the worker did wrong: "returned ...". A connection of a proxy that a reload has removed
 * from TRUSTED is no fault, but not open.
 */
const char *returned_fault(int fd, const struct message_connection *message,
                           const struct config_networks *trusted, bool *open);

#endif
