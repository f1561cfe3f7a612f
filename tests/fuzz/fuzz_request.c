/*
 * The request parser. The result is the same for the whole input, byte by byte and truncated. Spans
 * lie within the head, and an accepted request is unambiguous.
 */
#include "common/macros.h"
#include "daemon/http1/request_parser.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const struct request_limits limits = {
    .line_bytes = 200, .head_bytes = 600, .field_count = 8};

static int parse_copy(const uint8_t *data, size_t size, struct request *request, char **copy)
{
    size_t scanned = 0;

    *copy = malloc(size > 0 ? size : 1);
    MUST(*copy != NULL);
    memcpy(*copy, data, size);
    memset(request, 0xa5, sizeof(*request));
    return request_parse(*copy, size, &limits, &scanned, request);
}

static void check_span(struct span span, const char *start, size_t length)
{
    if (span.start == NULL) {
        MUST(span.length == 0);
        return;
    }
    MUST(span.start >= start && span.length <= length &&
         (size_t)(span.start - start) <= length - span.length);
    for (size_t i = 0; i < span.length; i++)
        MUST((unsigned char)span.start[i] >= 0x20 || span.start[i] == '\t');
}

/* Iterating over a field yields its first line, and others only if it is marked as repeated. */
static void check_field(const struct request *request, enum request_field field, struct span first)
{
    const char *at = NULL;
    struct span value;
    int count = 0;

    while (request_next_value(request, field, &at, &value)) {
        check_span(value, request->fields.start, request->fields.length);
        MUST(count > 0 || value.start == first.start);
        count++;
    }
    MUST((count > 0) == ((request->present & field) != 0));
    MUST((count > 1) == ((request->repeated & field) != 0));
}

static void check_request(const struct request *request, const char *start, size_t used)
{
    const struct span spans[] = {request->line, request->target, request->host, request->referer,
                                 request->user_agent};

    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++)
        check_span(spans[i], start, used);
    check_field(request, REQUEST_ACCEPT, request->accept);
    check_field(request, REQUEST_ACCEPT_ENCODING, request->accept_encoding);
    check_field(request, REQUEST_IF_MATCH, request->if_match);
    check_field(request, REQUEST_IF_NONE_MATCH, request->if_none_match);
    check_field(request, REQUEST_IF_MODIFIED_SINCE, request->if_modified_since);
    check_field(request, REQUEST_IF_UNMODIFIED_SINCE, request->if_unmodified_since);
    check_field(request, REQUEST_IF_RANGE, request->if_range);
    check_field(request, REQUEST_RANGE, request->range);
    MUST(used <= limits.head_bytes && request->line.length <= limits.line_bytes);
    MUST(memcmp(start + used - 4, "\r\n\r\n", 4) == 0);
    MUST(request->target.length > 0 &&
         memchr(request->target.start, ' ', request->target.length) == NULL);
    MUST(request->minor_version <= 1 && request->method <= METHOD_UNKNOWN);
    MUST(request->minor_version == 0 || request->host.length > 0);
    MUST(!request->chunked || (request->minor_version == 1 && request->content_length == 0));
    MUST(request->has_body == (request->chunked || request->content_length > 0));
    MUST(!request->expect_continue || request->has_body);
    MUST(request->content_length <= INT64_MAX);
}

/* Parses the same bytes again, one more with each call. */
static int parse_dripping(const char *copy, size_t size)
{
    struct request request;
    size_t scanned = 0;
    int result = 0;

    for (size_t length = 1; length <= size && result == 0; length++)
        result = request_parse(copy, length, &limits, &scanned, &request);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request, shorter;
    char *copy, *cut;
    int result = parse_copy(data, size, &request, &copy);
    int dripping = parse_dripping(copy, size);

    if (result > 0) {
        MUST(dripping == result);
        check_request(&request, copy, (size_t)result);
        MUST(parse_copy(data, (size_t)result - 1, &shorter, &cut) == 0);
        free(cut);
    } else if (result == 0) {
        MUST(dripping == 0);
        MUST(size < limits.head_bytes);
    } else {
        MUST(result == -400 || result == -414 || result == -417 || result == -421 ||
             result == -431 || result == -501 || result == -505);
        MUST(dripping == result || dripping == 0);
        check_span(request.line, copy, size);
    }
    free(copy);
    return 0;
}
