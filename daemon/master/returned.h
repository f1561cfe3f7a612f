/*
 * What a worker returns as a client connection may be any descriptor. Before another worker gets
 * it, the master checks that it is one. The master.
 */
#ifndef DAEMON_RETURNED_H
#define DAEMON_RETURNED_H

#include "common/client_address.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Checks that FD is the connection of a client with ADDRESS. Sets *OPEN to false if it is not, or
 * no longer. Returns NULL, or what the worker did wrong: "returned ...".
 */
const char *returned_fault(int fd, const uint8_t address[CLIENT_ADDRESS_BYTES], bool *open);

#endif
