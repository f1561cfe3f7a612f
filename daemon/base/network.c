#include "daemon/base/network.h"

#include "common/units.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};
static const uint8_t unix_address[NETWORK_ADDRESS_BYTES];
static const char unix_text[] = "unix:";
enum { IPV4_BITS_BEFORE = sizeof(ipv4_prefix) * 8, ADDRESS_BITS = NETWORK_ADDRESS_BYTES * 8 };

/*
 * Parses an address into 16 bytes. Returns the length of the prefix that IPv4 has there, 96 bits,
 * or 0 for IPv6; -1 if TEXT is not an address.
 */
static int parse_ip_address(const char *text, uint8_t *address)
{
    if (inet_pton(AF_INET, text, address + sizeof(ipv4_prefix)) == 1) {
        memcpy(address, ipv4_prefix, sizeof(ipv4_prefix));
        return IPV4_BITS_BEFORE;
    }
    return inet_pton(AF_INET6, text, address) == 1 ? 0 : -1;
}

static bool is_ipv4(const uint8_t address[NETWORK_ADDRESS_BYTES])
{
    return memcmp(address, ipv4_prefix, sizeof(ipv4_prefix)) == 0;
}

static bool is_of_unix_socket(const uint8_t address[NETWORK_ADDRESS_BYTES])
{
    return memcmp(address, unix_address, sizeof(unix_address)) == 0;
}

enum network_fault network_parse(const char *text, struct network *network)
{
    struct network found;
    char address[NETWORK_TEXT_MAX];
    const char *slash = strchr(text, '/');
    uint64_t bits;
    int before;

    if (strcmp(text, unix_text) == 0) {
        *network = (struct network){.prefix = ADDRESS_BITS};
        return NETWORK_GOOD;
    }
    snprintf(address, sizeof(address), "%.*s",
             slash != NULL ? (int)(slash - text) : NETWORK_TEXT_MAX, text);
    before = parse_ip_address(address, found.address);
    if (before < 0)
        return NETWORK_NO_ADDRESS;
    bits = ADDRESS_BITS - (uint64_t)before;
    if (slash != NULL &&
        (units_parse_number(slash + 1, &bits) != 0 || bits > ADDRESS_BITS - (uint64_t)before))
        return NETWORK_BAD_PREFIX;
    found.prefix = (uint8_t)(bits + (uint64_t)before);
    for (unsigned bit = found.prefix; bit < ADDRESS_BITS; bit++)
        if ((found.address[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return NETWORK_HOST_BITS;
    if (found.prefix == ADDRESS_BITS && is_of_unix_socket(found.address))
        return NETWORK_NO_ADDRESS; /* "::" is nobody's address */
    *network = found;
    return NETWORK_GOOD;
}

void network_text(const struct network *network, char text[NETWORK_TEXT_MAX])
{
    bool ipv4 = network->prefix >= IPV4_BITS_BEFORE && is_ipv4(network->address);
    unsigned before = ipv4 ? IPV4_BITS_BEFORE : 0;
    size_t length;

    if (network->prefix == ADDRESS_BITS && is_of_unix_socket(network->address)) {
        memcpy(text, unix_text, sizeof(unix_text));
        return;
    }
    inet_ntop(ipv4 ? AF_INET : AF_INET6, network->address + before / 8, text, NETWORK_TEXT_MAX);
    length = strlen(text);
    if (network->prefix < ADDRESS_BITS)
        snprintf(text + length, NETWORK_TEXT_MAX - length, "/%u", network->prefix - before);
}

static bool have_same_prefix(const uint8_t *one, const uint8_t *other, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(one, other, whole) == 0 &&
           (rest == 0 || (one[whole] ^ other[whole]) >> (8 - rest) == 0);
}

bool network_contains(const struct network *network, const uint8_t address[NETWORK_ADDRESS_BYTES])
{
    if ((network->prefix < IPV4_BITS_BEFORE && is_ipv4(address)) ||
        (network->prefix < ADDRESS_BITS && is_of_unix_socket(address)))
        return false;
    return have_same_prefix(network->address, address, network->prefix);
}

/* Sets: sorted by family, address and prefix, so that the networks are apart from each other. */

/* UNIX sockets, IPv6, IPv4: no network contains addresses of two families. */
static int family_of(const uint8_t *address, unsigned prefix)
{
    if (prefix == ADDRESS_BITS && is_of_unix_socket(address))
        return 0;
    return prefix >= IPV4_BITS_BEFORE && is_ipv4(address) ? 2 : 1;
}

static int compare_addresses(const struct network *one, const struct network *other)
{
    int family = family_of(one->address, one->prefix);
    int other_family = family_of(other->address, other->prefix);

    return family != other_family ? family - other_family
                                  : memcmp(one->address, other->address, NETWORK_ADDRESS_BYTES);
}

static int by_address(const void *one, const void *other)
{
    const struct network *a = one, *b = other;
    int order = compare_addresses(a, b);

    return order != 0 ? order : a->prefix - b->prefix;
}

void network_set_complete(struct network_set *set)
{
    size_t kept = 0;

    if (set->count > 0)
        qsort(set->item, set->count, sizeof(*set->item), by_address);
    for (size_t i = 0; i < set->count; i++) {
        const struct network *network = &set->item[i],
                             *before = kept > 0 ? &set->item[kept - 1] : NULL;

        if (before == NULL || before->prefix > network->prefix ||
            family_of(before->address, before->prefix) !=
                family_of(network->address, network->prefix) ||
            !have_same_prefix(before->address, network->address, before->prefix))
            set->item[kept++] = *network;
    }
    set->count = kept;
}

bool network_sets_equal(const struct network_set *one, const struct network_set *other)
{
    return one->count == other->count &&
           (one->count == 0 ||
            memcmp(one->item, other->item, one->count * sizeof(*one->item)) == 0);
}

bool network_set_contains(const struct network_set *set,
                          const uint8_t address[NETWORK_ADDRESS_BYTES])
{
    size_t from = 0, to = set->count;
    struct network one = {.prefix = ADDRESS_BITS};

    memcpy(one.address, address, sizeof(one.address));
    while (from < to) { /* the first network after ADDRESS */
        size_t middle = (from + to) / 2;

        if (compare_addresses(&set->item[middle], &one) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 && network_contains(&set->item[from - 1], address);
}

void network_socket_address(const struct sockaddr_storage *peer,
                            uint8_t address[NETWORK_ADDRESS_BYTES])
{
    memset(address, 0, NETWORK_ADDRESS_BYTES);
    if (peer->ss_family == AF_INET) {
        memcpy(address, ipv4_prefix, sizeof(ipv4_prefix));
        memcpy(address + sizeof(ipv4_prefix), &((const struct sockaddr_in *)peer)->sin_addr, 4);
    } else if (peer->ss_family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)peer)->sin6_addr, NETWORK_ADDRESS_BYTES);
    }
}
