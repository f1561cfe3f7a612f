/*
 * A client's address as one word, the key of tables by address: all of an IPv4 address, the /64
 * network of an IPv6 address, for a client has all of that. Pure.
 */
#ifndef COMMON_ADDRESS_KEY_H
#define COMMON_ADDRESS_KEY_H

#include "common/log_record.h"

#include <stdint.h>
#include <string.h>

/* 0 for a client without an address (of a UNIX socket). IPv4 stands in 0:0:ffff::/96 of the /64s. */
static inline uint64_t address_key(const uint8_t address[LOG_ADDRESS_BYTES])
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
    /* ::1 has the same /64 as no address at all. */
    return key != 0 || address[15] == 0 ? key : 1;
}

/* The key as text: "192.0.2.7", "2001:db8:0:1::/64", "unix:" for 0. BUFFER has ADDRESS_KEY_TEXT bytes
 * and is returned. */
enum { ADDRESS_KEY_TEXT = 48 };
char *address_key_text(uint64_t key, char *buffer);

/* The key of an address as the log writes it; 0 for what is none. */
uint64_t address_key_of_text(const char *text);

#endif
