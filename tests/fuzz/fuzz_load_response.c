/*
 * Responses in pieces. The result does not depend on the split, the parser consumes no more than it
 * was given, and the counts add up.
 */
#include "loadgen/engine/response.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

struct outcome {
    enum response_result result;
    size_t used;
    uint16_t status;
    bool keep_alive;
    uint64_t body_bytes, passed;
};

static void count(void *context, const char *bytes, size_t length)
{
    uint64_t *passed = context;

    (void)bytes;
    *passed += length;
}

/* Feeds pieces of SIZE bytes. */
static struct outcome read_in_pieces(const char *bytes, size_t length, size_t size, bool head)
{
    static char line[RESPONSE_LINE_MAX];
    struct outcome outcome = {.result = RESPONSE_MORE};
    struct response response = {.line = line, .on_body = count, .context = &outcome.passed};

    response_begin(&response, head);
    for (size_t at = 0; at < length && outcome.result == RESPONSE_MORE; at += size) {
        size_t piece = length - at < size ? length - at : size, used;

        outcome.result = response_feed(&response, bytes + at, piece, &used);
        MUST(used <= piece);
        MUST(outcome.result != RESPONSE_MORE || used == piece);
        outcome.used += used;
    }
    if (outcome.result == RESPONSE_MORE)
        outcome.result = response_end(&response) == RESPONSE_DONE ? RESPONSE_MORE : RESPONSE_BAD;
    MUST(outcome.result != RESPONSE_BAD || response.why != NULL);
    MUST(outcome.passed == response.body_bytes && outcome.passed <= length);
    MUST(!head || outcome.passed == 0);
    outcome.status = response.status;
    outcome.keep_alive = response.keep_alive;
    outcome.body_bytes = response.body_bytes;
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t sizes[] = {1, 2, 7, 100};
    const char *bytes = (const char *)data;

    for (int head = 0; head <= 1; head++) {
        struct outcome whole = read_in_pieces(bytes, size, size > 0 ? size : 1, head == 1);

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct outcome pieces = read_in_pieces(bytes, size, sizes[i], head == 1);

            MUST(pieces.result == whole.result && pieces.status == whole.status);
            MUST(whole.result != RESPONSE_DONE ||
                 (pieces.used == whole.used && pieces.keep_alive == whole.keep_alive &&
                  pieces.body_bytes == whole.body_bytes));
        }
    }
    return 0;
}
