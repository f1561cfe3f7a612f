/*
 * The header of the PROXY protocol, versions 1 and 2 (proxy-protocol.txt of HAProxy), by which a
 * proxy names the client of a connection before its first byte. Pure; any thread.
 */
#ifndef DAEMON_CONNECTION_PROXY_HEADER_H
#define DAEMON_CONNECTION_PROXY_HEADER_H

#include "common/client_address.h"

#include <stdbool.h>
#include <stddef.h>

/* Longer headers are not valid. Those of version 1 have at most 107 bytes. */
enum { PROXY_HEADER_MAX = 4096 };

enum proxy_header_result {
    PROXY_HEADER_COMPLETE,
    PROXY_HEADER_INCOMPLETE, /* all bytes are of a header whose rest is missing */
    PROXY_HEADER_INVALID,
};

struct proxy_header {
    size_t length; /* bytes of the header */
    /*
     * False: it names no client (LOCAL, UNKNOWN), or one without an IP address over TCP. The
     * address of the peer then stays.
     */
    bool has_address;
    uint8_t address[CLIENT_ADDRESS_BYTES];
};

/* Parses the header at the start of BYTES. Fills HEADER if it is complete. */
enum proxy_header_result proxy_header_parse(const char *bytes, size_t length,
                                            struct proxy_header *header);

#endif
