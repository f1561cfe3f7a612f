/* Headers of the PROXY protocol: valid, cut at each byte, too long, wrong. */
#include "common/macros.h"
#include "daemon/connection/proxy_header.h"
#include "tests/test.h"

#include <string.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define INET      "\xc0\x00\x02\x07\x0a\x00\x00\x01\x9c\x40\x01\xbb"
#define INET6                                                                                      \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x9c\x40" \
    "\x01\xbb"
#define BYTES(literal) literal, sizeof(literal) - 1
#define LINE_OF_107                                                                                \
    "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "                                       \
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"

static const struct {
    const char *bytes;
    size_t length;
    const char *client; /* NULL: the header names none */
} valid[] = {
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 40000 443\r\n"), "192.0.2.7"},
    {BYTES("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255"},
    {BYTES("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n"), "0.0.0.0"},
    {BYTES("PROXY TCP6 2001:db8::7 ::1 40000 443\r\n"), "2001:db8::7"},
    {BYTES("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n"), "192.0.2.7"},
    {BYTES("PROXY UNKNOWN\r\n"), NULL},
    {BYTES("PROXY UNKNOWN what ever\r\n"), NULL},
    {BYTES(LINE_OF_107), NULL},
    {BYTES(SIGNATURE "\x21\x11\0\x0c" INET), "192.0.2.7"},
    {BYTES(SIGNATURE "\x21\x21\0\x24" INET6), "2001:db8::7"},
    {BYTES(SIGNATURE "\x21\x11\0\x13" INET "\x04\0\x04pad!"), "192.0.2.7"}, /* a TLV */
    {BYTES(SIGNATURE "\x20\x00\0\0"), NULL},                                /* LOCAL */
    {BYTES(SIGNATURE "\x20\x11\0\x0c" INET), NULL},
    {BYTES(SIGNATURE "\x20\xff\0\x02xx"), NULL}, /* its family is ignored */
    {BYTES(SIGNATURE "\x21\x00\0\0"), NULL},     /* unspecified */
    {BYTES(SIGNATURE "\x21\x00\0\x03xyz"), NULL},
    {BYTES(SIGNATURE "\x21\x12\0\x0c" INET), NULL}, /* UDP */
};

static const struct {
    const char *bytes;
    size_t length;
} wrong[] = {
    {BYTES("GET / HTTP/1.1\r\n\r\n")},
    {BYTES("\x16\x03\x01")},
    {BYTES("proxy TCP4 192.0.2.7 10.0.0.1 1 2\r\n")},
    {BYTES("PROXYTCP4")},
    {BYTES("PROXY \r\n")},
    {BYTES("PROXY UNKNOWNS\r\n")},
    {BYTES("PROXY UNKNOWN\n")},
    {BYTES("PROXY TCP4\r\n")},
    {BYTES("PROXY TCP5 192.0.2.7 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r \r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 2 3\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7  10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 2 \r\n")},
    {BYTES("PROXY TCP4  192.0.2.7 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.07 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.256 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7\0x 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.x 1 2\r\n")},
    {BYTES("PROXY TCP4 ::1 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP6 192.0.2.7 10.0.0.1 1 2\r\n")},
    {BYTES("PROXY TCP6 :: ::1 1 2\r\n")}, /* would mean a UNIX socket */
    {BYTES("PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0000:0000:0007 ::1 1 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 01 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 65536 2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 -2\r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 \r\n")},
    {BYTES("PROXY TCP4 192.0.2.7 10.0.0.1 1 123456\r\n")},
    {BYTES("\r\n\r\n\0\r\nQUIT\r")},
    {BYTES("\r\nGET")},
    {BYTES(SIGNATURE "\x11")}, /* another version */
    {BYTES(SIGNATURE "\x31")},
    {BYTES(SIGNATURE "\x22")}, /* another command */
    {BYTES(SIGNATURE "\x21\x41\0\0")},
    {BYTES(SIGNATURE "\x21\x13\0\x0c" INET)},
    {BYTES(SIGNATURE "\x21\x11\0\x0b" INET)}, /* too short for its addresses */
    {BYTES(SIGNATURE "\x21\x21\0\x0c" INET)},
    {BYTES(SIGNATURE "\x21\x31\0\x0c" INET)},
    {BYTES(SIGNATURE "\x21\x21\0\x24"
                     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
};

static void expect_client(const struct proxy_header *header, const char *client)
{
    char text[CLIENT_ADDRESS_TEXT];

    assert_int_equal(header->has_address, client != NULL);
    if (client == NULL)
        return;
    *client_address_put(header->address, text) = '\0';
    assert_string_equal(text, client);
}

TEST(valid_header_names_client_and_ends_before_the_next_byte)
{
    for (size_t i = 0; i < ARRAY_LENGTH(valid); i++) {
        char bytes[512];
        struct proxy_header header;

        memcpy(bytes, valid[i].bytes, valid[i].length);
        memcpy(bytes + valid[i].length, "GET", 3);
        for (size_t after = 0; after <= 3; after++) {
            assert_int_equal(proxy_header_parse(bytes, valid[i].length + after, &header),
                             PROXY_HEADER_COMPLETE);
            assert_int_equal(header.length, valid[i].length);
            expect_client(&header, valid[i].client);
        }
    }
}

TEST(header_cut_at_any_byte_is_incomplete)
{
    struct proxy_header header;

    for (size_t i = 0; i < ARRAY_LENGTH(valid); i++)
        for (size_t length = 0; length < valid[i].length; length++)
            if (proxy_header_parse(valid[i].bytes, length, &header) != PROXY_HEADER_INCOMPLETE)
                fail_msg("header %zu with %zu bytes", i, length);
}

TEST(wrong_header_is_invalid)
{
    struct proxy_header header;

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        if (proxy_header_parse(wrong[i].bytes, wrong[i].length, &header) != PROXY_HEADER_INVALID)
            fail_msg("%zu: %s", i, wrong[i].bytes);
}

TEST(line_has_at_most_107_bytes)
{
    char bytes[200];
    struct proxy_header header;

    memset(bytes, 'x', sizeof(bytes));
    memcpy(bytes, "PROXY UNKNOWN ", 14);
    assert_int_equal(proxy_header_parse(bytes, 106, &header), PROXY_HEADER_INCOMPLETE);
    assert_int_equal(proxy_header_parse(bytes, 107, &header), PROXY_HEADER_INVALID);
    memcpy(bytes + 106, "\r\n", 2);
    assert_int_equal(proxy_header_parse(bytes, 108, &header), PROXY_HEADER_INVALID);
}

TEST(binary_header_has_a_maximum_length)
{
    static const size_t most = PROXY_HEADER_MAX - 16;
    char bytes[PROXY_HEADER_MAX] = SIGNATURE "\x21\x11";
    struct proxy_header header;

    memcpy(bytes + 16, INET, 12);
    bytes[14] = (char)(most >> 8), bytes[15] = (char)most;
    assert_int_equal(proxy_header_parse(bytes, sizeof(bytes) - 1, &header),
                     PROXY_HEADER_INCOMPLETE);
    assert_int_equal(proxy_header_parse(bytes, sizeof(bytes), &header), PROXY_HEADER_COMPLETE);
    assert_int_equal(header.length, sizeof(bytes));
    bytes[14] = (char)((most + 1) >> 8), bytes[15] = (char)(most + 1);
    assert_int_equal(proxy_header_parse(bytes, 16, &header), PROXY_HEADER_INVALID);
}

TEST(client_on_a_unix_socket_has_no_address)
{
    char bytes[16 + 216] = SIGNATURE "\x21\x31\0\xd8";
    struct proxy_header header;

    assert_int_equal(proxy_header_parse(bytes, sizeof(bytes), &header), PROXY_HEADER_COMPLETE);
    assert_false(header.has_address);
}
