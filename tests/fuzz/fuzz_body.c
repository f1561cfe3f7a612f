/*
 * A request body. However it is split, the parser must find the same end or the same error, and
 * bytes after the end must not matter. The first input byte selects the kind of body and the split.
 */
#include "daemon/http1/body_parser.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const struct body_limits limits = {.content_bytes = 300, .trailer_bytes = 100};

/* Feeds FIRST bytes, then STEP at a time. Each piece has an allocation of exactly its size, so that
 * a sanitizer detects reads past its end. */
static int pass(const struct request *request, const uint8_t *data, size_t size, size_t first,
                size_t step, size_t *all_used)
{
    struct body_parser body;
    int result = body_parser_begin(&body, request, &limits);
    size_t length = first;

    *all_used = 0;
    while (result == BODY_MORE && *all_used < size) {
        size_t left = size - *all_used, used;
        char *piece;

        length = length < left ? length : left;
        piece = malloc(length > 0 ? length : 1);
        MUST(piece != NULL);
        memcpy(piece, data + *all_used, length);
        result = body_parser_feed(&body, piece, length, &used);
        free(piece);
        MUST(used <= length && (result != BODY_MORE || used == length));
        *all_used += used;
        length = step;
    }
    return result;
}

/* A complete chunked body ends with an empty line; other content is within the limit. */
static void check_done(const struct request *request, const uint8_t *data, size_t used)
{
    if (request->chunked)
        MUST(used >= 5 && memcmp(data + used - 4, "\r\n\r\n", 4) == 0);
    else
        MUST(used == request->content_length && used <= limits.content_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request = {.has_body = true};
    size_t whole_used, used;
    int whole, cut;

    if (size < 2)
        return 0;
    cut = data[0] >> 1;
    request.chunked = data[0] & 1;
    request.content_length = request.chunked ? 0 : data[1];
    data += 2;
    size -= 2;
    whole = pass(&request, data, size, size, 1, &whole_used);
    MUST(whole == BODY_MORE || whole == BODY_DONE || whole == -400 || whole == -413 ||
         whole == -431);
    MUST(pass(&request, data, size, 1, 1, &used) == whole && used == whole_used);
    MUST(pass(&request, data, size, (size_t)cut, size, &used) == whole && used == whole_used);
    MUST(pass(&request, data, whole_used, whole_used, 1, &used) == whole && used == whole_used);
    if (whole == BODY_DONE)
        check_done(&request, data, whole_used);
    return 0;
}
