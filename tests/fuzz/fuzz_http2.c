/*
 * What HTTP/2 parses: the first byte selects a header block, trailers, SETTINGS or a Priority field. A
 * decoded request lies within its space, and the inflater goes on after each block.
 */
#include "daemon/http2/frame.h"
#include "daemon/http2/request_decoder.h"
#include "tests/fuzz/fuzz.h"

#include "common/macros.h"

#include <string.h>

enum { HEADER_BYTES = 1024 };

static const struct decoder_limits limits = {200, HEADER_BYTES, 8};

static void check_span(struct span span, const char *space)
{
    MUST(span.start == NULL ||
         (span.start >= space &&
          span.start + span.length <= space + DECODED_BYTES_MAX(HEADER_BYTES)));
}

static void check_request(const struct decoded_request *decoded, const char *space)
{
    const struct request *request = &decoded->request;
    const struct span spans[] = {request->line,    request->fields,     request->target,
                                 request->host,    request->user_agent, request->referer,
                                 decoded->priority};

    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++)
        check_span(spans[i], space);
    MUST(request->version == HTTP_2);
    if (decoded->status != 0)
        return;
    MUST(request->target.length > 0 && request->line.length <= limits.line_bytes + 9);
    for (size_t i = 0; i < request->line.length; i++)
        MUST((unsigned char)request->line.start[i] >= 0x20);
    for (int field = 1; field <= REQUEST_RANGE; field *= 2) {
        const char *at = NULL;
        struct span value;

        while (request_next_value(request, (enum request_field)field, &at, &value))
            check_span(value, space);
    }
}

/* Each block is two bytes of length and the bytes; one inflater decodes all. */
static void decode_blocks(const char *data, size_t size)
{
    char *space = malloc(DECODED_BYTES_MAX(HEADER_BYTES));
    nghttp2_hd_inflater *inflater;
    enum decoded result = DECODED_REQUEST;

    MUST(space != NULL && nghttp2_hd_inflate_new(&inflater) == 0);
    while (size > 2 && result != DECODED_FAILED) {
        size_t length = (size_t)((unsigned char)data[0] % 4 * 256 + (unsigned char)data[1]);
        bool trailers = (data[0] & 0x80) != 0, ends_stream = (data[0] & 0x40) != 0;
        struct decoded_request decoded;

        data += 2;
        size -= 2;
        length = length < size ? length : size;
        if (trailers)
            result = request_decode_trailers(inflater, (struct span){data, length});
        else
            result = request_decode(inflater, (struct span){data, length}, ends_stream, &limits,
                                    space, &decoded);
        if (result == DECODED_REQUEST && !trailers)
            check_request(&decoded, space);
        data += length;
        size -= length;
    }
    nghttp2_hd_inflate_del(inflater);
    free(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1); /* exactly as long, for AddressSanitizer */

    MUST(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    if (size > 0 && copy[0] == 's') {
        struct http2_settings settings = http2_settings_initial;

        if (http2_settings_read(&settings, copy + 1, size - 1) == HTTP2_NO_ERROR)
            MUST(settings.initial_window <= INT32_MAX && settings.max_frame_size >= 16384);
    } else if (size > 0 && copy[0] == 'p') {
        MUST(http2_priority_read((struct span){copy + 1, size - 1}).urgency < URGENCY_COUNT);
    } else if (size > 0) {
        decode_blocks(copy + 1, size - 1);
    }
    free(copy);
    return 0;
}
