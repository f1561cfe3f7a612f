/*
 * X-Forwarded-For and Forwarded: the first byte selects the field, the rest are values, one a line. Whatever
 * a client has sent, the address that a proxy appends is found; the result is never that of a UNIX socket.
 */
#include "daemon/http/forwarded.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

static const char *const appended[] = {"198.51.100.9", "for=\"[2001:db8::9]:80\";proto=https"};

/* Writes the field lines of DATA, and at last APPENDED, in the same line or in one of its own. */
static char *make_lines(const char *name, const uint8_t *data, size_t size, const char *last,
                        size_t *length)
{
    char *text = NULL;
    FILE *memory = open_memstream(&text, length);

    MUST(memory != NULL);
    fprintf(memory, "%s: ", name);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\n')
            fprintf(memory, "\r\n%s: ", name);
        else if (data[i] != '\r')
            fputc(data[i], memory);
    }
    fprintf(memory, "%s\r\n", last);
    MUST(fclose(memory) == 0);
    return text;
}

static void find(char *lines, size_t length, enum forwarded_field field,
                 uint8_t address[NETWORK_ADDRESS_BYTES])
{
    struct network trusted, peer;
    struct request request;

    MUST(network_parse("10.0.0.0/8", &trusted) == NETWORK_GOOD);
    MUST(network_parse("10.0.0.1", &peer) == NETWORK_GOOD);
    request_clear(&request);
    request.fields = (struct span){lines, length};
    forwarded_find(&request, field, &(struct network_set){&trusted, 1}, peer.address);
    memcpy(address, peer.address, sizeof(peer.address));
    free(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t none[NETWORK_ADDRESS_BYTES];
    static const char *const names[] = {"X-Forwarded-For", "Forwarded"};
    uint8_t address[NETWORK_ADDRESS_BYTES];
    struct network expected;
    size_t length;
    char with_comma[64], *lines;
    int which;

    if (size == 0)
        return 0;
    which = data[0] & 1;
    lines = make_lines(names[which], data + 1, size - 1, "", &length);
    find(lines, length, (enum forwarded_field)which, address);
    MUST(memcmp(address, none, sizeof(none)) != 0);
    snprintf(with_comma, sizeof(with_comma), ", %s", appended[which]);
    lines = make_lines(names[which], data + 1, size - 1, with_comma, &length);
    find(lines, length, (enum forwarded_field)which, address);
    MUST(network_parse(which == 0 ? "198.51.100.9" : "2001:db8::9", &expected) == NETWORK_GOOD);
    MUST(memcmp(address, expected.address, sizeof(address)) == 0);
    return 0;
}
