/*
 * Networks in CIDR notation (RFC 4632 section 3.1), of IPv4 and IPv6 alike: IPv4 is kept as
 * ::ffff:a.b.c.d, the way addresses of clients are. Pure; any thread.
 */
#ifndef DAEMON_NETWORK_H
#define DAEMON_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NETWORK_ADDRESS_BYTES = 16, NETWORK_TEXT_MAX = 64 };

/*
 * Initial limit of unsent bytes in a client's socket (TCP_NOTSENT_LOWAT, tcp(7)): without it a client that
 * does not read would occupy a megabyte of kernel memory.
 */
enum { NETWORK_UNSENT_MAX = 256 * 1024 };

struct network {
    uint8_t address[NETWORK_ADDRESS_BYTES];
    uint8_t prefix; /* bits of address that count, 0 to 128 */
};

enum network_fault {
    NETWORK_GOOD,
    NETWORK_NO_ADDRESS, /* what stands before the '/' is none */
    NETWORK_BAD_PREFIX, /* no number, or more bits than the address has */
    NETWORK_HOST_BITS,  /* 10.0.0.1/8: bits beyond the prefix */
};

/* Reads "10.0.0.0/8", "2001:db8::/32", or a single address. *NETWORK is left alone at a fault. */
enum network_fault network_parse(const char *text, struct network *network);

/* The shortest text that network_parse() takes for it. */
void network_text(const struct network *network, char text[NETWORK_TEXT_MAX]);

bool network_contains(const struct network *network, const uint8_t address[NETWORK_ADDRESS_BYTES]);

/* The address of a socket's PEER: IPv4 as ::ffff:a.b.c.d, all zero for UNIX sockets. */
void network_socket_address(const struct sockaddr_storage *peer,
                            uint8_t address[NETWORK_ADDRESS_BYTES]);

#endif
