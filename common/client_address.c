#include "common/client_address.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>

#define IPV4_MARK UINT64_C(0xffff) /* upper bits of the key of an IPv4 address */
#define LOOPBACK  UINT64_C(1)      /* key of ::1: see client_key() */

static char *put_octet(char *to, uint8_t octet)
{
    if (octet >= 100)
        *to++ = (char)('0' + octet / 100);
    if (octet >= 10)
        *to++ = (char)('0' + octet / 10 % 10);
    *to++ = (char)('0' + octet % 10);
    return to;
}

char *client_address_put(const uint8_t address[CLIENT_ADDRESS_BYTES], char *to)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t none[CLIENT_ADDRESS_BYTES];

    if (memcmp(address, mapped, sizeof(mapped)) == 0) {
        for (int i = 12; i < CLIENT_ADDRESS_BYTES; i++) {
            if (i > 12)
                *to++ = '.';
            to = put_octet(to, address[i]);
        }
        return to;
    }
    if (memcmp(address, none, sizeof(none)) == 0)
        return (char *)memcpy(to, "unix:", 5) + 5;
    inet_ntop(AF_INET6, address, to, CLIENT_ADDRESS_TEXT);
    return to + strlen(to);
}

char *client_key_text(uint64_t key, char buffer[CLIENT_KEY_TEXT])
{
    struct in6_addr network = {0};
    char text[INET6_ADDRSTRLEN];

    if (key == 0) {
        snprintf(buffer, CLIENT_KEY_TEXT, "unix:");
    } else if (key >> 32 == IPV4_MARK) {
        snprintf(buffer, CLIENT_KEY_TEXT, "%u.%u.%u.%u", (unsigned)(key >> 24 & 0xff),
                 (unsigned)(key >> 16 & 0xff), (unsigned)(key >> 8 & 0xff), (unsigned)(key & 0xff));
    } else if (key == LOOPBACK) {
        snprintf(buffer, CLIENT_KEY_TEXT, "::1");
    } else {
        bool site = key >> 48 == CLIENT_SITE_MARK;
        uint64_t prefix = site ? key << 16 : key;

        for (int i = 0; i < 8; i++)
            network.s6_addr[i] = (uint8_t)(prefix >> (56 - 8 * i));
        snprintf(buffer, CLIENT_KEY_TEXT, "%s/%d",
                 inet_ntop(AF_INET6, &network, text, sizeof(text)), site ? 48 : 64);
    }
    return buffer;
}

uint64_t client_key_parse(const char *text)
{
    uint8_t address[CLIENT_ADDRESS_BYTES] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET, text, address + 12) != 1 && inet_pton(AF_INET6, text, address) != 1)
        return 0;
    return client_key(address);
}
