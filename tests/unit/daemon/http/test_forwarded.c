/* Which address of X-Forwarded-For and Forwarded is the client's. */
#include "common/client_address.h"
#include "common/macros.h"
#include "daemon/http/forwarded.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#define PEER "10.0.0.1" /* trusted: 10.0.0.0/8 and 2001:db8:1::/48 */

static const struct {
    const char *lines, *client;
} common_fields[] = {
    {"Host: x\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7"},
    {"x-forwarded-for:192.0.2.7\r\n", "192.0.2.7"},
    {"X-Forwarded-For: \t192.0.2.7 \r\n", "192.0.2.7"},
    {"X-Forwarded-For: 198.51.100.1, 192.0.2.7\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 198.51.100.1, 192.0.2.7, 10.2.3.4\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 192.0.2.7,10.2.3.4,10.9.9.9\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 10.2.3.4, 10.9.9.9\r\n", "10.2.3.4"}, /* all are trusted */
    {"X-Forwarded-For: 198.51.100.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7, 10.2.3.4\r\n",
     "192.0.2.7"},
    {"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 10.2.3.4\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 2001:db8::7\r\n", "2001:db8::7"},
    {"X-Forwarded-For: 2001:db8::7, 2001:db8:1::1\r\n", "2001:db8::7"},
    {"X-Forwarded-For: [2001:db8::7]\r\n", "2001:db8::7"},
    {"X-Forwarded-For: [2001:db8::7]:443\r\n", "2001:db8::7"},
    {"X-Forwarded-For: 192.0.2.7:443\r\n", "192.0.2.7"},
    {"X-Forwarded-For: ::ffff:192.0.2.7\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 198.51.100.1, ::ffff:10.0.0.9\r\n", "198.51.100.1"},
    {"X-Forwarded-For: 192.0.2.7, ,10.2.3.4,,\r\n", "192.0.2.7"},
    {"X-Forwarded-For:\r\n", PEER},
    {"X-Forwarded-For: unknown\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.7, unknown\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.7, unknown, 10.2.3.4\r\n", "10.2.3.4"},
    {"X-Forwarded-For: unknown, 192.0.2.7\r\n", "192.0.2.7"},
    {"X-Forwarded-For: \", 192.0.2.7\r\n", "192.0.2.7"}, /* quotes mean nothing */
    {"X-Forwarded-For: 192.0.2.7x\r\n", PEER},
    {"X-Forwarded-For: 192.0.2\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.007\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.7:\r\n", PEER},
    {"X-Forwarded-For: 192.0.2.7:8 0\r\n", PEER},
    {"X-Forwarded-For: [192.0.2.7]\r\n", PEER},
    {"X-Forwarded-For: [2001:db8::7\r\n", PEER},
    {"X-Forwarded-For: [2001:db8::7]x\r\n", PEER},
    {"X-Forwarded-For: ::\r\n", PEER}, /* would mean a UNIX socket */
    {"X-Forwarded-For: 1:2:3:4:5:6:7:8:9\r\n", PEER},
    {"X-Forwarded-For: ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255:ffff:ffff:ffff\r\n", PEER},
    {"X-Forwarded-Fo: 192.0.2.7\r\nX-Forwarded-For2: 192.0.2.7\r\n", PEER},
    {"Forwarded: for=192.0.2.7\r\n", PEER},
};

