/*
 * Client addresses: 16 bytes, IPv4 as ::ffff:a.b.c.d, all zero for a UNIX socket; as text; and as a
 * 64-bit key for tables by client. The key is a whole IPv4 address or the /64 network of an IPv6
 * address, because one IPv6 client usually has a /64 to itself. One site has up to a /48, with
 * 65536 of these: limits hold for it, too, with a key of its own. Pure; any thread.
 */
#ifndef COMMON_CLIENT_ADDRESS_H
#define COMMON_CLIENT_ADDRESS_H

#include <stdint.h>
#include <string.h>

enum {
    CLIENT_ADDRESS_BYTES = 16,
    CLIENT_ADDRESS_TEXT = 46, /* size of a buffer for an address as text */
    CLIENT_KEY_TEXT = 48,     /* size of a buffer for a key as text */
    CLIENT_SITE_FACTOR = 16,  /* a /48 may have this many times the limit of a /64 */
};

/* Writes ADDRESS without a NUL and returns the end; "unix:" for a UNIX socket. */
char *client_address_put(const uint8_t address[CLIENT_ADDRESS_BYTES], char *to);

/* 0 for a client without an address (UNIX socket). IPv4 keys lie in 0:0:ffff::/96. */
static inline uint64_t client_key(const uint8_t address[CLIENT_ADDRESS_BYTES])
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    uint64_t key = 0;

    if (memcmp(address, ipv4, sizeof(ipv4)) == 0) {
        for (int i = 10; i < 16; i++)
            key = key << 8 | address[i];
        return key;
    }
    for (int i = 0; i < 8; i++)
        key = key << 8 | address[i];
    /* The /64 of ::1 is all zero, which already means "no address". */
    return key != 0 || address[15] == 0 ? key : 1;
}

#define CLIENT_SITE_MARK UINT64_C(0xfffe) /* upper bits of the key of a /48; no unicast address */

/* The key of a limit of limit-client with number ID; no address has it. */
#define CLIENT_LIMIT_MARK UINT64_C(0xfffd)

static inline uint64_t client_limit_key(uint64_t id)
{
    return CLIENT_LIMIT_MARK << 48 | (id & UINT64_C(0xffffffffffff));
}

/* The key of the /48 of the /64 KEY; 0 for other keys. */
static inline uint64_t client_site_key(uint64_t key)
{
    return key >> 48 != 0 ? CLIENT_SITE_MARK << 48 | key >> 16 : 0;
}

/*
 * Writes KEY into BUFFER and returns BUFFER: "192.0.2.7", "2001:db8:0:1::/64", "2001:db8::/48",
 * "unix:" for 0.
 */
char *client_key_text(uint64_t key, char buffer[CLIENT_KEY_TEXT]);

/* The key of an address as written in the access log; 0 if TEXT is not a valid address. */
uint64_t client_key_parse(const char *text);

#endif
