#include "common/address_key.h"

#include <arpa/inet.h>
#include <stdio.h>

#define IPV4_MARK UINT64_C(0xffff) /* above the 32 bits of an IPv4 address */
#define LOOPBACK  UINT64_C(1)      /* of IPv6: see address_key() */

char *address_key_text(uint64_t key, char *buffer)
{
    struct in6_addr network = {0};
    char text[INET6_ADDRSTRLEN];

    if (key == 0) {
        snprintf(buffer, ADDRESS_KEY_TEXT, "unix:");
    } else if (key >> 32 == IPV4_MARK) {
        snprintf(buffer, ADDRESS_KEY_TEXT, "%u.%u.%u.%u", (unsigned)(key >> 24 & 0xff),
                 (unsigned)(key >> 16 & 0xff), (unsigned)(key >> 8 & 0xff), (unsigned)(key & 0xff));
    } else if (key == LOOPBACK) {
        snprintf(buffer, ADDRESS_KEY_TEXT, "::1");
    } else {
        for (int i = 0; i < 8; i++)
            network.s6_addr[i] = (uint8_t)(key >> (56 - 8 * i));
        snprintf(buffer, ADDRESS_KEY_TEXT, "%s/64",
                 inet_ntop(AF_INET6, &network, text, sizeof(text)));
    }
    return buffer;
}

uint64_t address_key_of_text(const char *text)
{
    uint8_t address[LOG_ADDRESS_BYTES] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET, text, address + 12) != 1 && inet_pton(AF_INET6, text, address) != 1)
        return 0;
    return address_key(address);
}
