/* Framing on the control socket: the lines do not depend on how the bytes are split. */
#include "daemon/control/socket.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The result of an input: the numbers of valid and invalid lines, and a hash of the valid ones. */
struct framed {
    uint64_t lines, invalid, mixed;
    bool too_long;
};

static void mix(struct framed *outcome, const char *text)
{
    for (; *text != '\0'; text++)
        outcome->mixed = (outcome->mixed ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    outcome->mixed = outcome->mixed * 31 + 1;
}

static void take_lines(struct framed *outcome, struct evbuffer *input)
{
    enum control_line framed = CONTROL_LINE_WHOLE;
    char *line;

    while ((framed == CONTROL_LINE_WHOLE || framed == CONTROL_LINE_INVALID) && !outcome->too_long) {
        framed = control_line_read(input, &line);
        outcome->too_long = framed == CONTROL_LINE_TOO_LONG;
        outcome->invalid += framed == CONTROL_LINE_INVALID;
        if (framed != CONTROL_LINE_WHOLE)
            continue;
        MUST(strlen(line) < CONTROL_LINE_MAX);
        outcome->lines++;
        mix(outcome, line);
        free(line);
    }
}

/* Feeds pieces of STEP bytes. */
static struct framed feed(const uint8_t *data, size_t size, size_t step)
{
    struct framed outcome = {0};
    struct evbuffer *input = evbuffer_new();

    for (size_t at = 0; at < size && !outcome.too_long; at += step) {
        evbuffer_add(input, data + at, size - at < step ? size - at : step);
        take_lines(&outcome, input);
    }
    evbuffer_free(input);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct framed small = feed(data, size, 7), single = feed(data, size, 1);

    MUST(small.lines == single.lines && small.mixed == single.mixed);
    MUST(small.invalid == single.invalid);
    MUST(small.too_long == single.too_long);
    return 0;
}
