/*
 * Networks in CIDR notation (RFC 4632 section 3.1). IPv4 is stored as ::ffff:a.b.c.d, like the
 * addresses of clients; clients of UNIX sockets have the address ::, all zero. Pure; any thread.
 */
#ifndef DAEMON_NETWORK_H
#define DAEMON_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NETWORK_ADDRESS_BYTES = 16, NETWORK_TEXT_MAX = 64 };

struct network {
    uint8_t address[NETWORK_ADDRESS_BYTES];
    uint8_t prefix; /* length in bits, 0 to 128 */
};

enum network_fault {
    NETWORK_GOOD,
    NETWORK_NO_ADDRESS, /* the text before the '/' is not an address */
    NETWORK_BAD_PREFIX, /* not a number, or longer than the address */
    NETWORK_HOST_BITS,  /* 10.0.0.1/8: bits set beyond the prefix */
};

/*
 * Parses "10.0.0.0/8", "2001:db8::/32", a single address, or "unix:" for the clients of UNIX
 * sockets. On a fault *NETWORK is unchanged.
 */
enum network_fault network_parse(const char *text, struct network *network);

/* Writes the shortest text that network_parse() reads back to the same network. */
void network_text(const struct network *network, char text[NETWORK_TEXT_MAX]);

/* An IPv6 network contains no IPv4 address, and only "unix:" contains clients of UNIX sockets. */
bool network_contains(const struct network *network, const uint8_t address[NETWORK_ADDRESS_BYTES]);

/* A set of networks, of any number. */
struct network_set {
    struct network *item;
    size_t count;
};

/* Call it when all networks are in SET, in any order: removes those that another one contains. */
void network_set_complete(struct network_set *set);

bool network_sets_equal(const struct network_set *one, const struct network_set *other);

/* True if a network of SET contains ADDRESS: one binary search. */
bool network_set_contains(const struct network_set *set,
                          const uint8_t address[NETWORK_ADDRESS_BYTES]);

/* The address of a socket's PEER: IPv4 as ::ffff:a.b.c.d, all zero for UNIX sockets. */
void network_socket_address(const struct sockaddr_storage *peer,
                            uint8_t address[NETWORK_ADDRESS_BYTES]);

#endif
