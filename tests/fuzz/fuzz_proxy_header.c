/*
 * The header of the PROXY protocol. A prefix of a complete header is incomplete, and what follows it
 * changes nothing.
 */
#include "daemon/connection/proxy_header.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_prefixes(const char *bytes, size_t length)
{
    struct proxy_header header;

    for (size_t shorter = 0; shorter < length; shorter += 1 + shorter / 64) {
        char *copy = malloc(shorter > 0 ? shorter : 1);

        MUST(copy != NULL);
        memcpy(copy, bytes, shorter);
        MUST(proxy_header_parse(copy, shorter, &header) == PROXY_HEADER_INCOMPLETE);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t none[CLIENT_ADDRESS_BYTES];
    const char *bytes = (const char *)data;
    struct proxy_header header, again;

    if (proxy_header_parse(bytes, size, &header) != PROXY_HEADER_COMPLETE)
        return 0;
    MUST(header.length <= size && header.length <= PROXY_HEADER_MAX);
    MUST(!header.has_address || memcmp(header.address, none, sizeof(none)) != 0);
    MUST(proxy_header_parse(bytes, header.length, &again) == PROXY_HEADER_COMPLETE);
    MUST(again.length == header.length && again.has_address == header.has_address);
    check_prefixes(bytes, header.length);
    return 0;
}
