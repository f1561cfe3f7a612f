/*
 * The byte stream of a connection: requests and their bodies in sequence. However it is split, the
 * parsers must find the same requests at the same offsets and the same error. The first bytes select
 * the split.
 */
#include "daemon/http1/body_parser.h"
#include "daemon/http1/request_parser.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { CUTS = 4, FOUND_MAX = 64 };

static const struct request_limits limits = {
    .line_bytes = 100, .head_bytes = 300, .field_count = 6};
static const struct body_limits body_limits = {.content_bytes = 200, .trailer_bytes = 60};

/* The result of a stream: the end of each request, and the status that rejected it. */
struct found {
    size_t count, end[FOUND_MAX];
    int rejected; /* negative status, or 0 */
};

/* A reader. Like a connection it keeps unconsumed bytes. */
struct reader {
    struct found found;
    size_t at;      /* offset in the stream; the bytes before it are consumed */
    size_t scanned; /* bytes after AT that the request parser has scanned */
    bool in_body;
    struct body_parser body;
};

static void note_end(struct reader *reader)
{
    if (reader->found.count < FOUND_MAX)
        reader->found.end[reader->found.count] = reader->at;
    reader->found.count++;
}

/* Parses a head. Returns false if it is incomplete or rejected. */
static bool take_head(struct reader *reader, const char *bytes, size_t length)
{
    struct request request;
    int used = request_parse(bytes, length, &limits, &reader->scanned, &request);
    int result;

    reader->found.rejected = used < 0 ? used : 0;
    if (used <= 0)
        return false;
    MUST(reader->scanned == 0 && (size_t)used <= length);
    reader->at += (size_t)used;
    result = body_parser_begin(&reader->body, &request, &body_limits);
    MUST((result != BODY_DONE) == request.has_body);
    reader->found.rejected = result < 0 ? result : 0;
    reader->in_body = result == BODY_MORE;
    if (result == BODY_DONE)
        note_end(reader);
    return result >= 0;
}

static bool take_body(struct reader *reader, const char *bytes, size_t length)
{
    size_t used;
    int result = body_parser_feed(&reader->body, bytes, length, &used);

    reader->at += used;
    reader->found.rejected = result < 0 ? result : 0;
    reader->in_body = result == BODY_MORE;
    if (result == BODY_DONE)
        note_end(reader);
    return result == BODY_DONE;
}

/* Parses the first LENGTH bytes of DATA, copied to an allocation of exactly that size. */
static void read_on(struct reader *reader, const uint8_t *data, size_t length)
{
    char *copy = malloc(length > 0 ? length : 1);
    bool more = reader->found.rejected == 0;

    MUST(copy != NULL);
    memcpy(copy, data, length);
    while (more && reader->at < length) {
        const char *bytes = copy + reader->at;

        more = reader->in_body ? take_body(reader, bytes, length - reader->at)
                               : take_head(reader, bytes, length - reader->at);
    }
    free(copy);
}

static void check_same(const struct found *one, const struct found *other)
{
    size_t kept = one->count < FOUND_MAX ? one->count : FOUND_MAX;

    MUST(one->count == other->count);
    MUST(memcmp(one->end, other->end, kept * sizeof(one->end[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {0}, cut = {0}, dripping = {0};
    const uint8_t *cuts = data;
    size_t length = 0;

    if (size < CUTS)
        return 0;
    data += CUTS;
    size -= CUTS;
    read_on(&whole, data, size);
    for (int i = 0; i < CUTS && length + cuts[i] < size; i++) {
        length += cuts[i];
        read_on(&cut, data, length);
    }
    read_on(&cut, data, size);
    for (length = 1; length <= size; length++)
        read_on(&dripping, data, length);
    check_same(&whole.found, &cut.found);
    check_same(&whole.found, &dripping.found);
    MUST(cut.found.rejected == whole.found.rejected || cut.found.rejected == 0);
    MUST(dripping.found.rejected == whole.found.rejected || dripping.found.rejected == 0);
    return 0;
}