static const struct {
    const char *lines, *client;
} standard_fields[] = {
    {"Forwarded: for=192.0.2.7\r\n", "192.0.2.7"},
    {"Forwarded: For=\"192.0.2.7\"\r\n", "192.0.2.7"},
    {"Forwarded: for=192.0.2.7;proto=http;by=203.0.113.43\r\n", "192.0.2.7"},
    {"Forwarded: proto=http;FOR=\"[2001:db8::7]:4711\"\r\n", "2001:db8::7"},
    {"Forwarded: by=\"a;for=1.1.1.1\";for=192.0.2.7\r\n", "192.0.2.7"},
    {"Forwarded: for=\"192.0.2.7:_port\"\r\n", "192.0.2.7"},
    {"Forwarded: for=198.51.100.1, for=192.0.2.7 , for=10.2.3.4;by=10.0.0.1\r\n", "192.0.2.7"},
    {"Forwarded: for=192.0.2.7\r\nForwarded: for=10.2.3.4\r\n", "192.0.2.7"},
    {"Forwarded: for=\"a,b\", for=192.0.2.7\r\n", "192.0.2.7"},
    {"Forwarded: by=\"a, for=1.1.1.1\";for=192.0.2.7\r\n", "192.0.2.7"},
    /* A client cannot hide with an open quote what proxies append. */
    {"Forwarded: for=\"x, for=192.0.2.7\r\n", "192.0.2.7"},
    {"Forwarded: for=\"x, for=\"[2001:db8::7]\"\r\n", "2001:db8::7"},
    {"Forwarded: for=\"\\, for=\"[2001:db8::7]\";proto=https, for=10.2.3.4\r\n", "2001:db8::7"},
    {"Forwarded: for=unknown\r\n", PEER},
    {"Forwarded: for=_hidden, for=10.2.3.4\r\n", "10.2.3.4"},
    {"Forwarded: proto=https\r\n", PEER},
    {"Forwarded: for=192.0.2.7;for=192.0.2.8\r\n", PEER},
    {"Forwarded: for\r\n", PEER},
    {"Forwarded: for=\r\n", PEER},
    {"Forwarded: for=\"\r\n", PEER},
    {"Forwarded: for=\"192.0.2.7\r\n", PEER},
    {"Forwarded: for=\"192.0.2.7\"x\r\n", PEER},
    {"Forwarded: for=\"\\192.0.2.7\"\r\n", PEER},
    {"Forwarded: 192.0.2.7\r\n", PEER},
    {"Forwarded: ;;for=192.0.2.7;\r\n", "192.0.2.7"},
    {"X-Forwarded-For: 192.0.2.7\r\n", PEER},
};

static void find(const char *lines, enum forwarded_field field, char client[CLIENT_ADDRESS_TEXT])
{
    struct request request;
    struct network trusted[2], peer;
    const struct network_set set = {trusted, ARRAY_LENGTH(trusted)};

    request_clear(&request);
    if (lines != NULL)
        request.fields = span_of(lines);
    assert_int_equal(network_parse("10.0.0.0/8", &trusted[1]), NETWORK_GOOD);
    assert_int_equal(network_parse("2001:db8:1::/48", &trusted[0]), NETWORK_GOOD);
    assert_int_equal(network_parse(PEER, &peer), NETWORK_GOOD);
    forwarded_find(&request, field, &set, peer.address);
    *client_address_put(peer.address, client) = '\0';
}

TEST(last_untrusted_address_is_the_client)
{
    char client[CLIENT_ADDRESS_TEXT];

    for (size_t i = 0; i < ARRAY_LENGTH(common_fields); i++) {
        find(common_fields[i].lines, FORWARDED_X_FORWARDED_FOR, client);
        if (strcmp(client, common_fields[i].client) != 0)
            fail_msg("%s: %s", common_fields[i].lines, client);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(standard_fields); i++) {
        find(standard_fields[i].lines, FORWARDED_FORWARDED, client);
        if (strcmp(client, standard_fields[i].client) != 0)
            fail_msg("%s: %s", standard_fields[i].lines, client);
    }
}

TEST(request_without_fields_has_the_address_of_the_peer)
{
    char client[CLIENT_ADDRESS_TEXT];

    find(NULL, FORWARDED_X_FORWARDED_FOR, client);
    assert_string_equal(client, PEER);
}

TEST(of_many_lines_the_last_ones_count)
{
    static const char first[] = "X-Forwarded-For: 192.0.2.7\r\n",
                      line[] = "X-Forwarded-For: 10.2.3.4\r\n";
    char lines[20 * sizeof(line)], client[CLIENT_ADDRESS_TEXT];

    for (size_t count = 0; count < 20; count++) {
        strcpy(lines, first);
        for (size_t i = 0; i < count; i++)
            strcat(lines, line);
        find(lines, FORWARDED_X_FORWARDED_FOR, client);
        assert_string_equal(client, count < 16 ? "192.0.2.7" : "10.2.3.4");
    }
}
