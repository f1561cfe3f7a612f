/*
 * Preconditions. The input is the field lines of a GET. A precondition fails only if its field is
 * present, and a strong match implies a weak match.
 */
#include "daemon/http/conditional.h"
#include "daemon/http1/request_parser.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const struct validators ours = {
    .etag = {"\"abc\"", 5}, .dated = true, .modified = 784111777};

static void check_lists(struct span line)
{
    enum etag_match strong = etag_list_match(line, ours.etag, true);
    enum etag_match weak = etag_list_match(line, ours.etag, false);

    MUST((strong == ETAG_MALFORMED) == (weak == ETAG_MALFORMED));
    MUST(strong != ETAG_YES || weak == ETAG_YES);
}

static void check_verdict(const struct request *request)
{
    enum verdict verdict = conditional_verdict(request, &ours, ours.modified + 9);
    unsigned guards = REQUEST_IF_MATCH | REQUEST_IF_UNMODIFIED_SINCE;
    unsigned asks = REQUEST_IF_NONE_MATCH | REQUEST_IF_MODIFIED_SINCE;

    MUST(verdict != VERDICT_PRECONDITION_FAILED || (request->present & guards) != 0);
    MUST(verdict != VERDICT_NOT_MODIFIED || (request->present & asks) != 0);
    MUST(conditional_range_holds(request, &ours, ours.modified + 9) ||
         (request->present & REQUEST_IF_RANGE) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct request_limits limits = {100, 4096, 50};
    static const struct span start = {"GET / HTTP/1.1\r\nHost: h\r\n", 25};
    size_t scanned = 0, length = start.length + size + 2;
    struct request request;
    char *copy = malloc(length);

    MUST(copy != NULL);
    memcpy(copy, start.start, start.length);
    memcpy(copy + start.length, data, size);
    memcpy(copy + start.length + size, "\r\n", 2);
    check_lists((struct span){copy + start.length, size});
    if (request_parse(copy, length, &limits, &scanned, &request) > 0)
        check_verdict(&request);
    free(copy);
    return 0;
}
