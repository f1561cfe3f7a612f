#include "daemon/connection/proxy_header.h"

#include "common/macros.h"
#include "common/span.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* COMPLETE: BYTES begin with TEXT. INCOMPLETE: all of them are its beginning. */
static enum proxy_header_result begins_with(const char *bytes, size_t length, struct span text)
{
    size_t common = length < text.length ? length : text.length;

    if (memcmp(bytes, text.start, common) != 0)
        return PROXY_HEADER_INVALID;
    return common == text.length ? PROXY_HEADER_COMPLETE : PROXY_HEADER_INCOMPLETE;
}

/* "::" is nobody's address; it would mean a UNIX socket. */
static bool is_nobody(const uint8_t address[CLIENT_ADDRESS_BYTES])
{
    static const uint8_t none[CLIENT_ADDRESS_BYTES];

    return memcmp(address, none, sizeof(none)) == 0;
}

/* Version 1: "PROXY TCP4 192.0.2.7 192.0.2.1 40000 443" and CRLF. */

static const struct span text_start = {"PROXY ", 6};
enum { LINE_MAX_BYTES = 107, WORDS = 5 };

/* Splits TEXT at single blanks into exactly WORDS words. */
static bool split_words(struct span text, struct span word[WORDS])
{
    const char *at = text.start, *end = at + text.length;

    for (int i = 0; i < WORDS; i++) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));

        if ((blank == NULL) != (i == WORDS - 1))
            return false;
        word[i] = (struct span){at, (size_t)((blank != NULL ? blank : end) - at)};
        at = blank != NULL ? blank + 1 : end;
    }
    return true;
}

/* 0 to 65535, without leading zeros. */
static bool is_port(struct span word)
{
    unsigned port = 0;

    if (word.length == 0 || word.length > 5 || (word.length > 1 && word.start[0] == '0'))
        return false;
    for (size_t i = 0; i < word.length; i++) {
        if (word.start[i] < '0' || word.start[i] > '9')
            return false;
        port = port * 10 + (unsigned)(word.start[i] - '0');
    }
    return port <= 65535;
}

static bool read_address(struct span word, int family, uint8_t address[CLIENT_ADDRESS_BYTES])
{
    char text[INET6_ADDRSTRLEN];

    if (word.length >= sizeof(text))
        return false;
    memcpy(text, word.start, word.length);
    text[word.length] = '\0';
    memcpy(address, ipv4_prefix, sizeof(ipv4_prefix));
    return strlen(text) == word.length &&
           inet_pton(family, text, family == AF_INET ? address + sizeof(ipv4_prefix) : address) ==
               1;
}

/* What follows "PROXY " in a line without its CRLF. */
static bool read_proxy_line(struct span text, struct proxy_header *header)
{
    static const struct span unknown = {"UNKNOWN", 7};
    uint8_t destination[CLIENT_ADDRESS_BYTES];
    struct span word[WORDS];
    int family;

    header->has_address = false;
    if (text.length >= unknown.length && memcmp(text.start, unknown.start, unknown.length) == 0 &&
        (text.length == unknown.length || text.start[unknown.length] == ' '))
        return true;
    if (!split_words(text, word) ||
        (!span_is(word[0], SPAN("TCP4")) && !span_is(word[0], SPAN("TCP6"))))
        return false;
    family = span_is(word[0], SPAN("TCP4")) ? AF_INET : AF_INET6;
    header->has_address = true;
    return read_address(word[1], family, header->address) &&
           read_address(word[2], family, destination) && is_port(word[3]) && is_port(word[4]) &&
           !is_nobody(header->address);
}

static enum proxy_header_result parse_text(const char *bytes, size_t length,
                                           struct proxy_header *header)
{
    size_t most = length < LINE_MAX_BYTES ? length : LINE_MAX_BYTES;
    const char *end = memchr(bytes, '\n', most);
    size_t before = text_start.length;

