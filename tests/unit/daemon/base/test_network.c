/* Networks in CIDR notation: parsing, formatting, membership. */
#include "common/macros.h"
#include "daemon/base/network.h"
#include "tests/test.h"

#include <string.h>

static const struct {
    const char *text;
    enum network_fault fault;
    const char *again; /* expected text; NULL: the same */
} texts[] = {
    {"10.0.0.0/8", NETWORK_GOOD, NULL},
    {"0.0.0.0/0", NETWORK_GOOD, NULL},
    {"192.0.2.7", NETWORK_GOOD, NULL},
    {"192.0.2.7/32", NETWORK_GOOD, "192.0.2.7"},
    {"::/0", NETWORK_GOOD, NULL},
    {"::1", NETWORK_GOOD, NULL},
    {"::1/128", NETWORK_GOOD, "::1"},
    {"2001:DB8:0::/33", NETWORK_GOOD, "2001:db8::/33"},
    {"::ffff:10.0.0.0/104", NETWORK_GOOD, "10.0.0.0/8"},
    {"10.0.0.0/9", NETWORK_GOOD, NULL},
    {"unix:", NETWORK_GOOD, NULL},
    {"", NETWORK_NO_ADDRESS, NULL},
    {"::", NETWORK_NO_ADDRESS, NULL},
    {"unix", NETWORK_NO_ADDRESS, NULL},
    {"unix:/8", NETWORK_NO_ADDRESS, NULL},
    {"/8", NETWORK_NO_ADDRESS, NULL},
    {"10.0.0/8", NETWORK_NO_ADDRESS, NULL},
    {"10.0.0.256", NETWORK_NO_ADDRESS, NULL},
    {"localhost", NETWORK_NO_ADDRESS, NULL},
    {"[::1]", NETWORK_NO_ADDRESS, NULL},
    {"10.0.0.0/33", NETWORK_BAD_PREFIX, NULL},
    {"10.0.0.0/", NETWORK_BAD_PREFIX, NULL},
    {"10.0.0.0/-1", NETWORK_BAD_PREFIX, NULL},
    {"10.0.0.0/8/8", NETWORK_BAD_PREFIX, NULL},
    {"::/129", NETWORK_BAD_PREFIX, NULL},
    {"10.0.0.1/8", NETWORK_HOST_BITS, NULL},
    {"10.128.0.0/8", NETWORK_HOST_BITS, NULL},
    {"2001:db8::1/64", NETWORK_HOST_BITS, NULL},
};

TEST(network_is_parsed_and_formatted)
{
    char again[NETWORK_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct network network;

        if (network_parse(texts[i].text, &network) != texts[i].fault)
            fail_msg("%s", texts[i].text);
        if (texts[i].fault != NETWORK_GOOD)
            continue;
        network_text(&network, again);
        assert_string_equal(again, texts[i].again != NULL ? texts[i].again : texts[i].text);
    }
}

static const struct {
    const char *network, *address;
    bool inside;
} members[] = {
    {"10.0.0.0/8", "10.255.255.255", true},
    {"10.0.0.0/8", "11.0.0.0", false},
    {"10.0.0.0/8", "::a00:0", false},
    {"10.0.0.0/9", "10.127.1.1", true},
    {"10.0.0.0/9", "10.128.1.1", false},
    {"0.0.0.0/0", "203.0.113.9", true},
    {"0.0.0.0/0", "2001:db8::1", false},
    {"0.0.0.0/0", "unix:", false},
    {"::/0", "203.0.113.9", false},
    {"::/0", "unix:", false},
    {"::/95", "203.0.113.9", false},
    {"::ffff:0:0/96", "203.0.113.9", true},
    {"unix:", "unix:", true},
    {"unix:", "::1", false},
    {"unix:", "0.0.0.0", false},
    {"::/0", "2001:db8::1", true},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", "127.0.0.2", false},
    {"::1", "::1", true},
    {"2001:db8:8000::/33", "2001:db8:ffff::", true},
    {"2001:db8:8000::/33", "2001:db8:7fff::", false},
};

TEST(network_contains_addresses_with_its_prefix)
{
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++) {
        struct network network, address;

        assert_int_equal(network_parse(members[i].network, &network), NETWORK_GOOD);
        assert_int_equal(network_parse(members[i].address, &address), NETWORK_GOOD);
        if (network_contains(&network, address.address) != members[i].inside)
            fail_msg("%s in %s", members[i].address, members[i].network);
    }
}

static uint32_t random_bits(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* A network with few bits that differ, so that many contain each other. */
static struct network random_network(uint32_t *seed)
{
    struct network network = {.prefix = (uint8_t)(random_bits(seed) % 129)};

    if (random_bits(seed) % 2 == 0) {
        network.address[10] = network.address[11] = 0xff;
        network.prefix = (uint8_t)(96 + network.prefix % 33);
    }
    for (unsigned bit = 0; bit < network.prefix; bit++)
        if (random_bits(seed) % 8 == 0 && !(bit >= 80 && bit < 96))
            network.address[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    return network;
}

TEST(set_contains_what_one_of_its_networks_does)
{
    uint32_t seed = 1;
    size_t inside = 0;

    for (int round = 0; round < 2000; round++) {
        struct network all[40], item[40];
        struct network_set set = {item, random_bits(&seed) % 41};
        size_t count = set.count;

        for (size_t i = 0; i < count; i++)
            all[i] = item[i] = random_network(&seed);
        network_set_complete(&set);
        for (int k = 0; k < 50; k++) {
            struct network one = random_network(&seed);
            bool expected = false;

            for (size_t i = 0; i < count; i++)
                expected = expected || network_contains(&all[i], one.address);
            inside += expected;
            assert_int_equal(network_set_contains(&set, one.address), expected);
        }
    }
    assert_true(inside > 10000);
    assert_true(inside < 90000);
}