    if (end == NULL)
        return length < LINE_MAX_BYTES ? PROXY_HEADER_INCOMPLETE : PROXY_HEADER_INVALID;
    header->length = (size_t)(end + 1 - bytes);
    if (end[-1] != '\r' || memchr(bytes, '\r', header->length - 2) != NULL ||
        !read_proxy_line((struct span){bytes + before, header->length - 2 - before}, header))
        return PROXY_HEADER_INVALID;
    return PROXY_HEADER_COMPLETE;
}

/*
 * Version 2, in network byte order: signature, version and command, family and transport, length of
 * the rest; then both addresses, both ports, and type-length-values, which are skipped.
 */

static const struct span signature = {"\r\n\r\n\0\r\nQUIT\n", 12};

enum {
    COMMAND_BYTE = 12,
    FAMILY_BYTE = 13,
    LENGTH_BYTE = 14,
    FIXED_BYTES = 16,
    VERSION = 0x20,
    COMMAND_LOCAL = VERSION,
    COMMAND_PROXY = VERSION + 1,
    FAMILY_INET = 1,
    FAMILY_INET6 = 2,
    TRANSPORT_STREAM = 1,
};

/* Bytes of the addresses and ports, by family: unspecified, IPv4, IPv6, UNIX. */
static const uint8_t address_bytes[] = {0, 12, 36, 216};
/* Unspecified, stream, datagram. */
enum { TRANSPORTS = 3 };

/* The block of a PROXY command, of LENGTH bytes. */
static bool read_block(const uint8_t *block, size_t length, unsigned family, unsigned transport,
                       struct proxy_header *header)
{
    if (family >= ARRAY_LENGTH(address_bytes) || transport >= TRANSPORTS ||
        length < address_bytes[family])
        return false;
    if (transport != TRANSPORT_STREAM || (family != FAMILY_INET && family != FAMILY_INET6))
        return true;
    header->has_address = true;
    if (family == FAMILY_INET) {
        memcpy(header->address, ipv4_prefix, sizeof(ipv4_prefix));
        memcpy(header->address + sizeof(ipv4_prefix), block, 4);
    } else {
        memcpy(header->address, block, CLIENT_ADDRESS_BYTES);
    }
    return !is_nobody(header->address);
}

static enum proxy_header_result parse_binary(const uint8_t *bytes, size_t length,
                                             struct proxy_header *header)
{
    size_t rest;

    if (length > COMMAND_BYTE && bytes[COMMAND_BYTE] != COMMAND_LOCAL &&
        bytes[COMMAND_BYTE] != COMMAND_PROXY)
        return PROXY_HEADER_INVALID;
    if (length < FIXED_BYTES)
        return PROXY_HEADER_INCOMPLETE;
    rest = (size_t)bytes[LENGTH_BYTE] << 8 | bytes[LENGTH_BYTE + 1];
    header->length = FIXED_BYTES + rest;
    header->has_address = false;
    if (header->length > PROXY_HEADER_MAX)
        return PROXY_HEADER_INVALID;
    if (length < header->length)
        return PROXY_HEADER_INCOMPLETE;
    if (bytes[COMMAND_BYTE] == COMMAND_PROXY &&
        !read_block(bytes + FIXED_BYTES, rest, bytes[FAMILY_BYTE] >> 4, bytes[FAMILY_BYTE] & 0xf,
                    header))
        return PROXY_HEADER_INVALID;
    return PROXY_HEADER_COMPLETE;
}

enum proxy_header_result proxy_header_parse(const char *bytes, size_t length,
                                            struct proxy_header *header)
{
    enum proxy_header_result result = begins_with(bytes, length, text_start);

    if (result == PROXY_HEADER_COMPLETE)
        return parse_text(bytes, length, header);
    if (result == PROXY_HEADER_INVALID)
        result = begins_with(bytes, length, signature);
    return result == PROXY_HEADER_COMPLETE ? parse_binary((const uint8_t *)bytes, length, header)
                                           : result;
}
